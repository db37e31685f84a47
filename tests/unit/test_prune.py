"""Pruning: what cannot be removed is left; `story-prune.txt` has what is deleted, and what blocks."""

from __future__ import annotations

import pytest

from quotaform.desired.writable import is_removable
from quotaform.model.entity import Entity
from tests.builder import CONNECTION, PRODUCER


@pytest.mark.parametrize(
    ("entity", "values", "can"),
    [
        (Entity(user="a"), {PRODUCER: 1.0}, True),
        (Entity(user="a"), {PRODUCER: float("nan"), "future_rate": 1.0}, True),
        (Entity(user="a"), {"future_rate": 1.0}, False),
        (Entity(user="a"), {CONNECTION: 1.0}, False),
        (Entity(user="a"), {PRODUCER: 1.0, CONNECTION: 1.0}, False),
        (Entity(user=""), {PRODUCER: 1.0}, False),
        (Entity({"group": "x"}), {PRODUCER: 1.0}, False),
        (Entity(ip="localhost"), {CONNECTION: 1.0}, False),
        (Entity(ip="10.0.0.1"), {CONNECTION: 1.0}, True),
    ],
)
def test_what_cannot_be_removed_is_not_pruned(entity: Entity, values: dict[str, float], can: bool) -> None:
    assert is_removable(entity, values) is can
