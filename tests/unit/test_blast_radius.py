"""Addresses and the limits of who connects; `rules-principal.txt` has what counts as a change of them."""

from __future__ import annotations

from quotaform.model.entity import Entity
from quotaform.plan.blast_radius import LimitDirection, Principals, make_blast_radius
from tests.builder import CONNECTION, plan_of


def test_another_spelling_of_an_address_takes_the_place_of_an_entry_with_keys_that_do_not_change() -> None:
    """Only the keys of the changed entries were compared."""
    actual = {Entity(ip="::ffff:10.0.0.1"): {CONNECTION: 5.0}}
    changes = plan_of({Entity(ip="10.0.0.1"): {"future_rate": 1.0}}, actual).changes
    principals = Principals.of("list", [Entity(ip="10.0.0.1")])
    row, *_ = make_blast_radius(principals, actual, changes, file="all.csv")[1]
    assert (row.key, row.direction) == (CONNECTION, LimitDirection.NO_LONGER_LIMITED)
