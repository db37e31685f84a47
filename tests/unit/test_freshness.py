"""Whether a plan still fits the cluster it was made for."""

from __future__ import annotations

import pytest

from quotaform.apply.freshness import check_fresh, require_fresh
from quotaform.model.entity import Entity
from quotaform.model.errors import StaleError
from quotaform.model.quotas import Quotas
from tests.builder import CONSUMER, PRODUCER, plan_of

ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))
BEFORE: Quotas = {ALICE: {PRODUCER: 1.0}, CAROL: {PRODUCER: 1.0}}
PLAN = plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}, CAROL: {}}, BEFORE)


def addresses(actual: Quotas) -> tuple[list[str], list[str], list[str]]:
    fresh = check_fresh(PLAN.changes, actual)
    pending, applied, stale = (
        [change.entity.address for change in part] for part in (fresh.pending, fresh.applied, fresh.stale)
    )
    return pending, applied, stale


def test_what_the_cluster_holds_as_before_is_pending() -> None:
    assert addresses(BEFORE) == (["user=carol", "user=alice", "user=bob"], [], [])


def test_what_the_cluster_holds_as_after_is_applied() -> None:
    after = {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}}
    assert addresses(after) == ([], ["user=carol", "user=alice", "user=bob"], [])


def test_a_plan_can_be_half_applied() -> None:
    assert addresses({**BEFORE, BOB: {PRODUCER: 2.0}}) == (["user=carol", "user=alice"], ["user=bob"], [])


@pytest.mark.parametrize(
    "live",
    [{PRODUCER: 3.0}, {PRODUCER: 1.0, CONSUMER: 1.0}, {PRODUCER: 2.0, "future_rate": 1.0}, {CONSUMER: 1.0}],
)
def test_an_entity_that_holds_anything_else_is_stale(live: dict[str, float]) -> None:
    assert addresses({**BEFORE, ALICE: live})[2] == ["user=alice"]


def test_an_entity_that_is_gone_and_should_change_is_stale() -> None:
    assert addresses({CAROL: {PRODUCER: 1.0}})[2] == ["user=alice"]


def test_an_entity_that_appeared_and_should_be_created_is_stale() -> None:
    assert addresses({**BEFORE, BOB: {PRODUCER: 9.0}})[2] == ["user=bob"]


def test_other_entities_do_not_matter() -> None:
    assert addresses({**BEFORE, Entity(user="dave"): {PRODUCER: 9.0}})[2] == []


def test_a_live_value_that_is_no_number_is_equal_to_itself() -> None:
    actual = {ALICE: {PRODUCER: float("nan")}}
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, actual)
    assert check_fresh(plan.changes, {ALICE: {PRODUCER: float("nan")}}).pending == plan.changes


def test_a_stale_plan_names_the_entities_and_values_and_says_what_to_do() -> None:
    """The message named entities alone, so that nobody saw what had moved."""
    with pytest.raises(StaleError) as caught:
        require_fresh(check_fresh(PLAN.changes, {**BEFORE, ALICE: {PRODUCER: 3.0}}))
    assert str(caught.value) == (
        "the cluster has changed since the plan was made, in 1 entity, so nothing was written:\n"
        "  user=alice: producer_byte_rate is 3 B/s; it was 1 B/s when the plan was made, which sets 2 B/s\n"
        "Make a new plan (quotaform plan --out plan.json) and review it."
    )
    assert caught.value.exit_code == 5


def test_a_stale_plan_names_twenty_entities_and_counts_the_rest() -> None:
    names = [Entity(user=f"u{number}") for number in range(28)]
    plan = plan_of({name: {PRODUCER: 2.0} for name in names}, {})
    with pytest.raises(StaleError, match=r"(?s)in 28 entities, so .*:\n  user=u0: .*\n  \.\.\. and 8 more\n"):
        require_fresh(check_fresh(plan.changes, {name: {PRODUCER: 3.0} for name in names}))


@pytest.mark.parametrize(
    ("live", "found"),
    [
        ({}, "producer_byte_rate is not set; it was 1 B/s when the plan was made, which sets 2 B/s"),
        (
            {PRODUCER: 1.0, CONSUMER: 1.0},
            "consumer_byte_rate is 1 B/s; it was not set when the plan was made, which does not change it",
        ),
    ],
)
def test_a_stale_plan_says_what_was_found_and_what_the_plan_says(live: dict[str, float], found: str) -> None:
    with pytest.raises(StaleError) as caught:
        require_fresh(check_fresh(PLAN.changes, {**BEFORE, ALICE: live}))
    assert str(caught.value).splitlines()[1] == f"  user=alice: {found}"


def test_a_fresh_plan_is_no_error() -> None:
    require_fresh(check_fresh(PLAN.changes, BEFORE))
    PLAN.require_cluster("3JxQ0v7pT2a")


def test_a_plan_for_another_cluster_is_stale() -> None:
    with pytest.raises(
        StaleError, match="is for cluster 3JxQ0v7pT2a, but this is cluster another; nothing was written"
    ):
        PLAN.require_cluster("another")
