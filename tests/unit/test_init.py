"""`quotaform init` in a repository that has clusters, and its questions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quotaform.cli.main import run
from quotaform.model.entity import Entity
from tests.builder import PRODUCER
from tests.scripted_gateway import ScriptedGateway

ALICE = Entity(user="alice")
US = ("--cluster", "us", "--bootstrap-server", "b:1", "--ci", "github")
LINES = '  us:\n    bootstrap_servers: ["b:1"]\n    cluster_id: b\n'


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    """A cluster with one quota, and a repository of another cluster in the current folder."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {eu: {bootstrap_servers: ['a:1']}}\n")
    (tmp_path / "schemas").mkdir()
    made = ScriptedGateway({ALICE: {PRODUCER: 1024.0}}, cluster_id="b")
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: made)
    monkeypatch.chdir(tmp_path)
    return made


def test_what_comes_next_for_a_further_cluster_can_be_run(
    gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last step was `quotaform plan`, which failed because there were two clusters by then."""
    assert run(["init", *US, "--import"]) == 0
    assert "  quotaform plan --cluster us\n" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--import"], ["--no-import"], ["--import", "--dry-run"]])
def test_of_a_further_cluster_only_what_is_in_the_way_is_named(
    gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """A second run said that the whole repository is to be moved away, as if it were the first cluster."""
    (Path("quotas.d") / "us").mkdir(parents=True)
    assert run(["init", *US, *options]) == 1
    told = capsys.readouterr().err
    assert told == (
        "Error: quotas.d/us exists already and is never overwritten, so nothing was written; if it holds the quotas of "
        f"this cluster, add to clusters in quotaform.yaml:\n{LINES}"
    )
    Path("quotaform.yaml").write_text(f"clusters:\n  eu: {{bootstrap_servers: ['a:1']}}\n{LINES}")
    assert run(["init", *US, *options]) == 1
    assert capsys.readouterr().err == (
        "Error: us is already in quotaform.yaml, so nothing was written; quotaform import --cluster us writes the "
        "quotas that no file declares yet\n"
    )


def test_a_cluster_without_quotas_is_called_that(gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]) -> None:
    """It was only said that a declared entity differs from the cluster, and that 1 of them is in the common files."""
    gateway.quotas = {}
    Path("quotas.d").mkdir()
    Path("quotas.d/a.yaml").write_text(f"quotas:\n  - {{match: {{user: a}}, values: {{{PRODUCER}: 1MiB/s}}}}\n")
    assert run(["init", *US, "--import"]) == 0
    assert capsys.readouterr().out.startswith(
        "No file was written.\n"
        "The cluster has no quotas.\n"
        "Warning: 1 entity in the files is missing on the cluster or has other values there; quotaform plan shows "
        "them.\n"
        "  It is in the common files, which apply to every cluster;"
    )


def test_without_an_import_it_is_said_that_nothing_was_written(
    gateway: ScriptedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of a further cluster began with an empty line."""
    assert run(["init", *US, "--no-import"]) == 0
    assert capsys.readouterr().out.startswith(
        "No file was written: the quotas of the cluster were not to be imported.\n\nNext:\n"
    )


def test_a_bad_answer_is_asked_for_again_at_once(
    gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name and the servers were looked at after the last question, and all of it had to be typed again."""
    answers = iter(["u s\n", "us\n", "b\n", "b:1\n", "nowhere\n", "\n"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("quotaform.cli.command.init.read_typed_line", lambda _: next(answers))
    assert run(["init", "--import", "--ci", "none"]) == 0
    shown, told = capsys.readouterr()
    assert "  quotaform plan --cluster us\n" in shown
    assert 'the cluster name "u s" must consist of letters, digits, dots, dashes and underscores\nName' in told
    assert 'The bootstrap server "b" is not host:port; write for example broker1:9092.\nBootstrap' in told
    assert "There is no file nowhere\nClient properties" in told
