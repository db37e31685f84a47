"""Where a cluster is and how to connect to it: variables are looked up when it is reached, and never show."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.connect_error import connect_error
from quotaform.cluster.wire.failure import Failure, Stage
from quotaform.desired.config import Cluster
from quotaform.model.errors import ClusterError, InvalidFilesError
from quotaform.model.server import HiddenServer, Server
from quotaform.model.text import Secret
from quotaform.repository.gateway import bootstrap_servers, client_config, open_gateway
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


@pytest.mark.parametrize(
    ("server", "environment", "said"),
    [
        ("${env:QUOTAFORM_HOST}:9092", {}, "the environment variable QUOTAFORM_HOST is not set; set it"),
        (
            "${env:HOST}:9092",
            {"HOST": SECRET},
            "the environment variable HOST may not be read; the operator must list it in",
        ),
        ("${env:QUOTAFORM_HOST}", {"QUOTAFORM_HOST": SECRET}, "${env:QUOTAFORM_HOST} is not set to HOST:PORT"),
        ("${env:QUOTAFORM_HOST}", {"QUOTAFORM_HOST": ""}, "${env:QUOTAFORM_HOST} is not set to HOST:PORT"),
    ],
)
def test_a_variable_that_is_no_address_is_told_with_its_place(
    tmp_path: Path, server: str, environment: dict[str, str], said: str
) -> None:
    lab = cluster(tmp_path, server)
    with pytest.raises(InvalidFilesError) as caught:
        bootstrap_servers(lab, environment | LISTED)
    [problem] = caught.value.problems
    assert str(problem.location).endswith("quotaform.yaml:1:38")
    assert problem.message.startswith(said)
    assert SECRET not in str(caught.value)


def test_no_failure_to_connect_shows_what_a_variable_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a server was asked of DNS and printed, so that a pull request could read secrets of the machine."""
    monkeypatch.setenv("QUOTAFORM_ENV", LISTED["QUOTAFORM_ENV"])
    monkeypatch.setenv("QUOTAFORM_HOST", f"{SECRET}.invalid")
    monkeypatch.setenv("QUOTAFORM_LOCAL", "127.0.0.1:1")
    for written in ("${env:QUOTAFORM_HOST}:9092", "${env:QUOTAFORM_LOCAL}"):
        with pytest.raises(ClusterError) as caught:
            open_gateway(cluster(tmp_path, written))
        assert written in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "127.0.0.1" not in str(caught.value)


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


def test_properties_that_a_variable_names_show_as_they_are_written(tmp_path: Path) -> None:
    """The operator says with a variable where the properties are, so that they need not be in the repository."""
    secret = tmp_path / "s3cr3t"
    secret.mkdir()
    (secret / "client.properties").write_text("client.id=x\n")
    repository = tmp_path / "repository"
    repository.mkdir()
    lab = cluster(repository, "b:1", command_config="${env:QUOTAFORM_SECRETS}/client.properties")
    assert client_config(lab, {"QUOTAFORM_SECRETS": str(secret), **LISTED}).client_id == "x"
    (secret / "client.properties").write_text("nonsense=x\n")
    written = "${env:QUOTAFORM_SECRETS}/client.properties"
    missing = f'{repository}/quotaform.yaml:1:62: error: cluster "lab": command_config {written}: there is no such file'
    for path, said in ((secret, f"{written}:1: error"), (secret / "none", missing)):
        with pytest.raises(InvalidFilesError) as caught:
            client_config(lab, {"QUOTAFORM_SECRETS": str(path)} | LISTED)
        assert str(caught.value).startswith(said)
        assert "s3cr3t" not in str(caught.value)


def test_a_variable_for_the_properties_that_is_empty_is_named(tmp_path: Path) -> None:
    """The message was that a directory cannot be read."""
    lab = cluster(tmp_path, "b:1", command_config="${env:QUOTAFORM_COMMAND_CONFIG}")
    with pytest.raises(InvalidFilesError) as caught:
        client_config(lab, {"QUOTAFORM_COMMAND_CONFIG": "", **LISTED})
    (problem,) = caught.value.problems
    assert (problem.rule, problem.message) == (
        "unset-variable",
        "${env:QUOTAFORM_COMMAND_CONFIG} is empty; set the environment variable to the path of a client properties "
        "file",
    )


def test_a_cluster_without_variables_needs_none(tmp_path: Path) -> None:
    lab = cluster(tmp_path, "b:1")
    assert bootstrap_servers(lab, {}) == ("b:1",)
