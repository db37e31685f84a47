"""What the files are compared with: what they declared at another git revision, or when a receipt was written."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, Desired
from quotaform.model.quotas import Values


@dataclass(frozen=True, slots=True)
class Base:
    """What the files were compared with.

    Attributes:
        ref: A git revision as it was given, or the path of a receipt.
        commit: The commit of the revision; of a receipt, that of the files that were applied, if it says so.
        is_history: Whether it is what a cluster held at a moment, by a history.
    """

    ref: str
    commit: str | None
    is_receipt: bool = False
    is_history: bool = False

    @property
    def type(self) -> str:
        """`git`, `receipt` or `history`."""
        return "history" if self.is_history else "receipt" if self.is_receipt else "git"


@dataclass(frozen=True, slots=True)
class DeclaredBase:
    """What the base declares for one cluster.

    Attributes:
        base: What the files are compared with.
        desired: What it declares.
        unvalued: The entities that it declares with values that are not known: a receipt lists all of them and holds
            the values of those that the apply changed.
    """

    base: Base
    desired: Desired
    unvalued: frozenset[Entity] = frozenset()

    def values(self, entity: Entity) -> Values | None:
        """Return what the base declares for an entity; `None` when it does not declare it, or nobody knows."""
        entry = self.desired.get(entity)
        return None if entry is None else entry.values

    def declares(self, entity: Entity) -> bool:
        """Whether the base declares values for an entity; a tombstone and an expired entry declare none."""
        entry = self.desired.get(entity)
        return entity in self.unvalued if entry is None else entry.cause is Cause.ENTRY
