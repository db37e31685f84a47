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


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    """A cluster with one quota, and a repository of another cluster in the current folder."""
    (tmp_path / "quotaform.yaml").write_text("clusters: {eu: {bootstrap_servers: ['a:1']}}\n")
    (tmp_path / "schemas").mkdir()
    made = ScriptedGateway({ALICE: {PRODUCER: 1024.0}}, cluster_id="b")
    monkeypatch.setattr("quotaform.cluster.kafka.KafkaGateway.connect", lambda *_, **__: made)
    monkeypatch.chdir(tmp_path)
    return made


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
