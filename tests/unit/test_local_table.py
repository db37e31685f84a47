"""Tables of this machine are looked at before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from quotaform.fleet import session
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import require_files
from quotaform.fleet.table import require_table
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.usage.ingest.source import CSV, SourceTable, require_sources
from quotaform.usage.table.append import require_free

"""Whoever asks for Java is told first that there is none."""
NO_FILE = "cannot be read: there is no such file or directory; correct the path"
NO_TABLE = "cannot be read: there is neither such a file nor such a table in the catalog; correct the name"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; other tests of this process may have a session."""
    monkeypatch.setattr(session, "_active_session", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("user\nalice\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/at-all", NO_FILE),
        ("none.parquet", NO_FILE),
        ("none", NO_TABLE),
        ("people.csv", "cannot be read: it is a file; name a directory of Parquet files, or a file *.parquet"),
        ("a" * 300 + "/b", "cannot be read: File name too long"),
    ],
)
def test_where_there_is_no_table_it_is_said_before_spark_starts(folder: Path, name: str, reason: str) -> None:
    write(folder / "people.csv")
    with pytest.raises(InvalidFilesError) as caught:
        require_table(name, LOCAL_SESSION)
    assert str(caught.value).splitlines()[0] == f"{name}: error: the table {reason} [table]"


@pytest.mark.parametrize("name", ["parts", "./people.csv", "s3a://lake/none", "none/*.parquet"])
def test_what_is_there_is_left_to_spark(folder: Path, name: str) -> None:
    write(folder / "parts/cluster=lab/part-0.parquet")
    write(folder / "people.csv")
    require_table(name, LOCAL_SESSION)


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (SessionOptions(remote="sc://host"), {}),
        (SessionOptions(conf={"spark.sql.catalogImplementation": "hive"}), {}),
        (LOCAL_SESSION, {"SPARK_CONF_DIR": "/etc/spark"}),
        (LOCAL_SESSION, {"SPARK_REMOTE": "sc://host"}),
        (LOCAL_SESSION, {"PYSPARK_GATEWAY_PORT": "1"}),
    ],
)
def test_a_session_that_somebody_configured_may_have_tables(
    monkeypatch: pytest.MonkeyPatch, options: SessionOptions, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    require_table("usage", options)


def test_settings_that_are_not_about_tables_leave_the_catalog_empty() -> None:
    with pytest.raises(InvalidFilesError, match="neither such a file nor such a table"):
        require_table("usage", SessionOptions(conf={"spark.driver.memory": "4g"}))


@pytest.mark.parametrize(("name", "reason"), [("none.csv", NO_FILE), ("none/at-all", NO_FILE), ("none", NO_TABLE)])
def test_principals_are_a_table_or_a_text_file(folder: Path, name: str, reason: str) -> None:
    write(folder / "people.csv")
    write(folder / "people/part-0.parquet")
    for there in ("people.csv", "people", "s3a://lake/none.csv"):
        require_files(there, LOCAL_SESSION)
    require_files(name, SessionOptions(remote="sc://host"))
    with pytest.raises(InvalidFilesError, match=f"{name}: error: it {reason}"):
        require_files(name, LOCAL_SESSION)


def test_rows_are_not_added_to_a_file(folder: Path) -> None:
    write(folder / "file")
    for name in ("nothing", "s3a://lake/usage"):
        require_free(name, LOCAL_SESSION)
    for name in ("file", "./file"):
        with pytest.raises(UsageError, match=r"file is a file, and a table that rows are added to is a directory"):
            require_free(name, LOCAL_SESSION)
    # A table of that name may be in the catalog.
    require_free("file", SessionOptions(conf={"spark.sql.catalog.lake": "x"}))


def test_sources_name_files(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "a.json").write_text("{}", encoding="utf-8")
    (folder / "a.csv").write_text("user\n", encoding="utf-8")
    require_sources(["a.json", "*.json", "s3a://lake/none"], [], LOCAL_SESSION)
    require_sources(["a.csv", "*.csv"], [SourceTable("a.csv", CSV), SourceTable("*.csv", CSV)], LOCAL_SESSION)
    for name, reason in {"empty": "has no files", "b.json": "is not a file", "*.jsonl": "is not a file"}.items():
        with pytest.raises(UsageError, match=reason):
            require_sources(["a.json", name], [], LOCAL_SESSION)
    for table in (SourceTable("none.csv", CSV), SourceTable("none.parquet", "parquet")):
        with pytest.raises(InvalidFilesError, match=NO_FILE):
            require_sources([table.name], [table], LOCAL_SESSION)
