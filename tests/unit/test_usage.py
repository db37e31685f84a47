"""What is said of wrong usage: one sentence in one style, with exit code 64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.cluster.snapshot import dump_snapshot
from quotaform.model.entity import Entity
from quotaform.model.quotas import Snapshot
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotaform.yaml").write_text("clusters: {lab: {snapshot: lab.json}}\n")
    Path("quotas.d").mkdir()
    quotas = {Entity(user="a"): {PRODUCER: 1.0, "future_rate": 2.0}, Entity(user="b"): {PRODUCER: 1.0}}
    taken = Snapshot(cluster_name="lab", cluster_id="id", captured_at="2026-11-20T09:12:44Z", quotas=quotas)
    Path("lab.json").write_text(dump_snapshot(taken))


ALICE = Entity(user="a", client_id=None)
ODD = Entity(user='CN="x",O=<default>', client_id="")


@pytest.mark.parametrize("entity", [ALICE, ODD], ids=str)
def test_an_address_that_was_printed_names_the_entity_in_every_command(
    entity: Entity, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`describe user=svc-1` was wrong usage: five commands had five ways to name an entity."""
    gateway = ScriptedGateway({entity: {PRODUCER: 5.0}, Entity(user="b"): {PRODUCER: 1.0}})
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: gateway)
    Path("quotas.d/a.yaml").write_text(
        json.dumps({"quotas": [{"match": {"user": "a", "client-id": "<default>"}, "values": {PRODUCER: 1}}]})
    )
    where = ("--bootstrap-server", "127.0.0.1:1", "--cluster", "lab")
    assert run(["describe", entity.address, *where, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["quotas"]
    assert found["address"] == entity.address
    assert run(["explain", entity.address]) == (0 if entity is ALICE else 1)
    assert entity.address in "".join(capsys.readouterr())
    if entity is ALICE:
        assert run(["alter", entity.address, "--add", f"{PRODUCER}=7", *where]) == 0
        assert gateway.quotas[entity] == {PRODUCER: 7.0}


def test_an_entity_without_quotas_may_be_limited_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "user=nobody"]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("No entity matches.\n")
    assert printed.err.startswith("user=nobody has no quotas of its own; quotaform resolve shows which ones limit")


def test_a_request_is_written_as_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    """`resolve user=a` was wrong usage."""
    assert run(["resolve", "user=a", "--format", "json"]) == 0
    as_address = json.loads(capsys.readouterr().out)
    assert run(["resolve", "--name", "user=a", "--format", "json"]) == 0
    as_options = json.loads(capsys.readouterr().out)
    assert as_address["requests"] == as_options["requests"]
    assert run(["resolve", "user=a,client-id="]) == 0
    assert 'user=a,client-id=""' in capsys.readouterr().out


def test_a_quota_key_that_only_the_cluster_knows_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "--quota-type", "future_rate", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["quotas"][0]["values"] == {"future_rate": 2}
    assert run(["describe", "--quota-type", "future_rate", "--name", "user=b"]) == 0
    assert capsys.readouterr().out.endswith("No entity matches.\n")


def test_a_misspelt_key_is_not_sent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker refused `producer_byte_rat`, with exit code 1; a newer broker may know one that is like none."""
    gateway = ScriptedGateway({})
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: gateway)
    alter = ["alter", "--bootstrap-server", "127.0.0.1:1", "--cluster", "lab", "--name", "user=a", "--add"]
    assert run([*alter, "producer_byte_rat=1"]) == 64
    assert '"producer_byte_rat" is not a quota key; did you mean producer_byte_rate?' in capsys.readouterr().err
    assert not gateway.log
    assert run([*alter, "future_rate=1"]) == 0
    assert gateway.quotas == {Entity(user="a"): {"future_rate": 1.0}}


def test_quiet_leaves_warnings_out(capsys: pytest.CaptureFixture[str]) -> None:
    """`validate -q` printed warnings, which `--quiet` says it does not."""
    Path("quotas.d/a.yaml").write_text("quotas: [{match: {user: default}, values: {producer_byte_rate: 1}}]\n")
    Path("quotas.d/b.yaml").write_text('quotas: [{match: {user: "a*"}, values: {producer_byte_rate: 1}, owner: "x"}]\n')
    assert run(["validate"]) == 0
    assert ": warning: " in capsys.readouterr().out
    assert run(["validate", "-q"]) == 0
    assert capsys.readouterr().out == "Valid: 2 files in quotas.d, 2 entities for lab.\n"


@pytest.mark.parametrize("command", ["validate", "plan", "drift", "explain user=a"])
def test_every_problem_begins_its_line_with_its_place(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first problem stood behind `quotaform: `, so that editors and problem matchers missed it."""
    Path("quotas.d/a.yaml").write_text("quotas: [{match: {user: a}, valus: {}}, {match: {usr: a}, values: {}}]\n")
    assert run(command.split()) == 3
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert len(lines) > 2
    assert all(line.startswith("quotas.d/a.yaml:1:") for line in lines[:-1])


@pytest.mark.parametrize("line", ["import --output", "plan --config", "plan", "validate", "plan --snapshot", "show"])
def test_a_name_that_is_too_long_for_the_file_system_is_no_internal_error(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import --output` with a name of 100,000 characters ended with an internal error."""
    assert run([*line.split(), "a" * 100_000]) in (1, 3, 64)
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["plan --config {}", "apply {}", "show {}", "describe --snapshot {}"])
def test_a_very_long_argument_is_not_repeated_whole(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument of 100,000 characters was printed whole, and the remedy scrolled away."""
    assert run(line.format("A" * 100_000).split()) in {1, 3, 64}
    printed = capsys.readouterr().err
    assert len(printed) < 2_100
    assert "more characters" in printed


def test_a_very_long_argument_of_kafka_client_quotas_is_not_repeated_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from quotaform.cli.client_quotas.command import run as run_client_quotas

    assert run_client_quotas(["--describe", "--bootstrap-server", "b:1", "--command-config", "A" * 100_000]) == 1
    assert len(capsys.readouterr().err) < 2_100


@pytest.mark.parametrize("server", ["hunter2secret", "${env:QUOTAFORM_SERVERS}"])
@pytest.mark.parametrize("line", ["describe --bootstrap-server {}", "scram describe --bootstrap-server {}"])
def test_a_server_that_is_given_has_nothing_to_do_with_the_variables_of_the_file(
    line: str, server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where quotaform.yaml referred to variables, a server without a port was an internal error that quoted it."""
    monkeypatch.setenv("QUOTAFORM_ENV", "QUOTAFORM_CLIENT,QUOTAFORM_SERVERS")
    monkeypatch.setenv("QUOTAFORM_CLIENT", "client.properties")
    monkeypatch.setenv("QUOTAFORM_SERVERS", "127.0.0.1:1")
    Path("client.properties").write_text("security.protocol=PLAINTEXT\n")
    Path("quotaform.yaml").write_text(
        "clusters:\n  lab:\n    bootstrap_servers: ['${env:QUOTAFORM_SERVERS}']\n"
        "    command_config: ${env:QUOTAFORM_CLIENT}\n"
    )
    assert run(line.format(server).split()) == 64
    error = capsys.readouterr().err
    assert "is not host:port" in error
    assert "internal" not in error
    assert ("hunter2secret" in error) == (line.startswith("describe") and "hunter2secret" in server)


@pytest.mark.parametrize("words", [{}, {"COMP_WORDS": "quotaform ", "COMP_CWORD": "x"}])
def test_a_completion_that_no_shell_asks_for_is_no_internal_error(
    words: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable of completion in the environment of any command ended in a KeyError."""
    monkeypatch.setenv("_QUOTAFORM_COMPLETE", "complete_bash")
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    assert run(["plan"]) == 64
    assert capsys.readouterr().err.endswith("unset it\n")
