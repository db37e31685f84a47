"""Altering one entity on a cluster that refuses, forgets, is slow or goes away."""

from __future__ import annotations

from io import TextIOWrapper
from pathlib import Path
from re import escape
from typing import Any

import pytest

from quotaform.apply.alter import alter_entity
from quotaform.cli.client_quotas import command as client_quotas
from quotaform.cli.command.alter import read_ops
from quotaform.cli.main import run
from quotaform.cluster.report import render_altered
from quotaform.model.alteration import Ops
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, InvalidRequestError, PartialError, UsageError
from quotaform.model.quotas import Values
from quotaform.repository import gateway as gateways
from quotaform.resolve.quota_admin import QuotaAdmin
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.scripted_gateway import ANSWER_LOST, NEVER_SHOWN, NO_CONNECTION, REQUEST_LOST, Answer, Clock, ScriptedGateway

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
OPS: Ops = {PRODUCER: 2.0, CONSUMER: None}
BEFORE = {ALICE: {PRODUCER: 1.0, CONSUMER: 1.0}, BOB: {PRODUCER: 7.0}}


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_fresh_state_comes_back(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE)
    done = alter_entity(QuotaAdmin(gateway), ALICE, OPS, clock=clock)
    assert (done.before, done.after, done.is_late) == (BEFORE[ALICE], {PRODUCER: 2.0}, False)
    assert gateway.log == ["describe", "alter", "describe"]
    assert clock.pauses == []


def test_a_change_that_shows_late_is_waited_for(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, reads=[None, BEFORE, ClusterError("gone"), BEFORE])
    assert alter_entity(QuotaAdmin(gateway), ALICE, OPS, clock=clock).after == {PRODUCER: 2.0}
    assert len(clock.pauses) == 3
    assert clock.pauses == sorted(clock.pauses)


NEVER = {"writes": [NEVER_SHOWN]}


def shows(values: Values) -> dict[str, Any]:
    """What a gateway does that accepts a change, and that holds other values whenever it is read again."""
    return {**NEVER, "reads": [None, *[{ALICE: values}] * 200]}


LATE, CHANGED = "after 30 s the change is not visible: it has", "and somebody else has changed it since: it has"
GONE = {"reads": [None, *[ClusterError("gone")] * 200]}
UNSURE = "it is not known whether user=alice was changed (scripted: unknown), and"


@pytest.mark.parametrize(
    ("name", "ops", "script", "seconds", "told"),
    [
        ("alice", OPS, NEVER, 30, f"{LATE} producer_byte_rate = 1 B/s, consumer_byte_rate = 1 B/s; it may become"),
        ("bob", {PRODUCER: None}, NEVER, 30, f"{LATE} producer_byte_rate = 7 B/s;"),
        ("new", {PRODUCER: 2.0}, NEVER, 30, f"{LATE} no producer_byte_rate;"),
        # After 30 seconds of waiting the message said that the cluster still showed it, whatever it was.
        ("alice", OPS, shows({PRODUCER: 3.0}), 3, f"{CHANGED} producer_byte_rate = 3 B/s"),
        ("alice", OPS, shows({PRODUCER: 2.0, CONSUMER: 9.0}), 3, f"{CHANGED} consumer_byte_rate = 9 B/s"),
        ("alice", {CONSUMER: 5.0}, shows({PRODUCER: 4.0}), 3, f"{CHANGED} no consumer_byte_rate"),
        ("alice", {REQUEST: None}, shows({REQUEST: 50.0}), 3, f"{CHANGED} request_percentage = 50%"),
        ("alice", OPS, GONE, 30, "it could not be read back: gone"),
        ("alice", OPS, {"writes": [REQUEST_LOST]}, None, UNSURE),
    ],
)
def test_a_change_that_is_not_certain_is_told_and_never_sent_again(
    clock: Clock, name: str, ops: Ops, script: dict[str, Any], seconds: int | None, told: str
) -> None:
    gateway = ScriptedGateway(BEFORE, **script)
    with pytest.raises(PartialError, match=escape(told)) as caught:
        alter_entity(QuotaAdmin(gateway), Entity(user=name), ops, clock=clock)
    assert caught.value.exit_code == 6
    assert len(gateway.sent) == 1
    assert seconds is None or seconds <= sum(clock.pauses) < seconds + 1


