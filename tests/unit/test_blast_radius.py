"""What counts as a change of a principal's limit, which way it goes, and which changes are the largest."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

import pytest

from quotaform.core.blast_radius import Principals, make_blast_radius
from quotaform.core.limit_change import LimitChange, LimitDirection, size_order
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, Values
from tests.builder import CONNECTION, CONSUMER, PRODUCER, REQUEST, plan_of

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


def test_only_those_who_connect_are_affected() -> None:
    actual = {ANYBODY: {PRODUCER: 10.0}, ALICE: {PRODUCER: 20.0}}
    plan = plan_of({ANYBODY: {PRODUCER: 5.0}, ALICE: {PRODUCER: 20.0}}, actual)
    radius = make_blast_radius(Principals.of("list", [ALICE, BOB, BOB, APP]), actual, plan.changes)
    assert (radius.principals, radius.affected) == (3, 1)
    assert [row.principal for row in radius.largest] == [BOB]
    assert list(radius.changes) == []


def test_one_principal_counts_once_in_a_direction_and_once_in_each() -> None:
    actual = {ALICE: {PRODUCER: 10.0, CONSUMER: 10.0, REQUEST: 10.0}}
    plan = plan_of({ALICE: {PRODUCER: 5.0, CONSUMER: 5.0, REQUEST: 20.0}}, actual)
    radius = make_blast_radius(Principals.of("list", [ALICE]), actual, plan.changes)
    assert radius.affected == 1
    assert radius.counts[LimitDirection.LOWER] == (1, 2)
    assert radius.counts[LimitDirection.HIGHER] == (1, 1)
    assert radius.counts[LimitDirection.NEWLY_LIMITED] == (0, 0)


def test_the_largest_are_those_that_take_most_away_then_those_that_give_most() -> None:
    users = {name: Entity(user=name) for name in "abcdefgh"}
    was = {"a": 8.0, "b": 8.0, "d": 8.0, "e": 8.0, "f": 8.0, "g": 8.0, "h": 0.0}
    becomes = {"a": 4.0, "b": 1.0, "c": 3.0, "e": 16.0, "f": 64.0, "h": 9.0}
    actual = {users[name]: {PRODUCER: value} for name, value in was.items()}
    wanted = {users[name]: {PRODUCER: becomes[name]} if name in becomes else {} for name in "abcdefh"}
    rows = sorted(rows_of(wanted, actual, *users.values()), key=size_order)
    assert [row.principal.address for row in rows] == [f"user={name}" for name in "cbadhfe"]


def test_an_address_is_found_however_it_is_spelled() -> None:
    other = Entity(ip="::ffff:10.0.0.1")
    (row,) = rows_of({Entity(ip="10.0.0.1"): {CONNECTION: 5.0}}, {}, other, Entity(ip="10.0.0.2"))
    assert (row.principal, row.after.value) == (other, 5.0)


def test_another_spelling_of_an_address_takes_the_place_of_an_entry_with_keys_that_do_not_change() -> None:
    """Only the keys of the changed entries were compared."""
    actual = {Entity(ip="::ffff:10.0.0.1"): {CONNECTION: 5.0}}
    (row,) = rows_of({Entity(ip="10.0.0.1"): {"future_rate": 1.0}}, actual, Entity(ip="10.0.0.1"))[:1]
    assert (row.key, row.direction) == (CONNECTION, LimitDirection.NO_LONGER_LIMITED)


def test_an_empty_client_id_meets_no_entry_with_a_client_id() -> None:
    empty = Entity(user="alice", client_id="")
    assert rows_of({Entity(user="alice", client_id=None): {PRODUCER: 5.0}}, {}, empty, APP) == rows_of(
        {Entity(user="alice", client_id=None): {PRODUCER: 5.0}}, {}, APP
    )
