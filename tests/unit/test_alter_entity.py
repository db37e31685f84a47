"""Altering one entity on a cluster that refuses, forgets, is slow or goes away."""

from __future__ import annotations

from io import TextIOWrapper
from pathlib import Path

import pytest

from quotaform.cli.client_quotas import command as client_quotas
from quotaform.cli.command.alter import read_ops
from quotaform.cli.main import run
from quotaform.model.entity import Entity
from quotaform.model.errors import UsageError
from quotaform.repository import gateway as gateways
from quotaform.resolve.quota_admin import QuotaAdmin
from tests.builder import CONSUMER, PRODUCER
from tests.scripted_gateway import Answer, ScriptedGateway

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
BEFORE = {ALICE: {PRODUCER: 1.0, CONSUMER: 1.0}, BOB: {PRODUCER: 7.0}}


@pytest.mark.parametrize("text", ["future_rate=", "future_rate=NaN", "future_rate=1e999", "future_rate=unlimited"])
def test_an_unknown_key_takes_a_plain_number_alone(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a finite decimal number; .* is not known to this version"):
        read_ops(ALICE, [text], [])


@pytest.mark.parametrize(
    ("options", "told"), [([], "It is not known whether user=alice was changed"), (["--validate-only"], "")]
)
def test_an_interrupt_says_that_the_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    interrupted = [Answer(raises=KeyboardInterrupt())]
    gateway = ScriptedGateway(BEFORE, writes=interrupted, validates=interrupted)
    monkeypatch.setattr(gateways, "open_gateway", lambda cluster: gateway)
    words = ["alter", "--bootstrap-server", "lab:9092", "user=alice", "--add", f"{PRODUCER}=2", *options]
    assert run(words) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(told)
    assert gateway.log[-1] == "close"


class _Terminal(TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "options", "code", "sent"),
    [
        ("lab\n", [], 0, 1),
        ("yes\n", [], 4, 0),
        ("", [], 4, 0),
        ("", ["--auto-approve"], 0, 1),
        ("", ["--validate-only"], 0, 0),
    ],
)
def test_a_cluster_may_ask_for_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str, options: list[str], code: int, sent: int
) -> None:
    config = tmp_path / "quotaform.yaml"
    config.write_text("clusters: {lab: {bootstrap_servers: ['b:9092'], confirm: name}}\n", encoding="utf-8")
    gateway = ScriptedGateway(BEFORE)
    monkeypatch.setattr(gateways, "open_gateway", lambda cluster: gateway)
    (tmp_path / "typed").write_text(typed, encoding="utf-8")
    words = ["alter", "--config", str(config), "user=alice", "--add", f"{PRODUCER}=2", *options]
    with _Terminal((tmp_path / "typed").open("rb")) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        assert run(words) == code
    assert len(gateway.sent) == sent


def test_an_interrupt_of_the_script_says_so_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = QuotaAdmin(ScriptedGateway(BEFORE, writes=[Answer(raises=KeyboardInterrupt())]))
    monkeypatch.setattr(QuotaAdmin, "connect", lambda *_, **__: admin)
    words = ["--bootstrap-server", "lab:9092", "--alter", "--names=user=alice", f"--add={PRODUCER}=2"]
    assert client_quotas.run(words) == 130
    assert capsys.readouterr().err == (
        "kafka-client-quotas: interrupted; the quotas may or may not have been altered\n"
    )
