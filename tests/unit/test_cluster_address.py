"""Where a cluster is and how to connect to it: variables are looked up when it is reached, and never show."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.failure import Failure, Stage, connect_error
from quotaform.desired.config import Cluster
from quotaform.model.server import HiddenServer, Server
from quotaform.model.text import Secret
from quotaform.repository.gateway import bootstrap_servers
from tests.loading import load_config

SECRET = "s3cr3t-host"
ALICE = Password(mechanism="PLAIN", username="alice", password=Secret("alice-secret"))
LISTED = {
    "QUOTAFORM_ENV": "QUOTAFORM_SERVERS,QUOTAFORM_HOST,QUOTAFORM_LOCAL,QUOTAFORM_SECRETS,QUOTAFORM_COMMAND_CONFIG"
}


def cluster(folder: Path, *servers: str, command_config: str | None = None) -> Cluster:
    listed = ", ".join(f"'{server}'" for server in servers)
    properties = f", command_config: '{command_config}'" if command_config else ""
    path = folder / "quotaform.yaml"
    path.write_text(f"clusters: {{lab: {{bootstrap_servers: [{listed}]{properties}}}}}\n")
    return load_config(path).clusters["lab"]


def test_servers_come_from_variables_and_show_as_they_are_written(tmp_path: Path) -> None:
    lab = cluster(tmp_path, "${env:QUOTAFORM_SERVERS}", "${env:QUOTAFORM_HOST}:9092", "x:1")
    found = bootstrap_servers(lab, {"QUOTAFORM_SERVERS": "a:1,b:2", "QUOTAFORM_HOST": "c", **LISTED})
    assert found == (Server("a", 1), Server("b", 2), Server("c", 9092), "x:1")
    assert list(map(str, found)) == [
        "${env:QUOTAFORM_SERVERS}",
        "${env:QUOTAFORM_SERVERS}",
        "${env:QUOTAFORM_HOST}:9092",
        "x:1",
    ]


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("cause", [TimeoutError(), ConnectionRefusedError(111, "refused"), OSError("x")])
def test_a_failure_at_any_step_names_a_server_as_it_is_written(stage: Stage, cause: Exception) -> None:
    server = HiddenServer(SECRET, 9092, "${env:QUOTAFORM_HOST}:9092")
    failures = [Failure(server=str(server), stage=stage, cause=cause, seconds=1.0)] * 2
    error = connect_error("lab", ClientConfig(security_protocol="SASL_SSL", credentials=ALICE), failures)
    assert "${env:QUOTAFORM_HOST}" in str(error)
    assert SECRET not in f"{error} {error.server} {server!r} {server}"


def test_a_hidden_server_stays_hidden_in_another_process() -> None:
    server = HiddenServer(SECRET, 9092, "${env:QUOTAFORM_HOST}:9092")
    copied = pickle.loads(pickle.dumps(server))  # noqa: S301 (our own)
    assert (copied, str(copied)) == (server, "${env:QUOTAFORM_HOST}:9092")


def test_a_cluster_without_variables_needs_none(tmp_path: Path) -> None:
    lab = cluster(tmp_path, "b:1")
    assert bootstrap_servers(lab, {}) == ("b:1",)
