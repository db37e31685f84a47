"""One entity that differs from what was agreed: drift, or a change of the files that is pending.

What was last agreed is the baseline: the files at a git ref, or what a receipt says was applied. For each entity:

| class | the baseline | the cluster | the files |
| --- | --- | --- | --- |
| modified | declares it | holds it with other values | |
| missing | declares it | does not hold it | declare it |
| unexpected | does not declare it, or says that it must not exist | holds it | do not declare it |
| pending | says what the cluster holds, or does not declare it | | declare something else: git has moved on |

The first three are drift. A key whose live value is that of the files is in sync, whatever the baseline says. Without a
baseline the files stand for it, and what is pending cannot be distinguished from drift.

Drift is the same difference as a plan's, seen from the other side: `quotaform.core.origin` says what each key that
differs is due to, and nothing is compared a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quotaform.core.base import DeclaredBase
from quotaform.core.change import Action, Change
from quotaform.core.entity_change import EntityChange
from quotaform.core.origin import Origin, key_origin
from quotaform.core.plan import Unmanaged
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.model.quotas import Values, same_value


class DriftClass(StrEnum):
    """In what way an entity differs."""

    MODIFIED = "modified"
    MISSING = "missing"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftedEntity:
    """One entity that differs.

    Attributes:
        drift_class: In what way.
        changes: The keys that differ, as the changes that would make the cluster as the files say.
        baseline: What the baseline declares for it, empty when it must not exist; `None` when it does not declare it or
            its values are not known, and without a baseline.
        is_declared: Whether an entry of the files is about it.
        absent: Why the files say that it must not exist: `state: absent` or `expired DATE`; `None` if they do not.
        owner: Whose entry it is.
    """

    entity: Entity
    drift_class: DriftClass
    changes: tuple[Change, ...]
    baseline: Values | None = None
    is_declared: bool = True
    absent: str | None = None
    owner: str | None = None
    location: Location | None = None

    def agreed(self, change: Change) -> float | None:
        """Return the value of a key that was last agreed: that of the baseline, or of the files if it has none."""
        return change.after if self.baseline is None else self.baseline.get(change.key)

    def has_moved(self, change: Change) -> bool:
        """Whether the files say something else of a key than what was last agreed."""
        return not same_value(self.agreed(change), change.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """One entity that is as the baseline says, while the files say something else: an apply is due.

    Attributes:
        action: What an apply would do to it.
        changes: The keys that differ from the files.
        is_declared: Whether an entry of the files is about it.
        owner: Whose entry it is.
    """

    entity: Entity
    action: Action
    changes: tuple[Change, ...]
    is_declared: bool = True
    owner: str | None = None
    location: Location | None = None


def read_change(change: EntityChange) -> DriftedEntity | PendingChange:
    """Return what the changes of an entity are: drift if any of its keys has drifted."""
    is_declared = change.cause is not Cause.UNDECLARED
    rows = tuple(row for row in change.changes if change.origin_of(row) is not Origin.CONFIG)
    if not rows:
        return PendingChange(
            entity=change.entity,
            action=change.action,
            changes=change.changes,
            is_declared=is_declared,
            owner=change.owner,
            location=change.location,
        )
    return DriftedEntity(
        entity=change.entity,
        drift_class=_class_of(change.cause is Cause.ENTRY if change.base is None else bool(change.base), change.before),
        changes=rows,
        baseline=change.base,
        is_declared=is_declared,
        absent=change.reason if change.cause in (Cause.TOMBSTONE, Cause.EXPIRED) else None,
        owner=change.owner,
        location=change.location,
    )


def _class_of(is_agreed: bool, live: Values) -> DriftClass:
    """Return in what way an entity differs, by whether it was agreed that it exists."""
    if not is_agreed:
        return DriftClass.UNEXPECTED
    return DriftClass.MODIFIED if live else DriftClass.MISSING


def read_unmanaged(item: Unmanaged, baseline: DeclaredBase | None) -> DriftedEntity | PendingChange:
    """Return what a live entity is that no file declares: pending when the baseline declares it as it is."""
    agreed = None if baseline is None else baseline.values(item.entity)
    keys = sorted(item.values, key=key_order)
    rows = tuple(Change(item.entity, key, item.values[key], None) for key in keys)
    if baseline is not None and agreed is None and item.entity in baseline.unvalued:
        return PendingChange(entity=item.entity, action=Action.DELETE, changes=rows, is_declared=False)
    if agreed:
        known = [key for key in QUOTA_KEYS if key in item.values or key in agreed]
        every = (Change(item.entity, key, item.values.get(key), None) for key in known)
        moved = tuple(row for row in every if key_origin(agreed.get(row.key), row) is not Origin.CONFIG)
        if not moved:
            return PendingChange(entity=item.entity, action=Action.DELETE, changes=rows, is_declared=False)
        rows = moved
    return DriftedEntity(
        entity=item.entity,
        drift_class=_class_of(bool(agreed), item.values),
        changes=rows,
        baseline=agreed,
        is_declared=False,
    )
