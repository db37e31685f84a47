"""What a plan changes, what it leaves alone, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Severity
from quotaform.model.quotas import Cause
from quotaform.plan.change import EntityChange
from quotaform.plan.plan import Plan
from tests.builder import CONSUMER, HEADER, PRODUCER, declare, plan_of

ALICE, BOB, CAROL, DAVE = (Entity(user=name) for name in ("alice", "bob", "carol", "dave"))
NAN = float("nan")


def only(plan: Plan) -> EntityChange:
    (change,) = plan.changes
    return change


def test_an_expired_entry_says_so() -> None:
    files = declare({ALICE: {}}, cause=Cause.EXPIRED, expires=date(2026, 1, 31), reason="load test", owner="team-a")
    change = only(plan_of(files, {ALICE: {PRODUCER: 1.0}}))
    assert (change.reason, change.owner) == ("expired 2026-01-31", "team-a")


def test_a_change_has_the_words_and_the_place_of_its_entry() -> None:
    files = declare({ALICE: {PRODUCER: 2.0}}, reason="checkout", owner="team-orders")
    change = only(plan_of(files, {ALICE: {PRODUCER: 1.0}}))
    assert (change.reason, change.owner) == ("checkout", "team-orders")
    assert str(change.location) == "quotas.d/all.yaml:2:5"


def test_a_plan_that_changes_nothing_can_be_applied() -> None:
    plan = plan_of({}, {})
    assert plan.is_applyable
    assert set(plan.summary.values()) == {0}


def test_what_blocks_comes_first_and_makes_the_plan_not_applyable() -> None:
    findings = [
        Finding(rule="ip-alias", message="", severity=Severity.WARNING, address="ip=::1"),
        Finding(rule="nan-value", message="", severity=Severity.WARNING),
        Finding(rule="cluster-id", message="", blocking=True),
    ]
    plan = plan_of({}, {}, findings=findings)
    assert [finding.rule for finding in plan.findings] == ["cluster-id", "nan-value", "ip-alias"]
    assert not plan.is_applyable
    assert plan.summary["blocked"] == 1


def test_the_plan_id_changes_with_what_is_done_and_with_the_cluster() -> None:
    actual = {ALICE: {PRODUCER: 1.0}}
    ids = [
        plan_of({}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 3.0}}, actual).plan_id,
        plan_of({ALICE: {}}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, {ALICE: {PRODUCER: NAN}}).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, actual, header=replace(HEADER, cluster_id="another")).plan_id,
        plan_of({BOB: {PRODUCER: 2.0}}, {BOB: {PRODUCER: 1.0}}).plan_id,
    ]
    assert len(set(ids)) == len(ids)


def test_ops_remove_what_is_there_and_leave_what_they_are_made_on_as_it_is() -> None:
    values = {PRODUCER: 1.0}
    assert apply_ops(values, {PRODUCER: None, CONSUMER: None}) == {}
    assert apply_ops({}, {PRODUCER: None}) == {}
    assert values == {PRODUCER: 1.0}


@pytest.mark.parametrize("cause", [Cause.ENTRY, Cause.TOMBSTONE, Cause.EXPIRED])
def test_a_change_says_what_in_the_files_it_follows_from(cause: Cause) -> None:
    values = {CONSUMER: 2.0} if cause is Cause.ENTRY else {}
    files = declare({ALICE: values}, cause=cause, expires=date(2026, 1, 31))
    (change,) = plan_of(files, {ALICE: {PRODUCER: 1.0}}).changes
    assert change.cause is cause
