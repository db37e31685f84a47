"""The data source without a session, and tables that are looked at before Spark starts (`story-tables.txt`)."""

from __future__ import annotations

import os
from pathlib import Path
from pickle import dumps, loads
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from quotaform.cluster.wire.failure import UnansweredError
from quotaform.desired.config import Cluster
from quotaform.fleet import session
from quotaform.fleet.data_source import (
    PLAN_ROWS,
    PlanWriter,
    Written,
    cluster_changes,
    clusters_of,
    failed_row,
    read_failure,
)
from quotaform.fleet.job import DriverContext
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import require_files
from quotaform.fleet.table import read_table, require_table
from quotaform.model.errors import (
    AuthorizationError,
    ConnectError,
    EngineError,
    ExitCode,
    InvalidFilesError,
    PartialError,
    PlanBlockedError,
    QuotaformError,
)
from quotaform.model.finding import Finding, Location
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.plan.receipt import Result
from quotaform.usage.format.text import TABLE
from quotaform.usage.ingest.run import IngestRequest, require_ingestible
from quotaform.usage.metric_name import Origin
from quotaform.usage.table.files import require_free
from tests.builder import CONSUMER, PRODUCER


def test_options_name_clusters_as_a_user_would(tmp_path: Path) -> None:
    (tmp_path / "quotaform.yaml").write_text("clusters: {eu: {bootstrap_servers: ['a:1']}, us: {snapshot: us.json}}\n")
    of_files = {"repository": str(tmp_path)}
    assert [each.name for each in clusters_of(of_files)] == ["eu", "us"]
    assert [each.name for each in clusters_of({**of_files, "cluster": "u*,eu"})] == ["eu", "us"]
    (lab,) = clusters_of({"bootstrap_servers": "a:1,b:2", "command_config": "/etc/admin.properties", "cluster": "lab"})
    assert lab == Cluster(name="lab", bootstrap_servers=("a:1", "b:2"), command_config=Path("/etc/admin.properties"))
    assert clusters_of({"snapshot": "/lab.json"}) == [Cluster(name="/lab.json", snapshot=Path("/lab.json"))]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give one of the options repository, bootstrap_servers, snapshot"),
        ({"snapshot": "a", "bootstrap_servers": "a:1"}, "give one of the options"),
        ({"snapshot": "a", "command_config": "b"}, "command_config is for bootstrap_servers"),
        ({"bootstrap.servers": "a:1"}, r"kafka_quotas has no option bootstrap.servers; the options are repository, "),
        ({"repository": "nowhere"}, r"quotaform\.yaml"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        clusters_of(options)


GOOD = ("eu", "id", "user=alice", {"user": "alice"}, PRODUCER, None, 5.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({2: "user=mallory"}, "entity_key is not that of the entity, which is user=alice"),
        ({4: "no_such_key"}, "key is not known to this version"),
        ({6: -1.0}, "after is a value that files cannot declare"),
        ({6: None}, "before and after are the same"),
        ({4: None}, "key is null; nothing was written to the cluster"),
        ({6: 7.0}, "is in more than one row"),
        ({1: "other", 4: CONSUMER}, "the rows of the cluster have 2 ids"),
    ],
)
def test_a_row_that_no_plan_has_is_refused_with_its_cluster(changed: dict[int, Any], message: str) -> None:
    rows = [tuple(changed.get(place, value) for place, value in enumerate(GOOD)), GOOD]
    with pytest.raises(QuotaformError, match=message):
        cluster_changes("eu", [dict(zip(PLAN_ROWS.names, row, strict=True)) for row in rows])


