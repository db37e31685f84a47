"""Applying a plan to a cluster that refuses, is lost, answers late or not at all.

The cluster is `tests.scripted_gateway`, and time is its clock: nothing here sleeps. What a healthy broker does is
tested on a real one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quotaform.apply.report import render_receipt
from quotaform.apply.run import apply_plan
from quotaform.model.entity import Entity
from quotaform.model.errors import (
    AuthorizationError,
    BlockedError,
    ClusterError,
    ClusterIdError,
    ExitCode,
    FileReadError,
    PlanClusterError,
    RefusedError,
    StaleError,
)
from quotaform.model.finding import Finding
from quotaform.model.quotas import Quotas
from quotaform.plan.plan import Plan
from quotaform.plan.plan_file import load_plan_file, require_plan_id
from quotaform.plan.receipt import Receipt, Result
from tests.builder import CONSUMER, PRODUCER, guarded, plan_of
from tests.dumped import dumped_plan
from tests.scripted_gateway import (
    ANSWER_LOST,
    FINE,
    NEVER_SHOWN,
    NO_CONNECTION,
    REQUEST_LOST,
    Answer,
    Clock,
    ScriptedGateway,
)

ALICE, BOB, CAROL, DAVE = (Entity(user=name) for name in ("alice", "bob", "carol", "dave"))
BEFORE: Quotas = {ALICE: {PRODUCER: 1.0}, DAVE: {PRODUCER: 1.0}, Entity(user="other"): {PRODUCER: 1.0}}
AFTER: Quotas = {
    ALICE: {PRODUCER: 2.0},
    BOB: {PRODUCER: 2.0},
    CAROL: {PRODUCER: 2.0},
    Entity(user="other"): {PRODUCER: 1.0},
}
PLAN = plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}, CAROL: {PRODUCER: 2.0}, DAVE: {}}, BEFORE)
"""Deletes dave, updates alice, creates bob and carol: in this order in the plan, and dave last on the wire."""

CHECKED: tuple[None, None] = (None, None)
"""The reads before anything is written: before the dry run, and after it."""

GONE = ClusterError("connection refused")
APPLIED, UNKNOWN, NOT_ATTEMPTED = Result.APPLIED, Result.UNKNOWN, Result.NOT_ATTEMPTED


@pytest.fixture
def clock() -> Clock:
    return Clock()


def applied(plan: Plan, gateway: ScriptedGateway, *more: Any, clock: Clock | None = None, **options: Any) -> Receipt:
    return apply_plan(plan, gateway, *more, clock=clock or Clock(), **options)


def results(receipt: Receipt) -> dict[str, Result]:
    return {item.entity.address.removeprefix("user="): item.result for item in receipt.results}


def messages(receipt: Receipt) -> dict[str, str]:
    return {item.entity.address.removeprefix("user="): item.message for item in receipt.results if item.message}


def all_of(result: Result) -> dict[str, Result]:
    return dict.fromkeys(("dave", "alice", "bob", "carol"), result)


def nothing_was_sent(gateway: ScriptedGateway) -> bool:
    return gateway.sent == [] and "alter" not in gateway.log


# When all goes well


def test_a_plan_is_checked_written_once_and_read_back() -> None:
    gateway = ScriptedGateway(BEFORE)
    receipt = applied(PLAN, gateway)
    assert gateway.log == ["describe", "validate", "describe", "alter", "describe"]
    assert gateway.quotas == AFTER
    assert results(receipt) == all_of(APPLIED)
    assert receipt.is_complete
    assert receipt.interrupted_by is None
    assert receipt.plan is PLAN
    assert messages(receipt) == {}


def test_a_plan_of_another_cluster_is_refused_as_such_also_where_an_id_is_pinned() -> None:
    """With `cluster_id` in quotaform.yaml the code was 4, that of a guard, and the advice to correct it there."""
    gateway = ScriptedGateway(BEFORE)
    other = replace(PLAN, header=replace(PLAN.header, cluster_id="another"))
    with pytest.raises(PlanClusterError):
        applied(other, gateway, pinned_id="another")
    with pytest.raises(ClusterIdError, match=r"only if the cluster was replaced on purpose\. Nothing was written\."):
        applied(PLAN, gateway, pinned_id="another")
    assert nothing_was_sent(gateway)


def test_deletes_are_sent_after_creates_and_updates_and_listed_where_the_plan_lists_them() -> None:
    gateway = ScriptedGateway(BEFORE, chunk_size=2)
    receipt = applied(PLAN, gateway)
    assert gateway.sent == [["user=alice", "user=bob"], ["user=carol", "user=dave"]]
    assert list(results(receipt)) == ["dave", "alice", "bob", "carol"]


def test_a_second_apply_sends_nothing() -> None:
    gateway = ScriptedGateway(AFTER)
    receipt = applied(PLAN, gateway)
    assert nothing_was_sent(gateway)
    assert gateway.validated == []
    assert results(receipt) == all_of(Result.ALREADY_APPLIED)
    assert receipt.is_complete
    assert not receipt.wrote_anything


def test_what_is_there_already_is_not_sent_again() -> None:
    gateway = ScriptedGateway({**BEFORE, BOB: {PRODUCER: 2.0}})
    receipt = applied(PLAN, gateway)
    assert gateway.sent == [["user=alice", "user=carol", "user=dave"]]
    assert results(receipt) == {**all_of(APPLIED), "bob": Result.ALREADY_APPLIED}


def test_an_empty_plan_changes_nothing() -> None:
    gateway = ScriptedGateway(BEFORE)
    receipt = applied(plan_of({}, BEFORE), gateway)
    assert receipt.results == ()
    assert receipt.is_complete
    assert nothing_was_sent(gateway)


def test_a_change_that_shows_late_is_waited_for(clock: Clock) -> None:
    half = {**BEFORE, ALICE: {PRODUCER: 2.0}}
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, BEFORE, half, half, None])
    assert results(applied(PLAN, gateway, clock=clock)) == all_of(APPLIED)
    assert gateway.log.count("alter") == 1
    assert clock.pauses == sorted(clock.pauses)


class CountingGateway(ScriptedGateway):
    """Also keeps how many entities each read asked for."""

    asked: list[int]

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        self.asked = [*getattr(self, "asked", []), len(entities)]
        return super().describe_entities(entities, timeout=timeout)


MANY = plan_of({Entity(user=f"u{number:04}"): {PRODUCER: 2.0} for number in range(1_001)}, {})


def test_of_very_many_changes_one_is_watched_until_it_shows() -> None:
    """All of 100,000 entities were read again and again, which kept a busy broker from making the changes."""
    half = {change.entity: change.after for change in MANY.changes[:500]}
    gateway = CountingGateway({}, reads=[*CHECKED, {}, half, half])
    assert applied(MANY, gateway).is_complete
    assert gateway.asked == [1_001, 1_001, 1, 1, 1, 1, 1_001]


def test_very_many_changes_that_never_show_are_read_once_more_when_time_is_up(clock: Clock) -> None:
    gateway = CountingGateway({}, writes=[FINE] * 10 + [NEVER_SHOWN])
    receipt = applied(MANY, gateway, clock=clock)
    assert [item.result for item in receipt.results] == [APPLIED] * 1_000 + [Result.UNCONFIRMED]
    assert (gateway.asked[:2], set(gateway.asked[2:-1]), gateway.asked[-1]) == ([1_001, 1_001], {1}, 1_001)
    assert sum(clock.pauses) == pytest.approx(30.0, abs=1.5)


def test_progress_is_told_while_writing_and_reading_back() -> None:
    told: list[tuple[str, int, int]] = []
    applied(PLAN, ScriptedGateway(BEFORE, chunk_size=2), lambda *step: told.append(step))
    assert [step for step in told if step[0] == "Applying"] == [("Applying", done, 4) for done in (0, 2, 4)]
    assert told[0] == ("Reading quotas of lab", 0, 0)
    assert ("Reading back", 0, 4) in told


# What stops an apply before anything is written


def test_a_plan_that_is_blocked_is_not_even_read_for() -> None:
    plan = plan_of({ALICE: {PRODUCER: 2.0}}, BEFORE, findings=[Finding(rule="cluster-id", message="no", blocking=True)])
    gateway = ScriptedGateway(BEFORE)
    with pytest.raises(BlockedError, match=r"the plan is blocked and nothing was written:\n  cluster-id: no"):
        applied(plan, gateway)
    assert gateway.log == []


def test_a_plan_for_another_cluster_is_refused() -> None:
    gateway = ScriptedGateway(BEFORE, cluster_id="another")
    with pytest.raises(StaleError, match="is for cluster 3JxQ0v7pT2a, but this is cluster another"):
        applied(PLAN, gateway)
    assert gateway.log == []


def test_a_plan_whose_entities_changed_since_is_stale() -> None:
    gateway = ScriptedGateway({**BEFORE, ALICE: {PRODUCER: 7.0}})
    with pytest.raises(
        StaleError,
        match=r"in 1 entity, so nothing was written:\n  user=alice: producer_byte_rate is 7 B/s; it was",
    ):
        applied(PLAN, gateway)
    assert gateway.log == ["describe", "describe"]


def test_one_late_read_does_not_make_a_plan_stale() -> None:
    """A broker shows an acknowledged change late, so that the first read can be older than the plan."""
    older = {**BEFORE, ALICE: {PRODUCER: 0.5}}
    gateway = ScriptedGateway(BEFORE, reads=[older])
    assert results(applied(PLAN, gateway)) == all_of(APPLIED)


def test_a_cluster_that_keeps_changing_makes_a_plan_stale_in_the_end(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, reads=[{**BEFORE, ALICE: {PRODUCER: 10.0 + number}} for number in range(100)])
    with pytest.raises(StaleError):
        applied(PLAN, gateway, clock=clock)
    assert sum(clock.pauses) == pytest.approx(3.0, abs=0.5)
    assert nothing_was_sent(gateway)


def test_what_the_dry_run_refuses_stops_everything() -> None:
    refused = {ALICE: (42, "Quota producer_byte_rate must be greater than 0"), CAROL: (44, "")}
    gateway = ScriptedGateway(BEFORE, validates=[Answer(refused=refused)])
    with pytest.raises(RefusedError) as caught:
        applied(PLAN, gateway)
    assert str(caught.value) == (
        "the broker would reject 2 of 4 entities, so nothing was written:\n"
        "  user=alice: Quota producer_byte_rate must be greater than 0\n"
        "  user=carol: broker error code 44"
    )
    assert caught.value.exit_code == 4
    assert nothing_was_sent(gateway)
    assert gateway.quotas == BEFORE


def test_the_words_of_a_refusal_cannot_forge_a_line() -> None:
    """A broker repeats names in its words, and they went to the terminal as they came."""
    gateway = ScriptedGateway(BEFORE, validates=[Answer(refused={ALICE: (42, "no\n::error::forged\x1b[31m")})])
    with pytest.raises(RefusedError) as caught:
        applied(PLAN, gateway)
    assert str(caught.value).splitlines()[1:] == ['  user=alice: "no\\n::error::forged\\u001b[31m"']


def test_a_principal_that_may_not_write_is_told_so() -> None:
    refused = dict.fromkeys((ALICE, BOB, CAROL, DAVE), (31, "grant it ALTER_CONFIGS"))
    gateway = ScriptedGateway(BEFORE, validates=[Answer(refused=refused)])
    with pytest.raises(AuthorizationError, match=r"grant it ALTER_CONFIGS \(and 3 more\)"):
        applied(PLAN, gateway)
    assert nothing_was_sent(gateway)


def test_a_dry_run_without_an_answer_stops_everything() -> None:
    gateway = ScriptedGateway(BEFORE, validates=[FINE, REQUEST_LOST], chunk_size=2)
    with pytest.raises(
        ClusterError, match=r"did not answer the dry run of 2 entities .*nothing was written: try again"
    ):
        applied(PLAN, gateway)
    assert nothing_was_sent(gateway)


def test_a_cluster_that_cannot_be_read_stops_everything() -> None:
    gateway = ScriptedGateway(BEFORE, reads=[GONE])
    with pytest.raises(ClusterError, match="connection refused"):
        applied(PLAN, gateway)
    assert gateway.log == ["describe"]


def test_an_interrupt_before_the_first_change_is_just_an_interrupt() -> None:
    gateway = ScriptedGateway(BEFORE, validates=[Answer(raises=KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        applied(PLAN, gateway)
    assert nothing_was_sent(gateway)


# What can go wrong while it is written


def test_a_refusal_while_writing_is_kept_with_its_words_and_the_rest_goes_on() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[Answer(refused={ALICE: (42, "no")})], chunk_size=2)
    receipt = applied(PLAN, gateway)
    assert results(receipt) == {**all_of(APPLIED), "alice": Result.REFUSED}
    assert messages(receipt) == {"alice": "no"}
    assert not receipt.is_complete
    assert receipt.wrote_anything
    assert gateway.log.count("alter") == 2


def test_a_lost_answer_is_no_loss_when_the_change_shows() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[ANSWER_LOST])
    receipt = applied(PLAN, gateway)
    assert results(receipt) == all_of(APPLIED)
    assert messages(receipt) == {}
    assert gateway.sent == [["user=alice", "user=bob", "user=carol", "user=dave"]]


def test_after_a_lost_answer_only_what_is_not_there_is_sent() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[ANSWER_LOST], chunk_size=2)
    assert results(applied(PLAN, gateway)) == all_of(APPLIED)
    assert gateway.sent == [["user=alice", "user=bob"], ["user=carol", "user=dave"]]


def test_a_lost_request_is_sent_once_more_after_a_while(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, writes=[REQUEST_LOST])
    assert results(applied(PLAN, gateway, clock=clock)) == all_of(APPLIED)
    assert len(gateway.sent) == 2
    assert sum(clock.pauses) > 3.0


def test_a_change_of_unknown_outcome_that_shows_while_it_is_waited_for_is_not_sent_again() -> None:
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[BEFORE] * 5], writes=[ANSWER_LOST])
    assert results(applied(PLAN, gateway)) == all_of(APPLIED)
    assert len(gateway.sent) == 1


def test_requests_that_are_lost_again_and_again_are_given_up() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[REQUEST_LOST] * 10, chunk_size=2)
    receipt = applied(PLAN, gateway)
    assert gateway.sent == [["user=alice", "user=bob"]] * 3
    assert results(receipt) == {"alice": UNKNOWN, "bob": UNKNOWN, "carol": NOT_ATTEMPTED, "dave": NOT_ATTEMPTED}
    assert gateway.quotas == BEFORE


def test_what_somebody_else_changed_meanwhile_is_not_sent_again() -> None:
    theirs = {**BEFORE, ALICE: {CONSUMER: 9.0}}
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[theirs] * 100], writes=[REQUEST_LOST], chunk_size=1)
    receipt = applied(PLAN, gateway)
    assert gateway.sent == [["user=alice"], ["user=bob"], ["user=carol"], ["user=dave"]]
    assert results(receipt)["alice"] is UNKNOWN


def test_no_connection_for_the_first_request_is_tried_again() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[NO_CONNECTION])
    assert results(applied(PLAN, gateway)) == all_of(APPLIED)
    assert len(gateway.sent) == 1


def test_a_connection_that_never_comes_back_leaves_honest_results(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[GONE] * 1000], writes=[FINE, ANSWER_LOST], chunk_size=1)
    receipt = applied(PLAN, gateway, clock=clock)
    assert results(receipt) == {
        "alice": Result.UNCONFIRMED,
        "bob": UNKNOWN,
        "carol": NOT_ATTEMPTED,
        "dave": NOT_ATTEMPTED,
    }
    assert "connection refused" in messages(receipt)["alice"]
    assert receipt.wrote_anything
    assert gateway.sent == [["user=alice"], ["user=bob"]]
    assert 30 < sum(clock.pauses) < 31


def test_a_connection_that_is_lost_at_once_leaves_everything_not_attempted() -> None:
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[GONE] * 1000], writes=[NO_CONNECTION] * 10)
    receipt = applied(PLAN, gateway)
    assert results(receipt) == all_of(NOT_ATTEMPTED)
    assert messages(receipt) == dict.fromkeys(all_of(NOT_ATTEMPTED), "no connection")
    assert not receipt.wrote_anything


def test_what_is_unknown_stays_unknown_when_it_cannot_be_sent_again() -> None:
    """It was reported as not attempted, although the first request may still have been carried out."""
    gateway = ScriptedGateway(BEFORE, writes=[REQUEST_LOST, *[NO_CONNECTION] * 10])
    receipt = applied(PLAN, gateway)
    assert results(receipt) == all_of(UNKNOWN)
    assert receipt.wrote_anything


def test_what_is_unknown_stays_unknown_when_it_is_refused_the_second_time() -> None:
    """It was reported as refused, "nothing changed on the entity", although the first request had been carried out."""
    refusal = Answer(refused=dict.fromkeys((ALICE, BOB, CAROL, DAVE), (42, "no")))
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[BEFORE] * 1000], writes=[ANSWER_LOST, refusal])
    receipt = applied(PLAN, gateway)
    assert gateway.quotas == AFTER
    assert results(receipt) == all_of(UNKNOWN)
    assert messages(receipt)["bob"] == ("refused when it was sent again (no); the first request may have taken effect")
    assert receipt.wrote_anything


def test_a_read_that_fails_on_the_way_is_forgotten_when_the_next_one_comes() -> None:
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, GONE])
    receipt = applied(PLAN, gateway)
    assert results(receipt) == all_of(APPLIED)
    assert messages(receipt) == {}


def test_a_change_that_never_shows_is_unconfirmed(clock: Clock) -> None:
    gateway = ScriptedGateway(BEFORE, writes=[FINE, NEVER_SHOWN], chunk_size=2)
    receipt = applied(PLAN, gateway, clock=clock)
    unconfirmed = Result.UNCONFIRMED
    assert results(receipt) == {"alice": APPLIED, "bob": APPLIED, "carol": unconfirmed, "dave": unconfirmed}
    assert receipt.wrote_anything
    assert gateway.log.count("alter") == 2
    assert 30 < sum(clock.pauses) < 31


# Interrupts


class Terminated(KeyboardInterrupt):
    signal_name = "SIGTERM"


@pytest.mark.parametrize(("interrupt", "name"), [(KeyboardInterrupt(), "SIGINT"), (Terminated(), "SIGTERM")])
def test_an_interrupt_between_requests_says_what_was_done(interrupt: BaseException, name: str) -> None:
    gateway = ScriptedGateway(BEFORE, writes=[FINE, Answer(raises=interrupt)], chunk_size=1)
    receipt = applied(PLAN, gateway)
    assert receipt.interrupted_by == name
    assert results(receipt) == {"alice": APPLIED, "bob": APPLIED, "carol": NOT_ATTEMPTED, "dave": NOT_ATTEMPTED}
    assert gateway.sent == [["user=alice"], ["user=bob"]]


def test_a_second_interrupt_while_it_is_read_back_leaves_it_unconfirmed() -> None:
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, BEFORE, KeyboardInterrupt(), KeyboardInterrupt()])
    receipt = applied(PLAN, gateway)
    assert receipt.interrupted_by == "SIGINT"
    assert results(receipt) == all_of(Result.UNCONFIRMED)
    assert receipt.wrote_anything


@pytest.mark.parametrize("script", [[FINE, Answer(raises=KeyboardInterrupt())], [FINE, FINE]])
def test_what_shows_late_after_an_interrupt_is_no_unknown(clock: Clock, script: list[Answer]) -> None:
    """One read came before the broker showed what it had acknowledged: most entities that held were called unknown."""
    reads = [*CHECKED, *([BEFORE] * 5)] if script[1].raises else [*CHECKED, KeyboardInterrupt(), *([BEFORE] * 5)]
    gateway = ScriptedGateway(BEFORE, writes=script, reads=reads, chunk_size=2)
    receipt = applied(PLAN, gateway, clock=clock)
    assert receipt.interrupted_by == "SIGINT"
    assert results(receipt) == all_of(APPLIED)
    assert sum(clock.pauses) < 2


def test_after_an_interrupt_it_is_read_for_two_seconds(clock: Clock) -> None:
    script = [FINE, Answer(applies=False, raises=KeyboardInterrupt())]
    receipt = applied(PLAN, ScriptedGateway(BEFORE, writes=script, chunk_size=2), clock=clock)
    assert results(receipt) == {"alice": APPLIED, "bob": APPLIED, "carol": UNKNOWN, "dave": UNKNOWN}
    assert 2 <= sum(clock.pauses) < 2.5


class LateGateway(ScriptedGateway):
    """A cluster that answers the first read after its writes a minute later: another broker has to be found."""

    def __init__(self, clock: Clock, **script: Any) -> None:
        super().__init__(BEFORE, **script)
        self._clock = clock

    def describe_entities(self, entities: Collection[Entity], *, timeout: float | None = None) -> Quotas:
        if self.log[-1:] == ["alter"]:
            self._clock.sleep(60.0)
        return super().describe_entities(entities, timeout=timeout)


@pytest.mark.parametrize("script", [[FINE, FINE], [FINE, ANSWER_LOST]])
def test_what_shows_late_after_the_death_of_a_broker_is_no_unknown(clock: Clock, script: list[Answer]) -> None:
    """The time limit was over when the first answer came, which did not show yet what was acknowledged."""
    gateway = LateGateway(clock, writes=script, reads=[*CHECKED, *([BEFORE] * 3)], chunk_size=2)
    receipt = applied(PLAN, gateway, clock=clock)
    assert results(receipt) == all_of(APPLIED)
    assert len(gateway.sent) == 2


def test_the_started_receipt_is_kept_before_the_first_change_is_sent() -> None:
    gateway = ScriptedGateway({**BEFORE, BOB: {PRODUCER: 2.0}})
    started: list[Receipt] = []

    def start(receipt: Receipt) -> None:
        assert gateway.log == ["describe", "validate", "describe"]
        started.append(receipt)

    receipt = applied(PLAN, gateway, start=start)
    assert [results(each) for each in started] == [{**all_of(UNKNOWN), "bob": Result.ALREADY_APPLIED}]
    assert [each.is_started for each in (*started, receipt)] == [True, False]
    applied(PLAN, ScriptedGateway(AFTER), start=started.append)
    assert len(started) == 1, "without a change to send there is nothing to start"


def test_a_mistake_of_our_own_while_it_is_read_back_loses_no_receipt() -> None:
    """It was raised, after the changes had been made, so that nobody was told of them."""
    mistake = RuntimeError("out of luck")
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, mistake, mistake])
    receipt = applied(PLAN, gateway)
    assert receipt.interruption == "an internal error (RuntimeError: out of luck); please report it"
    assert receipt.interrupted_by is None
    assert results(receipt) == all_of(Result.UNCONFIRMED)
    assert receipt.wrote_anything


def test_an_interrupt_before_sending_again_leaves_it_unknown() -> None:
    gateway = ScriptedGateway(BEFORE, writes=[REQUEST_LOST])

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "Applying" and len(gateway.sent) == 1 and gateway.log[-1] == "describe":
            raise KeyboardInterrupt

    receipt = applied(PLAN, gateway, interrupt)
    assert receipt.interrupted_by == "SIGINT"
    assert results(receipt) == all_of(UNKNOWN)


# Which plan it is


def test_the_expected_plan_id_may_be_given_with_or_without_its_prefix() -> None:
    require_plan_id(PLAN.plan_id, None)
    require_plan_id(PLAN.plan_id, PLAN.plan_id)
    require_plan_id(PLAN.plan_id, PLAN.plan_id.removeprefix("sha256:"))


@pytest.mark.parametrize("expected", ["", "sha256:", "sha256:" + "0" * 64, PLAN.plan_id[:20]])
def test_another_plan_id_is_stale(expected: str) -> None:
    with pytest.raises(StaleError, match=r"so nothing was written: .*; review the new plan"):
        require_plan_id(PLAN.plan_id, expected)


def test_a_saved_plan_is_applied_as_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(dumped_plan(guarded(PLAN)), encoding="utf-8")
    saved: Plan = load_plan_file(path)
    gateway = ScriptedGateway(BEFORE)
    assert results(applied(saved, gateway)) == all_of(APPLIED)
    assert gateway.quotas == AFTER


def test_a_saved_plan_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileReadError, match=r"none\.json cannot be read: No such file or directory; quotaform plan"):
        load_plan_file(tmp_path / "none.json")
    with pytest.raises(FileReadError, match="cannot be read"):
        load_plan_file(tmp_path)


# What somebody else does meanwhile


def test_a_change_during_the_dry_run_makes_the_plan_stale() -> None:
    """The cluster was checked before the dry run alone, so that what changed during it was overwritten."""
    theirs = {**BEFORE, ALICE: {PRODUCER: 7.0}}
    gateway = ScriptedGateway(BEFORE, reads=[None, *[theirs] * 20])
    with pytest.raises(
        StaleError,
        match=r"in 1 entity, so nothing was written:\n  user=alice: producer_byte_rate is 7 B/s; it was",
    ):
        applied(PLAN, gateway)
    assert gateway.log[:2] == ["describe", "validate"]
    assert nothing_was_sent(gateway)


def test_what_somebody_else_changed_after_the_write_is_told_with_its_values(clock: Clock) -> None:
    """It was told as "accepted, but not visible before the time limit", after 30 seconds."""
    theirs = {**AFTER, ALICE: {PRODUCER: 9.0, CONSUMER: 1048576.0}, DAVE: {PRODUCER: 3.0}}
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[theirs] * 100])
    receipt = applied(PLAN, gateway, clock=clock)
    overwritten = Result.OVERWRITTEN
    assert results(receipt) == {**all_of(APPLIED), "alice": overwritten, "dave": overwritten}
    assert messages(receipt) == {
        "alice": "it has producer_byte_rate = 9 B/s, consumer_byte_rate = 1 MiB/s",
        "dave": "it has producer_byte_rate = 3 B/s",
    }
    assert receipt.digest.exit_code == ExitCode.PARTIAL
    assert 3 < sum(clock.pauses) < 5
    told = render_receipt(receipt)
    assert (
        "1 entity accepted, but changed by somebody else since: it has producer_byte_rate = 3 B/s\n    user=dave\n"
        in told
    )
    assert told.splitlines()[-1].endswith("2 overwritten.")


def test_what_somebody_else_removed_after_the_write_is_told() -> None:
    gateway = ScriptedGateway({ALICE: {PRODUCER: 1.0, CONSUMER: 1.0}}, reads=[*CHECKED, *[{}] * 100])
    plan = plan_of({ALICE: {PRODUCER: 2.0, CONSUMER: 1.0}}, {ALICE: {PRODUCER: 1.0, CONSUMER: 1.0}})
    receipt = applied(plan, gateway)
    assert results(receipt) == {"alice": Result.OVERWRITTEN}
    assert messages(receipt) == {"alice": "it has no producer_byte_rate, no consumer_byte_rate"}


def test_of_very_many_changes_one_that_somebody_else_changed_is_not_waited_for(clock: Clock) -> None:
    theirs = {change.entity: change.after for change in MANY.changes}
    theirs[MANY.changes[-1].entity] = {PRODUCER: 5.0}
    gateway = ScriptedGateway({}, reads=[*CHECKED, *[theirs] * 100])
    assert [item.result for item in applied(MANY, gateway, clock=clock).results][-2:] == [APPLIED, Result.OVERWRITTEN]
    assert sum(clock.pauses) < 5


def test_what_is_unknown_and_was_changed_by_somebody_else_says_what_it_holds() -> None:
    theirs = {**BEFORE, ALICE: {CONSUMER: 9.0}}
    gateway = ScriptedGateway(BEFORE, reads=[*CHECKED, *[theirs] * 100], writes=[REQUEST_LOST], chunk_size=1)
    assert messages(applied(PLAN, gateway))["alice"] == (
        "scripted: unknown; somebody else has changed it since: it has consumer_byte_rate = 9 B/s, "
        "no producer_byte_rate"
    )


def test_a_dry_run_without_an_answer_never_says_that_something_may_have_changed() -> None:
    """It said "the change may have been made" and "nothing was written" in one breath."""
    gateway = ScriptedGateway(BEFORE, validates=[REQUEST_LOST])
    with pytest.raises(ClusterError) as caught:
        applied(PLAN, gateway)
    assert "may have been" not in str(caught.value)
    assert "nothing was written" in str(caught.value)


def test_who_may_not_read_is_told_the_right_that_applying_takes() -> None:
    """First one right was asked for and, once it was granted, another one that includes it."""
    denied = AuthorizationError(
        "The principal is not authorised to read the client quotas of lab", remedy="grant it DESCRIBE", code=31
    )
    with pytest.raises(AuthorizationError) as caught:
        applied(PLAN, ScriptedGateway(BEFORE, reads=[denied]))
    assert str(caught.value) == (
        "The principal is not authorised to read the client quotas of lab: grant it ALTER_CONFIGS on the Cluster "
        "resource (kafka-cluster), which includes DESCRIBE_CONFIGS"
    )
