"""What an apply did, entity by entity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quotaform.core.plan import Action, Plan
from quotaform.model.entity import Entity


class Result(StrEnum):
    """What became of the changes of one entity.

    | result | the cluster |
    | --- | --- |
    | applied | was read and holds what the plan says |
    | already-applied | held it before anything was sent |
    | refused | refused it; nothing changed on the entity |
    | unconfirmed | accepted it, and did not show it in time |
    | overwritten | accepted it, and holds other values now: somebody else changed it |
    | unknown | gave no answer; the change may be there, now or later |
    | not-attempted | was never asked |
    """

    APPLIED = "applied"
    ALREADY_APPLIED = "already-applied"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"
    OVERWRITTEN = "overwritten"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not-attempted"

    @property
    def holds(self) -> bool:
        """Whether the cluster is known to hold what the plan says."""
        return self in (Result.APPLIED, Result.ALREADY_APPLIED)


_WRITTEN: Final = (Result.APPLIED, Result.UNCONFIRMED, Result.OVERWRITTEN, Result.UNKNOWN)


@dataclass(frozen=True, slots=True)
class EntityResult:
    """What became of one entity, with the broker's words when it was refused."""

    entity: Entity
    action: Action
    result: Result
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Who applied which plan when, and what became of it.

    Attributes:
        plan: The plan that was applied.
        results: One per entity of the plan, in its order.
        applied_by: Who, as the operating system says.
        started_at: ISO 8601 UTC.
        finished_at: ISO 8601 UTC.
        interrupted_by: The name of the signal that cut it short, if one did.
        internal_error: The mistake of quotaform's own that cut it short, if one did.
    """

    plan: Plan
    results: tuple[EntityResult, ...]
    applied_by: str
    started_at: str
    finished_at: str
    interrupted_by: str | None = None
    internal_error: str | None = None

    @property
    def interruption(self) -> str | None:
        """What cut the apply short, in words."""
        if self.internal_error is not None:
            return f"an internal error ({self.internal_error}); please report it"
        return self.interrupted_by

    @property
    def is_complete(self) -> bool:
        """Whether everything holds."""
        return all(result.result.holds for result in self.results)

    @property
    def wrote_anything(self) -> bool:
        """Whether anything was or may have been written."""
        return any(result.result in _WRITTEN for result in self.results)

    def count(self, action: Action) -> int:
        """How many entities with this action hold what the plan says and did not before."""
        return sum(result.action is action and result.result is Result.APPLIED for result in self.results)

    @property
    def tally(self) -> Mapping[Result, int]:
        """How many entities there are per result."""
        return Counter(result.result for result in self.results)
