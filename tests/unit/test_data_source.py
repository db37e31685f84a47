"""The data source: registered once for each session, and as careful on an executor as the driver is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pickle import dumps, loads
from typing import Any

import pytest

from quotaform.cluster.wire.failure import UnansweredError
from quotaform.desired.config import Cluster
from quotaform.fleet.bundle import DriverContext
from quotaform.fleet.data_source import (
    KafkaQuotas,
    dump_clusters,
    failure_row,
    load_clusters,
    register_source,
    require_read,
)
from quotaform.model.errors import (
    AuthenticationError,
    AuthorizationError,
    BlockedError,
    ClusterError,
    ConnectError,
    InvalidFilesError,
    PlanBlockedError,
    QuotaformError,
    UsageError,
)
from quotaform.model.finding import Allowance, Finding, Location, Severity
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.repository.gateway import connection_of
from quotaform.resolve.spark_quotas import FAILURE


@dataclass(eq=False)
class Session:
    """A session that notes what is registered."""

    found: list[Any] = field(default_factory=list)

    @property
    def dataSource(self) -> Session:  # noqa: N802 (as PySpark has it)
        return self

    @property
    def register(self) -> Callable[[Any], None]:
        return self.found.append


def test_a_session_is_told_once() -> None:
    """Each command in a notebook made Spark log that it overwrites the data source."""
    notebook, other = Session(), Session()
    for session in (notebook, notebook, other):
        register_source(session)  # type: ignore[arg-type]
    assert notebook.found == other.found == [KafkaQuotas]


def test_an_executor_knows_which_servers_quotaform_yaml_names(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=b1.example:9093\n")
    place = Location("quotaform.yaml", 3, 5)
    lab = Cluster(
        name="lab",
        bootstrap_servers=("evil.example:9093",),
        command_config=tmp_path / "client.properties",
        servers_location=place,
    )
    with pytest.raises(InvalidFilesError) as caught:
        connection_of(load_clusters(dump_clusters([lab]))[0])
    assert [problem.location for problem in caught.value.problems] == [place]


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


FULL = Finding(
    rule="r",
    message="ä\n\u2028",
    severity=Severity.WARNING,
    blocking=True,
    address="user=a",
    key="k",
    override="--x",
    allowance=Allowance("r", 3),
    allowed_by="--allow r=4",
    location=Location("a.yaml", 3, 4),
)


def again(error: QuotaformError) -> QuotaformError:
    with pytest.raises(QuotaformError) as caught:
        require_read(dict(zip(FAILURE.names, failure_row(error), strict=True)))
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("gone"),
        ConnectError("down"),
        AuthenticationError("who?"),
        ConnectError("No broker answers.", remedy="start one", cluster="lab", server="b1:9092"),
        AuthorizationError("You may not read", remedy="grant it DESCRIBE", code=31),
        UsageError("a:b is not host:port"),
        InvalidFilesError(
            [FULL, Finding(rule="s", message="n"), Finding(rule="t", message="o", location=Location("b"))]
        ),
    ],
)
def test_a_failure_is_raised_as_it_was(error: QuotaformError) -> None:
    raised = again(error)
    assert type(raised) is type(error)
    assert (str(raised), raised.args, vars(raised)) == (str(error), error.args, vars(error))
    require_read(None)


@pytest.mark.parametrize(
    ("error", "base"), [(UnansweredError("lost"), ClusterError), (PlanBlockedError("lab", [FULL]), BlockedError)]
)
def test_an_error_that_is_not_known_everywhere_is_its_base(error: QuotaformError, base: type[QuotaformError]) -> None:
    raised = again(error)
    assert type(raised) is base
    assert (str(raised), raised.exit_code) == (str(error), error.exit_code)


def test_an_attribute_that_is_not_understood_is_left_out() -> None:
    with pytest.raises(ClusterError, match=r"^words$") as caught:
        require_read({"kind": "ConnectError", "message": "words", "code": "31", "server": 7, "problems": None})
    assert (caught.value.code, caught.value.server, caught.value.problem) == (None, None, "words")


FOUND = '{"rule": "r", "message": "m", "severity": "error", "location": '
UNREADABLE = [
    *(None, "", "[", "7", "[7]", "[]", "{}", '[{"rule": "r"}]', "[" * 100_000),
    f"[{FOUND}null}}]".replace("error", "grave"),
    f'[{FOUND}{{"place": 1}}}}]',
    f'[{FOUND}null, "more": 1}}]',
]


@pytest.mark.parametrize("problems", UNREADABLE)
@pytest.mark.parametrize(
    "kind", ["InvalidFilesError", "Sequence", "annotations", "PlanBlockedError", "__name__", "", None]
)
def test_what_is_no_whole_error_of_ours_is_one_of_the_cluster(kind: str | None, problems: str | None) -> None:
    with pytest.raises(ClusterError, match=r"^words$"):
        require_read({"kind": kind, "message": "words", "problems": problems})
