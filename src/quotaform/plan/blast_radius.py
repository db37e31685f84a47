"""The blast radius of a plan: which effective limits of those who really connect it changes, and in which direction.

An entry says for whom it is meant; who is there, and whose limit it therefore changes, only a list of principals can
say. Everything here follows from that list, the cluster's quotas and the changes of the plan; `quotaform.plan.spark`
has tasks compute the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self, TypeAlias, TypedDict

from msgspec import Struct, structs

from quotaform.model.entity import ENTITY_TYPES, KNOWN_TYPES, Entity
from quotaform.model.precedence import Level, level_of
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, Values, same_value
from quotaform.model.records.record import Address, Count, Double, EntityTypeName, QuotaKeyName, Record, about, derived
from quotaform.model.units import is_unlimited
from quotaform.resolve.index import PRECEDENCE_OF, Effective, QuotaIndex, Request, effective, request_of

if TYPE_CHECKING:
    from quotaform.plan.plan import EntityChange


class LimitDirection(StrEnum):
    """What becomes of an effective limit, in the order in which the largest changes are listed: harm first.

    `docs/blast-radius.md` says which is which. As on a broker, a value that is the maximum of its key is unlimited.
    """

    NEWLY_LIMITED = "newly_limited"
    LOWER = "lower"
    NO_LONGER_LIMITED = "no_longer_limited"
    HIGHER = "higher"
    OTHER_BUCKET = "other_bucket"
    NOT_COMPARABLE = "not_comparable"

    @property
    def words(self) -> str:
        """The direction in words."""
        return "in another bucket" if self is LimitDirection.OTHER_BUCKET else self.value.replace("_", " ")


_RANK: Final = {direction: rank for rank, direction in enumerate(LimitDirection)}


@lru_cache(maxsize=4096)
def _direction(key: str, before: float | None, after: float | None, is_same_bucket: bool) -> LimitDirection | None:
    """Return what becomes of a limit, by `docs/blast-radius.md`; `None` when nothing changes for the client."""
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
    """One effective limit of a principal that a plan changes."""

    principal: Entity  # Who connects: a concrete entity
    key: str
    before: Effective
    after: Effective

    @property
    def direction(self) -> LimitDirection | None:
        """What becomes of the limit; `None` when nothing changes for the client."""
        before, after = self.before, self.after
        return _direction(self.key, before.value, after.value, _bucket(before.level) == _bucket(after.level))

    @property
    def factor(self) -> float | None:
        """The limit after, divided by that before; `None` unless both sides have a limit above 0."""
        known, before, after = QUOTA_KEYS.get(self.key), self.before.value, self.after.value
        if before is None or after is None or is_unlimited(known, before) or is_unlimited(known, after):
            return None
        return after / before if before > 0 and after > 0 else None


def size_order(change: LimitChange) -> tuple[int, float]:
    """Sort key of changes by their size.

    By direction (`LimitDirection`); among lower limits the smallest factor first, among higher ones the largest, and
    before them those without a factor.
    """
    direction, size = change.direction, 0.0
    if direction is LimitDirection.LOWER:
        size = change.factor or 0.0
    elif direction is LimitDirection.HIGHER:
        size = -(change.factor or inf)
    return len(_RANK) if direction is None else _RANK[direction], size


Cell = str | float | int | None
"""A cell of the table of changes."""

_LIMIT: Final = {"value": "double", "entity_key": "string", "source": "string", "level": "integer", "bucket": "string"}
CHANGE_COLUMNS: Final = {
    **{row.parameter: "string" for row in KNOWN_TYPES.values()},
    "key": "string",
    "direction": "string",
    "factor": "double",
    **{f"{side}_{name}": kind for side in ("before", "after") for name, kind in _LIMIT.items()},
}
"""The columns of the table of changes, one row per principal and quota key, with Spark's names of their types."""


def change_row(change: LimitChange) -> dict[str, Cell]:
    """Return a change of a limit as a row of `CHANGE_COLUMNS`, which `docs/blast-radius.md` describes."""
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


ChangedValues: TypeAlias = Mapping[Entity, tuple[Values, tuple[str, ...]]]
"""The values that entities will have, and which of their keys change."""


def changed_values(changes: Iterable[EntityChange]) -> ChangedValues:
    """Return what matters to effective limits of the changes of a plan."""
    return {change.entity: (change.after, tuple([row.key for row in change.changes])) for change in changes}


