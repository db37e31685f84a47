"""What counts as a change of a principal's limit, which way it goes, and which changes are the largest."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Values
from quotaform.plan.blast_radius import LimitChange, LimitDirection, Principals, make_blast_radius, size_order
from tests.builder import CONNECTION, PRODUCER, plan_of

ALICE, BOB, ANYBODY = Entity(user="alice"), Entity(user="bob"), Entity(user=None)
APP = Entity(user="alice", client_id="app")


def rows_of(wanted: Mapping[Entity, Values], actual: Quotas, *principals: Entity) -> list[LimitChange]:
    changes = plan_of(wanted, actual).changes
    radius = make_blast_radius(Principals.of("list", principals), actual, changes, file="all.csv")
    return list(radius.changes)


@pytest.mark.parametrize(
    ("before", "after", "direction", "factor"),
    [
        (None, 5.0, LimitDirection.NEWLY_LIMITED, None),
        (2.0**63, 5.0, LimitDirection.NEWLY_LIMITED, None),
        (inf, 5.0, LimitDirection.NEWLY_LIMITED, None),
        (10.0, 5.0, LimitDirection.LOWER, 0.5),
        (5.0, None, LimitDirection.NO_LONGER_LIMITED, None),
        (5.0, 2.0**63, LimitDirection.NO_LONGER_LIMITED, None),
        (5.0, 10.0, LimitDirection.HIGHER, 2.0),
        (0.0, 10.0, LimitDirection.HIGHER, None),
        (-1.0, 10.0, LimitDirection.HIGHER, None),
        (nan, 10.0, LimitDirection.NOT_COMPARABLE, None),
        (nan, None, LimitDirection.NO_LONGER_LIMITED, None),
    ],
)
def test_a_limit_goes_one_way(
    before: float | None, after: float | None, direction: LimitDirection, factor: float | None
) -> None:
    actual = {} if before is None else {ALICE: {PRODUCER: before}}
    (row,) = rows_of({ALICE: {} if after is None else {PRODUCER: after}}, actual, ALICE)
    assert (row.principal, row.key, row.direction, row.factor) == (ALICE, PRODUCER, direction, factor)


def test_unlimited_is_unlimited_whoever_says_it() -> None:
    assert rows_of({ALICE: {PRODUCER: 2.0**63}}, {}, ALICE) == []


def test_the_same_limit_from_another_entry_is_no_change() -> None:
    actual = {ALICE: {PRODUCER: 5.0}, ANYBODY: {PRODUCER: 5.0}}
    assert rows_of({ALICE: {}, ANYBODY: {PRODUCER: 5.0}}, actual, ALICE, APP) == []


def test_the_same_limit_in_another_bucket_is_one() -> None:
    actual = {ALICE: {PRODUCER: 5.0}}
    (row,) = rows_of({ALICE: {PRODUCER: 5.0}, APP: {PRODUCER: 5.0}}, actual, ALICE, APP)
    assert (row.principal, row.direction, row.factor) == (APP, LimitDirection.OTHER_BUCKET, 1.0)
    assert [each.level.bucket for each in (row.before, row.after) if each.level] == [("user",), ("user", "client-id")]


def test_the_largest_are_those_that_take_most_away_then_those_that_give_most() -> None:
    users = {name: Entity(user=name) for name in "abcdefgh"}
    was = {"a": 8.0, "b": 8.0, "d": 8.0, "e": 8.0, "f": 8.0, "g": 8.0, "h": 0.0}
    becomes = {"a": 4.0, "b": 1.0, "c": 3.0, "e": 16.0, "f": 64.0, "h": 9.0}
    actual = {users[name]: {PRODUCER: value} for name, value in was.items()}
    wanted = {users[name]: {PRODUCER: becomes[name]} if name in becomes else {} for name in "abcdefh"}
    rows = sorted(rows_of(wanted, actual, *users.values()), key=size_order)
    assert [row.principal.address for row in rows] == [f"user={name}" for name in "cbadhfe"]


def test_another_spelling_of_an_address_takes_the_place_of_an_entry_with_keys_that_do_not_change() -> None:
    """Only the keys of the changed entries were compared."""
    actual = {Entity(ip="::ffff:10.0.0.1"): {CONNECTION: 5.0}}
    (row,) = rows_of({Entity(ip="10.0.0.1"): {"future_rate": 1.0}}, actual, Entity(ip="10.0.0.1"))[:1]
    assert (row.key, row.direction) == (CONNECTION, LimitDirection.NO_LONGER_LIMITED)
