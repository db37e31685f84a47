"""What a change is due to: the files moved away from a base, the cluster did, or both.

A base is what the files declared before: at another git revision, or when a receipt was written. Without one, no
origin is given. For a key, with what the base declares, what the files declare now, and the live value:

| | origin |
| --- | --- |
| the files declare the entity and the base does not | `config`: what was not managed cannot have drifted |
| neither declares the entity, and it is pruned as at the base | `drift`: it was made on the cluster |
| neither declares the entity, and at the base it would not be pruned | `config` |
| the files declare what the base declares | `drift` |
| the live value is that of the base | `config` |
| all three differ | `both` |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from quotaform.core.guard_limits import Limits
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, Desired
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Values, same_value, same_values

if TYPE_CHECKING:
    from quotaform.core.plan import Change, EntityChange
    from quotaform.core.safeguards import Safeguards


class Origin(StrEnum):
    """What a change is due to: the files moved away from the base, the cluster did, or both."""

    CONFIG = "config"
    DRIFT = "drift"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Base:
    """What the files were compared with.

    Attributes:
        ref: A git revision as it was given, or the path of a receipt.
        commit: The commit of the revision; of a receipt, that of the files that were applied, if it says so.
        is_receipt: Whether it is a receipt.
    """

    ref: str
    commit: str | None
    is_receipt: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBase:
    """What came of reading the base for one cluster.

    Attributes:
        declared: What the base declares; `None` when nobody knows.
        findings: Why that is so, and what else is worth knowing about the base.
        cluster_id: The id of the cluster that the base is of, if it is a receipt.
        limits: What guards go by at the base; `None` when there is no base, or nobody knows.
        limits_problem: Why nobody knows it, although there is a base.
        safeguards: What else protects the cluster at the base; `None` like `limits`.
    """

    declared: DeclaredBase | None = None
    findings: tuple[Finding, ...] = ()
    cluster_id: str | None = None
    limits: Limits | None = None
    limits_problem: str | None = None
    safeguards: Safeguards | None = None


def row_origin(change: EntityChange, row: Change) -> Origin | None:
    """Return what the change of one key is due to; `None` without a base.

    Args:
        change: The changes of the entity.
        row: One of them.
    """
    if change.origin is None or change.base is None:
        return change.origin
    return _key_origin(change.base.get(row.key), row)


def entity_origin(
    base: Values | None, cause: Cause, before: Values, rows: Iterable[Change], *, prunes_more: bool = False
) -> Origin:
    """Return what the changes of one entity are due to, taken together: of different origins it is `both`.

    Args:
        base: What the base declares; `None` when it does not declare the entity.
        cause: What in the files the changes follow from.
        before: All values that the cluster holds.
        rows: The changes.
        prunes_more: Whether the entity is undeclared, and would not be pruned with the settings of the base.
    """
    if base is None:
        # What neither declares and a file would have to declare to stay was made on the cluster.
        return Origin.DRIFT if cause is Cause.UNDECLARED and not prunes_more else Origin.CONFIG
    if base and cause is Cause.UNDECLARED:
        live = {key: value for key, value in before.items() if key in QUOTA_KEYS}
        return Origin.CONFIG if same_values(live, base) else Origin.BOTH
    origins = {_key_origin(base.get(row.key), row) for row in rows}
    return origins.pop() if len(origins) == 1 else Origin.BOTH


def _key_origin(declared: float | None, row: Change) -> Origin:
    if same_value(declared, row.after):
        return Origin.DRIFT
    return Origin.CONFIG if same_value(declared, row.before) else Origin.BOTH