def test_the_size_of_what_a_task_reports_does_not_grow_with_the_entities() -> None:
    written, other = Written(), Written()
    for number in range(1000):
        written.add("eu", Result.REFUSED if number % 2 else Result.APPLIED, f"reason {number % 20}")
    other.add(None, Result.APPLIED, "")
    assert written.counts == {"applied": 500, "refused": 500}
    assert written.reasons == [f"eu: reason {number}" for number in (1, 3, 5, 7, 9)]
    with pytest.raises(PartialError) as raised:
        PlanWriter([]).commit([written, Written(), other, written])
    assert str(raised.value) == (
        "1,000 of 2,001 entities do not hold what was written (1,000 refused): eu: reason 1; eu: reason 3; "
        "eu: reason 5; eu: reason 7; eu: reason 9"
    )
    other.unsaved.append("eu: disk full")
    with pytest.raises(PartialError, match="all is written, but 1 receipts are not: eu: disk full"):
        PlanWriter([]).commit([other])


def test_what_the_operator_allows_goes_to_the_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a host that the command refuses would be asked by its executors."""
    monkeypatch.setenv(ALLOWED_HOSTS, "b1.example")
    monkeypatch.setenv(ALLOW_LIST, "KAFKA_CONFIG")
    sent = dumps(DriverContext.current(None))
    monkeypatch.setenv(ALLOWED_HOSTS, "evil.example")
    monkeypatch.delenv(ALLOW_LIST)
    with loads(sent).entered():  # noqa: S301 (our own)
        assert (os.environ[ALLOWED_HOSTS], os.environ[ALLOW_LIST]) == ("b1.example", "KAFKA_CONFIG")
    assert os.environ[ALLOWED_HOSTS] == "evil.example"
    assert ALLOW_LIST not in os.environ


def test_a_driver_without_allowed_hosts_leaves_those_of_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that an administrator had set for the executors was gone in their tasks."""
    monkeypatch.delenv(ALLOWED_HOSTS, raising=False)
    sent = DriverContext.current(None)
    monkeypatch.setenv(ALLOWED_HOSTS, "b1.example")
    with sent.entered():
        assert os.environ[ALLOWED_HOSTS] == "b1.example"


@pytest.mark.parametrize(
    "error",
    [
        ConnectError("No broker answers.", remedy="start one", cluster="lab", server="b1:9092"),
        AuthorizationError("You may not read", remedy="grant it DESCRIBE", code=31),
        UnansweredError("lost"),
        PlanBlockedError([Finding(rule="r", message="m", blocking=True)]),
    ],
)
def test_a_failure_has_the_message_and_the_exit_code_of_the_error(error: QuotaformError) -> None:
    raised = read_failure(failed_row(None, error)[6])
    assert (str(raised), raised.exit_code) == (str(error), error.exit_code)


def test_a_failure_of_files_has_a_line_for_each_problem() -> None:
    located = Finding(rule="r", message="m", location=Location("a.yaml", 3))
    error = InvalidFilesError([located, Finding(rule="s", message="n")])
    raised = read_failure(failed_row(None, error)[6])
    assert str(raised) == "a.yaml:3: error: m [r]\nerror: n [s]"
    assert raised.exit_code is ExitCode.INVALID


@pytest.mark.parametrize("kind", ["Sequence", "annotations", "__name__", "", None])
def test_what_is_no_error_of_ours_is_one_of_the_cluster(kind: str | None) -> None:
    raised = read_failure({"kind": kind, "message": "words"})
    assert (str(raised), raised.exit_code) == ("words", ExitCode.ERROR)


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
    require_ingestible(tables("people.csv", "*.csv", "s3a://lake/none"), LOCAL_SESSION)


def tables(*sources: str) -> IngestRequest:
    return IngestRequest(
        sources=sources, usage="new", quarantine="bad", format_name=TABLE, origin=Origin(), declared=None
    )


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
    for name in ("none.csv", "./none", "none.parquet"):
        with pytest.raises(InvalidFilesError, match=NO_FILE):
            require_ingestible(tables(name), LOCAL_SESSION)


def test_java_that_ends_is_no_fault_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table was said to be unreadable (exit 3) when Java was killed while Spark looked at it."""
    spark = Mock()
    spark.read.options.return_value.format.side_effect = Py4JNetworkError("Error while sending or receiving")
    monkeypatch.setattr(session, "_active_session", lambda: spark)
    with pytest.raises(EngineError, match="its Java process has ended"), session.spark_session() as active:
        read_table(active, "kept/usage")
