"""The effective limits that a plan changes for those who really connect: from what, to what, and in which direction.

| before | after | direction |
| --- | --- | --- |
| unlimited | a limit | `newly_limited` |
| a limit | a lower one | `lower` |
| a limit | unlimited | `no_longer_limited` |
| a limit | a higher one | `higher` |
| a limit | the same, on a level with another bucket | `other_bucket`: who shares the rate changes |
| NaN on one side | a limit | `not_comparable` |
| a limit | the same in the same bucket, from another entry | no row: nothing changes for the client |
| unlimited | unlimited, by whichever entry | no row |

A value that is the maximum of its key means unlimited, as on a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from quotaform.core.entity_change import EntityChange
from quotaform.core.resolve.entry import Effective, effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import PRECEDENCE_OF, request_of
from quotaform.model.entity import ENTITY_TYPES, KNOWN_TYPES, Entity
from quotaform.model.precedence import Level
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, same_value
from quotaform.model.units import is_unlimited


class LimitDirection(StrEnum):
    """What becomes of an effective limit, in the order in which the largest changes are listed: harm first."""

    NEWLY_LIMITED = "newly_limited"
    LOWER = "lower"
    NO_LONGER_LIMITED = "no_longer_limited"
    HIGHER = "higher"
    OTHER_BUCKET = "other_bucket"
    NOT_COMPARABLE = "not_comparable"

    @property
    def words(self) -> str:
        """The direction as people read it.

        >>> LimitDirection.NO_LONGER_LIMITED.words
        'no longer limited'
        """
        return self.value.replace("_", " ")


RANK: Final = {direction: rank for rank, direction in enumerate(LimitDirection)}
"""The place of each direction in the order of the largest changes."""


def limit_direction(key: str, before: Effective, after: Effective) -> LimitDirection | None:
    """Return what becomes of a limit, by the table of this module; `None` when nothing changes for the client.

    >>> limit_direction("producer_byte_rate", Effective(), Effective(5.0)).words
    'newly limited'
    """
    return _direction(key, before.value, after.value, _bucket(before.level) == _bucket(after.level))


@lru_cache(maxsize=4096)
def _direction(key: str, before: float | None, after: float | None, is_same_bucket: bool) -> LimitDirection | None:
    known = QUOTA_KEYS.get(key)
    was_unlimited, is_now_unlimited = is_unlimited(known, before), is_unlimited(known, after)
    if before is None or was_unlimited:
        return None if is_now_unlimited else LimitDirection.NEWLY_LIMITED
    if after is None or is_now_unlimited:
        return LimitDirection.NO_LONGER_LIMITED
    if same_value(before, after):
        return None if is_same_bucket else LimitDirection.OTHER_BUCKET
    if before != before or after != after:
        return LimitDirection.NOT_COMPARABLE
    return LimitDirection.LOWER if after < before else LimitDirection.HIGHER


def _bucket(level: Level | None) -> tuple[str, ...]:
    return level.bucket if level else ()


class LimitChange(NamedTuple):
    """One effective limit of a principal that a plan changes.

    Attributes:
        principal: Who connects: a concrete entity.
        before: What limits it now.
        after: What will.
    """

    principal: Entity
    key: str
    before: Effective
    after: Effective

    @property
    def direction(self) -> LimitDirection | None:
        """What becomes of the limit; `None` when nothing changes for the client."""
        return limit_direction(self.key, self.before, self.after)

    @property
    def factor(self) -> float | None:
        """The limit after, divided by that before; `None` unless both sides have a limit above 0."""
        known, before, after = QUOTA_KEYS.get(self.key), self.before.value, self.after.value
        if before is None or after is None or is_unlimited(known, before) or is_unlimited(known, after):
            return None
        return after / before if before > 0 and after > 0 else None


def size_order(change: LimitChange) -> tuple[int, float]:
    """Sort key of changes that come by principal and key, so that every engine lists the same as the largest.

    By direction (`LimitDirection`); among lower limits the smallest factor first, among higher ones the largest, and
    before them those without a factor. What is equal stays in order: by `principal_order`, and by key.
    """
    direction, size = change.direction, 0.0
    if direction is LimitDirection.LOWER:
        size = change.factor or 0.0
    elif direction is LimitDirection.HIGHER:
        size = -(change.factor or inf)
    return len(RANK) if direction is None else RANK[direction], size


Cell = str | float | int | None
"""A cell of the table of changes."""

CHANGE_COLUMNS: Final = (
    *(row.parameter for row in KNOWN_TYPES.values()),
    *("key", "direction", "factor"),
    *(
        f"{side}_{name}"
        for side in ("before", "after")
        for name in ("value", "entity_key", "source", "level", "bucket")
    ),
)
"""The columns of the table of changes: one row per principal and quota key."""


def change_row(change: LimitChange) -> dict[str, Cell]:
    """Return a change of a limit as a row of `CHANGE_COLUMNS`.

    | column | content |
    | --- | --- |
    | user, client_id, ip | the principal; null for a name that it leaves out |
    | key | the quota key |
    | direction, factor | as `LimitChange` has them |
    | before_value, after_value | the limit; null if nothing limits it, as are the other columns then |
    | before_entity_key, after_entity_key | the address of the entity that it comes from |
    | before_source, after_source | KIP-248's name of the level, such as `DefaultUser` |
    | before_level, after_level | its number |
    | before_bucket, after_bucket | the entity types whose names tell one rate from another, such as `user,client-id` |
    """
    names = change.principal.names
    cells: list[Cell] = [names.get(kind) for kind in ENTITY_TYPES]
    cells += [
        change.key,
        change.direction and change.direction.value,
        change.factor,
        *_limit_cells(change.before),
        *_limit_cells(change.after),
    ]
    return dict(zip(CHANGE_COLUMNS, cells, strict=True))


def _limit_cells(limit: Effective) -> tuple[Cell, ...]:
    value, source, level = limit
    if source is None or level is None:
        return (value, None, None, None, None)
    return value, source.address, level.source, level.number, ",".join(level.bucket)


class LimitChanges:
    """The effective limits of principals that a plan changes: rows that are computed each time they are gone through.

    Only principals that meet a changed entry are resolved, and clients only for the keys that change there. The rows
    come by principal and key.
    """

    def __init__(self, principals: Iterable[Entity], actual: Quotas, changes: Iterable[EntityChange]) -> None:
        """Index the quotas before and after. `principals` are concrete entities, in the order of the rows."""
        changes = tuple(changes)
        self._principals = principals
        self._before = QuotaIndex(actual)
        self._after = self._before.altered({change.entity: change.after for change in changes})
        self._changed = QuotaIndex({change.entity: {row.key: 0.0 for row in change.changes} for change in changes})

    def __iter__(self) -> Iterator[LimitChange]:
        for principal in self._principals:
            request = request_of(principal)
            met = self._changed.entries(request)
            if not met:
                continue
            now, then = self._before.entries(request), self._after.entries(request)
            # Of several spellings of an address one entry is met, with all its keys: another may come in its place.
            entries = (*now, *then) if PRECEDENCE_OF[len(request)].canonical else met
            for key in sorted({key for entry in entries for key in entry.values}):
                before, after = effective(now, key), effective(then, key)
                if limit_direction(key, before, after) is not None:
                    yield LimitChange(principal, key, before, after)
