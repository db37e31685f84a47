"""Tables of this machine are looked at before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from quotaform.fleet import session
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import require_files
from quotaform.fleet.table import require_table
from quotaform.model.errors import InvalidFilesError, UsageError
from quotaform.usage.ingest.source import CSV, SourceTable, require_sources
from quotaform.usage.table.append import require_free
from quotaform.usage.table.schema import USAGE

"""Whoever asks for Java is told first that there is none."""
NO_FILE = "cannot be read: there is no such file or directory; correct the path"
NO_TABLE = "cannot be read: there is neither such a file nor such a table in the catalog; correct the name"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; other tests of this process may have a session."""
    monkeypatch.setattr(session, "_active_session", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, *columns: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({name: [1] for name in columns}), path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/at-all", NO_FILE),
        ("none.parquet", NO_FILE),
        ("none", NO_TABLE),
        ("empty", "cannot be read: there are no rows and no columns in it"),
        ("texts", 'cannot be read: "a/people.csv" in it is not a Parquet file'),
        ("./texts/a/people.csv", "cannot be read: it is not a Parquet file"),
        ("people.csv", "cannot be read: it is a file; name a directory of Parquet files, or a file *.parquet"),
        ("other", "lacks the column rate; it has ts, cluster"),
        ("other/cluster=lab/part-0.parquet", "lacks the columns cluster, rate; it has ts"),
        ("a" * 300 + "/b", "cannot be read: File name too long"),
    ],
)
def test_what_is_no_such_table_is_reported(folder: Path, name: str, reason: str) -> None:
    for text in ("empty/_SUCCESS", "texts/a/people.csv", "people.csv"):
        (folder / text).parent.mkdir(parents=True, exist_ok=True)
        (folder / text).write_text("user\nalice\n", encoding="utf-8")
    write(folder / "other/cluster=lab/part-0.parquet", "ts")
    with pytest.raises(InvalidFilesError) as caught:
        require_table(name, ["ts", "cluster", "rate"], LOCAL_SESSION)
    assert str(caught.value).splitlines()[0] == f"{name}: error: the table {reason} [table]"


@pytest.mark.parametrize(
    "name", ["parts", "merged", "cut", "s3a://lake/none", "none/*.parquet", "lake.orc/_delta_log", "locked"]
)
def test_what_may_be_such_a_table_is_left_to_spark(folder: Path, name: str) -> None:
    write(folder / "parts/cluster=lab/part-0.parquet", "ts", "rate")
    write(folder / "parts/_logs/part-0.parquet", "no")
    # Where Spark merges the schemas of files, it has all columns.
    write(folder / "merged/part-0.parquet", "ts")
    write(folder / "merged/part-1.parquet", "cluster", "rate")
    (folder / "cut").mkdir()
    (folder / "cut/part-0.parquet").write_bytes(b"PAR1")
    (folder / "lake.orc/_delta_log").mkdir(parents=True)
    write(folder / "lake.orc/_delta_log/part-0.parquet", "ts", "cluster", "rate")
    write(folder / "locked/part-0.parquet", "ts", "cluster", "rate")
    require_table(name, ["ts", "cluster", "rate"], LOCAL_SESSION)


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
    require_table("usage", ["ts"], options)


def test_settings_that_are_not_about_tables_leave_the_catalog_empty() -> None:
    with pytest.raises(InvalidFilesError, match="neither such a file nor such a table"):
        require_table("usage", ["ts"], SessionOptions(conf={"spark.driver.memory": "4g"}))


@pytest.mark.parametrize(("name", "reason"), [("none.csv", NO_FILE), ("none/at-all", NO_FILE), ("none", NO_TABLE)])
def test_principals_are_a_table_or_a_text_file(folder: Path, name: str, reason: str) -> None:
    (folder / "people.csv").write_text("user\nalice\n", encoding="utf-8")
    write(folder / "people/part-0.parquet", "user")
    for there in ("people.csv", "people", "s3a://lake/none.csv"):
        require_files(there, LOCAL_SESSION)
    require_files(name, SessionOptions(remote="sc://host"))
    with pytest.raises(InvalidFilesError, match=f"{name}: error: it {reason}"):
        require_files(name, LOCAL_SESSION)


def test_rows_are_added_to_usage_or_to_a_new_directory_alone(folder: Path) -> None:
    write(folder / "other/part-0.parquet", "ts")
    (folder / "file").write_text("", encoding="utf-8")
    (folder / "new/_temporary").mkdir(parents=True)
    write(folder / "usage/part-0.parquet", *USAGE.names)
    for name in ("nothing", "new", "usage", "s3a://lake/usage"):
        require_free(name, USAGE, LOCAL_SESSION)
    with pytest.raises(InvalidFilesError, match="the table lacks the columns window_s, cluster"):
        require_free("other", USAGE, LOCAL_SESSION)
    for name in ("file", "./file"):
        with pytest.raises(UsageError, match=r"file is a file, and a table that rows are added to is a directory"):
            require_free(name, USAGE, LOCAL_SESSION)
    # A table of that name may be in the catalog.
    require_free("file", USAGE, SessionOptions(conf={"spark.sql.catalog.lake": "x"}))


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
