"""Tables of this machine are looked at before Spark is started; what is said then is in `story-tables.txt`."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from quotaform.fleet import session
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import require_files
from quotaform.fleet.table import read_table, require_table
from quotaform.model.errors import EngineError, InvalidFilesError
from quotaform.usage.ingest.source import CSV, SourceTable, require_sources
from quotaform.usage.table.append import require_free

"""Whoever asks for Java is told first that there is none."""
NO_FILE = "cannot be read: there is no such file or directory; correct the path"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; other tests of this process may have a session."""
    monkeypatch.setattr(session, "_active_session", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("user\nalice\n", encoding="utf-8")


def test_what_is_there_and_what_only_spark_sees_is_left_to_it(folder: Path) -> None:
    write(folder / "parts/cluster=lab/part-0.parquet")
    write(folder / "people.csv")
    for name in ("parts", "./people.csv", "s3a://lake/none", "none/*.parquet"):
        require_table(name, LOCAL_SESSION)
    for name in ("people.csv", "parts", "s3a://lake/none.csv"):
        require_files(name, LOCAL_SESSION)
    require_files("none.csv", SessionOptions(remote="sc://host"))
    for name in ("nothing", "s3a://lake/usage"):
        require_free(name, LOCAL_SESSION)
    # A table of that name may be in the catalog.
    require_free("people.csv", SessionOptions(conf={"spark.sql.catalog.lake": "x"}))
    tables = [SourceTable("people.csv", CSV), SourceTable("*.csv", CSV)]
    require_sources(["people.csv", "*.csv", "s3a://lake/none"], tables, LOCAL_SESSION)


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


def test_a_table_that_is_named_and_not_there_is_said_before_spark_starts() -> None:
    for table in (SourceTable("none.csv", CSV), SourceTable("none.parquet", "parquet")):
        with pytest.raises(InvalidFilesError, match=NO_FILE):
            require_sources([table.name], [table], LOCAL_SESSION)


def test_java_that_ends_is_no_fault_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table was said to be unreadable (exit 3) when Java was killed while Spark looked at it."""
    spark = Mock()
    spark.read.format.side_effect = Py4JNetworkError("Error while sending or receiving")
    monkeypatch.setattr(session, "_active_session", lambda: spark)
    with pytest.raises(EngineError, match="its Java process has ended"), session.spark_session() as active:
        read_table(active, "kept/usage")
