"""The changes of a plan apart: what is deleted, updated and created, and what only the cluster made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quotaform.core.change import Action, Change
from quotaform.core.effects import Effect
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin


class Row(NamedTuple):
    """One quota key that changes.

    Attributes:
        row: The key, with its value before and after.
        effect: What it does to the effective limit.
    """

    change: EntityChange
    row: Change
    effect: Effect
    origin: Origin | None


Rows = Sequence[tuple[EntityChange, Sequence[Row]]]
"""Entities, each with those of its rows that a table is about."""


class Parts(NamedTuple):
    """The changes of a plan, apart by what becomes of the entities; `drift` are those that only the cluster made."""

    deletes: Rows
    updates: Rows
    creates: Rows
    drift: Rows


def parts_of(changes: Iterable[EntityChange]) -> Parts:
    """Divide changes: a change that reverts drift is with the drift, but a deletion is always with the deletions."""
    parts = Parts([], [], [], [])
    by_action = {Action.DELETE: parts.deletes, Action.UPDATE: parts.updates, Action.CREATE: parts.creates}
    for change in changes:
        rows = [
            Row(change, row, effect, change.origin_of(row))
            for row, effect in zip(change.changes, change.effects, strict=True)
        ]
        action = change.action
        drift = () if action is Action.DELETE else [row for row in rows if row.origin is Origin.DRIFT]
        rest = [row for row in rows if row.origin is not Origin.DRIFT] if drift else rows
        for entities, some in ((parts.drift, drift), (by_action[action], rest)):
            if some:
                entities.append((change, some))  # type: ignore[attr-defined]
    return parts