def test_a_refusal_is_in_the_brokers_words_and_nothing_is_read_back(clock: Clock) -> None:
    """The error was made anew from its message, and lost its code and its entities."""
    gateway = ScriptedGateway(BEFORE, writes=[Answer(refused={ALICE: (42, "no\nway")})])
    with pytest.raises(InvalidRequestError, match=r'^user=alice: "no\\nway"; nothing was changed$') as caught:
        alter_entity(QuotaAdmin(gateway), ALICE, OPS, clock=clock)
    assert (caught.value.code, caught.value.entities) == (42, (ALICE,))
    assert gateway.log == ["describe", "alter"]


def test_an_answer_that_is_lost_is_found_out_by_reading(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, writes=[ANSWER_LOST])
    done = alter_entity(QuotaAdmin(gateway), ALICE, OPS, clock=clock)
    assert (done.after, done.is_late) == ({PRODUCER: 2.0}, True)
    assert len(gateway.sent) == 1


def test_without_a_connection_nothing_is_changed(clock: Clock) -> None:
    with pytest.raises(ClusterError, match="no connection"):
        alter_entity(QuotaAdmin(ScriptedGateway(BEFORE, writes=[NO_CONNECTION])), ALICE, OPS, clock=clock)


def test_a_validation_never_writes(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE)
    done = alter_entity(QuotaAdmin(gateway), ALICE, OPS, validate_only=True, clock=clock)
    assert (done.after, done.is_validation) == ({PRODUCER: 2.0}, True)
    assert gateway.sent == []
    assert gateway.quotas == BEFORE
    lost = ScriptedGateway(BEFORE, validates=[ANSWER_LOST])
    with pytest.raises(ClusterError, match="nothing was changed"):
        alter_entity(QuotaAdmin(lost), ALICE, OPS, validate_only=True, clock=clock)


def test_a_key_that_this_version_does_not_know_is_the_brokers_to_judge(clock: Clock) -> None:
    entity = Entity({"group": "g"})
    ops = read_ops(entity, ["future_rate=1e3", "producer_byte_rate=1KiB/s"], [])
    assert ops == {"future_rate": 1000.0, PRODUCER: 1024.0}
    done = alter_entity(QuotaAdmin(ScriptedGateway({})), entity, ops, clock=clock)
    assert "  future_rate               1000   (was not set)\n" in render_altered(done)


@pytest.mark.parametrize("text", ["future_rate=", "future_rate=NaN", "future_rate=1e999", "future_rate=unlimited"])
def test_an_unknown_key_takes_a_plain_number_alone(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a finite decimal number; .* is not known to this version"):
        read_ops(ALICE, [text], [])


def test_no_name_forges_a_line() -> None:
    entity = Entity(user="x\n::error")
    gateway = ScriptedGateway({entity: {"odd\nkey": 1.0, PRODUCER: 1.0}})
    done = alter_entity(QuotaAdmin(gateway), entity, {"odd\nkey": None})
    assert "\n::" not in render_altered(done)
    assert '  "odd\\nkey" is removed   (was 1)\n' in render_altered(done)


@pytest.mark.parametrize(
    ("options", "told"), [([], "It is not known whether user=alice was changed"), (["--validate-only"], "")]
)
def test_an_interrupt_says_that_the_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    interrupted = [Answer(raises=KeyboardInterrupt())]
    gateway = ScriptedGateway(BEFORE, writes=interrupted, validates=interrupted)
    monkeypatch.setattr(gateways, "open_gateway", lambda cluster: gateway)
    words = ["alter", "--bootstrap-server", "lab:9092", "--name", "user=alice", "--add", f"{PRODUCER}=2", *options]
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
    words = ["alter", "--config", str(config), "--name", "user=alice", "--add", f"{PRODUCER}=2", *options]
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
