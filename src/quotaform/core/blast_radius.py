"""The blast radius of a plan: which of the principals that really connect get another effective limit.

An entry says for whom it is meant; who is there, and whose limit it therefore changes, only a list of principals can
say. Everything here follows from that list, the cluster's quotas and the changes of the plan (`limit_change`);
`spark.radius` computes the same rows by joins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final, NamedTuple

from quotaform.core.entity_change import EntityChange
from quotaform.core.limit_change import LimitChange, LimitChanges, LimitDirection, size_order
from quotaform.model.entity import ENTITY_TYPES, Entity
from quotaform.model.quotas import Quotas

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


@dataclass(frozen=True, slots=True)
class Principals:
    """Who really connects to a cluster.

    Attributes:
        source: Where the list comes from, as it was given: `scram`, or the path of a file.
        entities: Concrete entities, each once, by `principal_order`.
    """

    source: str
    entities: tuple[Entity, ...]

    @classmethod
    def of(cls, source: str, entities: Iterable[Entity]) -> Principals:
        """Return principals of a list in any order, in which one may come several times."""
        return cls(source, tuple(sorted(set(entities), key=principal_order)))


class DirectionCount(NamedTuple):
    """How often limits change in one direction.

    Attributes:
        principals: The principals with such a limit; one whose limits change in several directions counts in each.
        limits: The effective limits: one per principal and quota key.
    """

    principals: int = 0
    limits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RadiusCounts:
    """How many limits a plan changes for those who really connect, and nothing of the size of their list.

    Attributes:
        source: Where the list of principals comes from, as it was given.
        principals: How many principals the list has, each counted once.
        affected: How many of them get another effective limit.
        counts: How often limits change in each direction; all directions are there.
    """

    source: str
    principals: int
    affected: int
    counts: Mapping[LimitDirection, DirectionCount]

    @classmethod
    def sum(cls, items: Sequence[RadiusCounts]) -> RadiusCounts:
        """Return the counts of several clusters together; a principal counts on each of them.

        `items` are the counts of one or more clusters, for the same list.
        """
        counts = {
            each: DirectionCount(
                sum(item.counts[each].principals for item in items), sum(item.counts[each].limits for item in items)
            )
            for each in LimitDirection
        }
        return cls(
            source=items[0].source,
            principals=sum(item.principals for item in items),
            affected=sum(item.affected for item in items),
            counts=counts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius(RadiusCounts):
    """What a plan changes for those who really connect. It is information: nothing of it is applied.

    Attributes:
        largest: The `MOST_LARGEST` largest changes, by `size_order`.
        file: The file with all changes, as it was given; `None` if none is written.
        changes: All changes, for that file; not in a plan file.
    """

    largest: tuple[LimitChange, ...] = ()
    file: str | None = None
    changes: Iterable[LimitChange] = field(default=(), compare=False, repr=False)

    def without_changes(self) -> RadiusCounts:
        """Return the counts alone."""
        return RadiusCounts(source=self.source, principals=self.principals, affected=self.affected, counts=self.counts)


def make_blast_radius(
    principals: Principals, actual: Quotas, changes: Iterable[EntityChange], *, file: str | None = None
) -> BlastRadius:
    """Return the blast radius of a plan on one cluster.

    `actual` holds all quotas of the cluster, as the plan read them. `file` is the file in which all changes are wanted;
    for it, they are kept together with the quotas.
    """
    rows = LimitChanges(principals.entities, actual, changes)
    counter = _Counter()
    largest = tuple(nsmallest(MOST_LARGEST, counter.counted(rows), key=size_order))
    return BlastRadius(
        source=principals.source,
        principals=len(principals.entities),
        affected=counter.affected,
        counts=counter.counts(),
        largest=largest,
        file=file,
        changes=rows if file is not None else (),
    )


class _Counter:
    """Counts rows as they pass: those of one principal follow each other."""

    def __init__(self) -> None:
        self.affected = 0
        self._principals: Counter[LimitDirection] = Counter()
        self._limits: Counter[LimitDirection] = Counter()

    def counted(self, rows: Iterable[LimitChange]) -> Iterator[LimitChange]:
        principal: Entity | None = None
        seen: set[LimitDirection] = set()
        for row in rows:
            if row.principal is not principal:
                principal, seen = row.principal, set()
                self.affected += 1
            if (direction := row.direction) is not None:
                self._limits[direction] += 1
                self._principals[direction] += direction not in seen
                seen.add(direction)
            yield row

    def counts(self) -> Mapping[LimitDirection, DirectionCount]:
        return {each: DirectionCount(self._principals[each], self._limits[each]) for each in LimitDirection}
