"""Pruning: which live entities that no file declares are deleted, and why.

| mode | deleted is |
| --- | --- |
| report | nothing |
| removed | what the base declares and the files do not, see `quotaform.core.origin` |
| scope | every entity in scope that no file declares |

Never deleted is what is out of scope, what another repository declares, and what quotaform cannot remove. A plan of a
selection deletes nothing that is undeclared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quotaform.core.base import Base, DeclaredBase
from quotaform.core.check.writable import is_removable
from quotaform.core.scope import FULL_SCOPE, Scope
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas
from quotaform.model.text import inert


class PruneMode(StrEnum):
    """What happens to live entities that no file declares; the mode that deletes most is the last one."""

    REPORT = "report"
    REMOVED = "removed"
    SCOPE = "scope"

    def deletes_more_than(self, other: PruneMode) -> bool:
        """Whether this mode deletes entities that another one leaves.

        >>> PruneMode.SCOPE.deletes_more_than(PruneMode.REMOVED), PruneMode.REPORT.deletes_more_than(PruneMode.REPORT)
        (True, False)
        """
        modes = list(PruneMode)
        return modes.index(self) > modes.index(other)


@dataclass(frozen=True, slots=True)
class Pruned:
    """Why an entity is deleted that no file declares.

    `is_new` says whether it would not be deleted with the mode and the scope of the base.
    """

    reason: str
    owner: str | None = None
    is_new: bool = False


NOT_PRUNED: Final[Mapping[Entity, Pruned]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What is deleted of a cluster although no file declares it, and what could not be decided.

    Attributes:
        pruned: The entities that are deleted, with the reason.
        candidates: How many entities could be deleted, by the mode and what was known before.
        problem: Why it is not known which of them were declared before; `None` when it is.
        ignored: Which receipts were passed over, and why.
        receipt: The last receipt, if only receipts say what was declared before, with the commit of the last one that
            is of a whole plan.
    """

    mode: PruneMode = PruneMode.REPORT
    pruned: Mapping[Entity, Pruned] = field(default_factory=dict)
    candidates: int = 0
    problem: str | None = None
    ignored: tuple[str, ...] = ()
    receipt: Base | None = None


def removable_entities(
    desired: Desired, actual: Quotas, scope: Scope = FULL_SCOPE, claimed: Collection[Entity] = ()
) -> Iterator[Entity]:
    """Yield the live entities in scope that neither these files nor another repository declares, and can be removed.

    `claimed` is what other repositories declare.
    """
    for entity, values in actual.items():
        if entity not in desired and entity not in claimed and scope.contains(entity) and is_removable(entity, values):
            yield entity


def prune(
    candidates: Collection[Entity],
    mode: PruneMode,
    base: DeclaredBase | None,
    earlier: Callable[[Entity], bool] = lambda _: True,
) -> Mapping[Entity, Pruned]:
    """Return the entities to delete.

    Args:
        candidates: The entities that may be deleted, see `removable_entities`.
        base: What the files declared before; without it nothing counts as removed.
        earlier: Whether an undeclared entity would be deleted with the settings of the base, too.
    """
    if mode is PruneMode.REPORT:
        return NOT_PRUNED
    pruned: dict[Entity, Pruned] = {}
    for entity in candidates:
        if base is not None and base.declares(entity):
            pruned[entity] = _removed(entity, base)
        elif mode is PruneMode.SCOPE:
            is_new = not earlier(entity)
            reason = "in scope and not declared; prune=scope"
            pruned[entity] = Pruned(f"{reason}, by a change of prune or scope" if is_new else reason, is_new=is_new)
    return pruned


def _removed(entity: Entity, base: DeclaredBase) -> Pruned:
    entry = base.desired.get(entity)
    place = entry.location if entry is not None else None
    if entry is None or place is None or base.base.is_receipt:
        since = "the last apply" if base.base.is_receipt else "the base"
        return Pruned(f"removed from the files since {since} ({inert(base.base.ref)})", entry.owner if entry else None)
    return Pruned(f"removed from {inert(place.file)} in this change; was line {place.line}", entry.owner)
