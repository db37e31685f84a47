"""The rows of a plan: one quota key of one entity, its value before and after.

Everything else (text, plan file, alterations, drift, the Spark engine) consumes those rows; nothing computes them
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quotaform.model.entity import Entity
from quotaform.model.quotas import Values


class Action(StrEnum):
    """What happens to a value or to an entity.

    | action | before | after |
    | --- | --- | --- |
    | create | none | some |
    | update | some | some, different |
    | delete | some | none |
    """

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"

    @property
    def glyph(self) -> str:
        """The sign in front of a line: `+`, `~` or `-`."""
        return _GLYPHS[self]


_GLYPHS: Final = {Action.CREATE: "+", Action.UPDATE: "~", Action.DELETE: "-"}


NO_VALUES: Final[Values] = {}
"""What the cluster holds of an entity that is not there; one object, because a plan may create very many."""

ACTION_ORDER = {Action.DELETE: 0, Action.UPDATE: 1, Action.CREATE: 2}
"""The order in which a plan lists its entities; within an action they go by address."""


def action_of(before: float | None, after: float | None) -> Action:
    """What happens to a value; `None` is no value."""
    if before is None:
        return Action.CREATE
    return Action.DELETE if after is None else Action.UPDATE


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a plan: a quota key of an entity, its value before and after; `None` is no value."""

    entity: Entity
    key: str
    before: float | None
    after: float | None

    @property
    def action(self) -> Action:
        """What happens to the value."""
        return action_of(self.before, self.after)