class ChangedLimits:
    """The effective limits that change on a cluster, for any number of requests.

    Only requests that meet a changed entry are resolved, and those of clients only for the keys that change there.
    """

    def __init__(self, actual: Quotas, changed: ChangedValues) -> None:
        """Index the quotas before and after."""
        self._before = QuotaIndex(actual)
        self._after = self._before.altered({entity: after for entity, (after, _) in changed.items()})
        self._changed = QuotaIndex({entity: dict.fromkeys(keys, 0.0) for entity, (_, keys) in changed.items()})

    def of(self, principal: Entity, request: Request) -> Iterator[LimitChange]:
        """Yield the changes of who makes a request, by key."""
        met = self._changed.entries(request)
        if not met:
            return
        now, then = self._before.entries(request), self._after.entries(request)
        # Of several spellings of an address one entry is met, with all its keys: another may come in its place.
        entries = (*now, *then) if PRECEDENCE_OF[len(request)].canonical else met
        for key in sorted({key for entry in entries for key in entry.values}):
            change = LimitChange(principal, key, effective(now, key), effective(then, key))
            if change.direction is not None:
                yield change


MOST_LARGEST: Final = 10
"""How many changes of limits a plan holds; the file of `--principals-out` has all of them."""


def principal_order(principal: Entity) -> tuple[str, ...]:
    """Sort key of principals: by user, client-id and ip, each by code points; one that is omitted comes first.

    >>> principals = [Entity(user="b"), Entity(user="a", client_id="x"), Entity(user="a"), Entity(ip="::1")]
    >>> [each.address for each in sorted(principals, key=principal_order)]
    ['ip=::1', 'user=a', 'user=a,client-id=x', 'user=b']
    """
    names = dict(principal.parts)
    return tuple(["" if (name := names.get(kind)) is None else f"+{name}" for kind in ENTITY_TYPES])


class Principals(Struct, frozen=True):
    """The principals that connect to a cluster."""

    source: str  # Where the list comes from, as it was given: `scram`, or the path of a file
    entities: tuple[Entity, ...]  # Concrete entities, each once, by `principal_order`

    @classmethod
    def of(cls, source: str, entities: Iterable[Entity]) -> Principals:
        """Return principals of a list in any order, in which one may come several times."""
        return cls(source, tuple(sorted(set(entities), key=principal_order)))


class LimitCount(Record):
    """How often limits change in this direction."""

    principals: Annotated[Count, about("Principals with such a limit; one can count in several directions.")] = 0
    limits: Annotated[Count, about("Effective limits: one per principal and quota key.")] = 0


if TYPE_CHECKING:
    DirectionCounts: TypeAlias = Mapping[LimitDirection, LimitCount]
else:
    DirectionCounts = TypedDict("DirectionCounts", {each.value: LimitCount for each in LimitDirection})
    DirectionCounts.__doc__ = "One field per direction."


class RadiusCounts(Record):
    """How many limits a plan changes for those who really connect."""

    source: Annotated[
        str, about("The list of principals: scram, or a file or table as given.", "principals.csv", "scram")
    ]
    principals: Annotated[Count, about("Principals in the list, each counted once.")]
    affected: Annotated[Count, about("Principals that get another effective limit.")]
    counts: DirectionCounts

    @classmethod
    def sum(cls, items: Sequence[RadiusCounts]) -> RadiusCounts:
        """Return the counts of several clusters together; a principal counts on each of them.

        `items` are the counts of one or more clusters, for the same list.
        """
        counts = {
            each: LimitCount(
                principals=sum(item.counts[each].principals for item in items),
                limits=sum(item.counts[each].limits for item in items),
            )
            for each in LimitDirection
        }
        return cls(
            source=items[0].source,
            principals=sum(item.principals for item in items),
            affected=sum(item.affected for item in items),
            counts=counts,
        )


class BucketLimit(Record):
    """An effective limit, and who shares it."""

    value: Annotated[Double | None, about("The limit, or null if there is none.")]
    source: Annotated[str | None, about("The address of the entity that it comes from, or null.")] = derived(
        lambda limit: None if limit.entity is None else limit.entity.address
    )
    entity: Annotated[Entity | None, about("The entity that it comes from, by type and name, or null.")]
    bucket: Annotated[
        tuple[EntityTypeName, ...] | None,
        about("The entity types whose names tell one rate from another; null if there is no limit."),
    ] = derived(lambda limit: _bucket(limit.effective.level) or None)

    @property
    def effective(self) -> Effective:
        """The same as what a request has."""
        return Effective(self.value, self.entity, None if self.entity is None else level_of(self.entity))


