"""What a change is due to, with a base and without one."""

from __future__ import annotations

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Base, Cause, DeclaredBase, Values
from quotaform.plan.change import EntityChange, Origin
from quotaform.plan.difference import diff, make_plan
from tests.builder import CONSUMER, HEADER, PRODUCER, declare

ALICE = Entity(user="alice")
BASE = Base("origin/main", "a91be02")
CONFIG, DRIFT, BOTH = Origin.CONFIG, Origin.DRIFT, Origin.BOTH


def change_of(
    base: Values | None, live: Values, head: Values | None, *, unvalued: frozenset[Entity] = frozenset()
) -> EntityChange:
    """The one change of files that declared `base` and declare `head`; `None` is no entry, `{}` a tombstone."""
    before = DeclaredBase(BASE, {} if base is None else declare({ALICE: base}), unvalued)
    files = {} if head is None else declare({ALICE: head})
    actual = {ALICE: live} if live else {}
    plan = make_plan(diff(files, actual, [ALICE]), files, actual, HEADER, base=before)
    (change,) = plan.changes
    return change


@pytest.mark.parametrize(
    ("base", "live", "origin"),
    [
        (None, {PRODUCER: 1.0}, DRIFT),
        ({}, {PRODUCER: 1.0}, DRIFT),
        ({PRODUCER: 1.0}, {PRODUCER: 1.0}, CONFIG),
        ({PRODUCER: 1.0}, {PRODUCER: 1.0, "future_rate": 7.0}, CONFIG),
        ({PRODUCER: 1.0}, {PRODUCER: 2.0}, BOTH),
        ({PRODUCER: 1.0}, {PRODUCER: 1.0, CONSUMER: 1.0}, BOTH),
        ({PRODUCER: 1.0, CONSUMER: 1.0}, {PRODUCER: 1.0}, BOTH),
    ],
)
def test_an_entity_that_is_pruned_is_the_files_doing_when_it_is_as_the_base_declares(
    base: Values | None, live: Values, origin: Origin
) -> None:
    change = change_of(base, live, None)
    assert change.cause is Cause.UNDECLARED
    assert change.origin is origin


def test_nothing_is_guessed_about_an_entity_whose_values_the_base_does_not_tell() -> None:
    change = change_of(None, {PRODUCER: 1.0}, {PRODUCER: 2.0}, unvalued=frozenset({ALICE}))
    assert (change.origin, change.base, change.origin_of(change.changes[0])) == (None, None, None)
