"""The data source: registered once for each session, and as careful on an executor as the driver is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pickle import dumps, loads
from typing import Any

import pytest

from quotaform.desired.config import Cluster
from quotaform.fleet.bundle import DriverContext
from quotaform.fleet.data_source import KafkaQuotas, dump_clusters, load_clusters, register_source
from quotaform.model.errors import InvalidFilesError
from quotaform.model.finding import Location
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.repository.gateway import connection_of


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