class LimitChangeRecord(Record):
    """An effective limit of a principal that changes."""

    address: Address = derived(lambda change: change.entity.address)
    entity: Annotated[Entity, about("The principal: a user, a client-id or both, or an ip.")]
    key: QuotaKeyName
    direction: Annotated[
        LimitDirection | None,
        about("What becomes of the limit; other_bucket: the same limit, but shared with others than before."),
    ] = derived(lambda change: change.limits.direction)
    factor: Annotated[
        Double | None, about("The limit after, divided by that before; null unless both are above 0.")
    ] = derived(lambda change: change.limits.factor)
    before: BucketLimit
    after: BucketLimit

    @classmethod
    def of(cls, change: LimitChange) -> Self:
        """Return the record of a change."""
        before, after = (BucketLimit(value=each.value, entity=each.source) for each in (change.before, change.after))
        return cls(entity=change.principal, key=change.key, before=before, after=after)

    @property
    def limits(self) -> LimitChange:
        """The change."""
        return LimitChange(self.entity, self.key, self.before.effective, self.after.effective)


class BlastRadius(RadiusCounts):
    """The principals whose effective limits change (--principals).

    It is information that is not applied: the plan id does not cover it.
    """

    largest: Annotated[
        tuple[LimitChangeRecord, ...],
        about(
            f"The {MOST_LARGEST} largest changes: by direction in the order of counts; lower limits by the "
            "smallest factor, higher ones by the largest; then by user, client-id, ip and key.",
            max_length=MOST_LARGEST,
        ),
    ] = ()
    file: Annotated[str | None, about("The file with all changes, as it was given, or null.")] = None


def make_blast_radius(
    principals: Principals, actual: Quotas, changes: Iterable[EntityChange], *, file: str | None = None
) -> tuple[BlastRadius, Callable[[], Iterable[LimitChange]]]:
    """Return the blast radius of a plan on one cluster, and a function that computes all changes, if they are wanted.

    `actual` holds all quotas of the cluster, as the plan read them. `file` is the file in which all changes are wanted;
    for it, they are kept together with the quotas.
    """
    changed = ChangedLimits(actual, changed_values(changes))
    radius = count_changes(principals.source, (changed.of(each, request_of(each)) for each in principals.entities))
    every = tuple if file is None else partial(_limit_changes, principals.entities, changed)
    return structs.replace(radius, file=file), every


def _limit_changes(principals: Iterable[Entity], changed: ChangedLimits) -> Iterator[LimitChange]:
    """Yield the limits of principals that change, by principal and key."""
    for principal in principals:
        yield from changed.of(principal, request_of(principal))


def count_changes(source: str, found: Iterable[Iterable[LimitChange]]) -> BlastRadius:
    """Return the blast radius of a list of principals; `found` has the changes of each, which may be none."""
    number = affected = 0
    principals: Counter[LimitDirection | None] = Counter()
    limits: Counter[LimitDirection | None] = Counter()
    largest: list[LimitChange] = []
    for changes in found:
        begin = len(largest)
        largest += changes
        directions = [each.direction for each in largest[begin:]]
        number += 1
        affected += bool(directions)
        limits.update(directions)
        principals.update(set(directions))
        if len(largest) > 1000:  # Beyond so many, all but the largest are dropped.
            largest = _largest(largest)
    counts = {each: LimitCount(principals=principals[each], limits=limits[each]) for each in LimitDirection}
    shown = tuple(map(LimitChangeRecord.of, _largest(largest)))
    return BlastRadius(source=source, principals=number, affected=affected, counts=counts, largest=shown)


def joined(radii: Sequence[BlastRadius]) -> BlastRadius:
    """Return the blast radius of a list of principals from those of its parts, of which there is at least one."""
    largest = _largest(large.limits for each in radii for large in each.largest)
    counts = RadiusCounts.sum(radii)
    return BlastRadius(**structs.asdict(counts), largest=tuple(map(LimitChangeRecord.of, largest)))


def _largest(changes: Iterable[LimitChange]) -> list[LimitChange]:
    """Return the largest changes; those of one size are by `principal_order`, and by key."""
    return nsmallest(
        MOST_LARGEST, changes, key=lambda each: (size_order(each), principal_order(each.principal), each.key)
    )
