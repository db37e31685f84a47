"""What a change does to those an entity match is for: effective limits before and after, and their direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

from quotaform.core.resolve.index import NOTHING, Effective, QuotaEntry, QuotaIndex, effective
from quotaform.core.resolve.request import PRECEDENCE_OF, UNMENTIONED, Request, representative
from quotaform.model.entity import Entity
from quotaform.model.precedence import Level
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, same_value
from quotaform.model.units import is_unlimited


class Direction(StrEnum):
    """Whether an effective limit rises or falls; unlimited is the largest."""

    LOOSEN = "loosen"
    TIGHTEN = "tighten"
    MIXED = "mixed"
    NONE = "none"


NO_NAMES: Final[Mapping[str, int]] = {}
"""No name differs; one object, because that is so of nearly every effect."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effective limit of one quota key before and after a plan.

    Attributes:
        before: What limits the representative request now.
        after: What will.
        differs: Entity type to the number of names under the match that will resolve to another value.
    """

    before: Effective
    after: Effective
    differs: Mapping[str, int] = field(default_factory=lambda: NO_NAMES)

    def direction(self, key: str) -> Direction:
        """Whether the effective limit loosens or tightens; NONE when it stays, or cannot be compared (NaN)."""
        before, after = _size(key, self.before.value), _size(key, self.after.value)
        if after > before:
            return Direction.LOOSEN
        return Direction.TIGHTEN if after < before else Direction.NONE

    def becomes_unlimited(self, key: str) -> bool:
        """Whether something limited the request and nothing will."""
        known = QUOTA_KEYS.get(key)
        return not is_unlimited(known, self.before.value) and is_unlimited(known, self.after.value)

    def shadowed_by(self, entity: Entity, after: float | None) -> Entity | None:
        """The entity match that wins over `entity` on both sides, so that changing it has no effect here."""
        winner = self.before.source if after is None else self.after.source
        return winner if winner is not None and winner != entity else None


NO_EFFECT: Final = Effect(NOTHING, NOTHING)

_COLUMNS: Final = {
    size: sorted(enumerate(precedence.columns), key=itemgetter(1)) for size, precedence in PRECEDENCE_OF.items()
}
"""The columns of a request, by how many names that has, in the order in which plans list them."""


def _size(key: str, value: float | None) -> float:
    """Return a value so that larger is looser; NaN stays NaN, which is neither."""
    if value is None:
        return inf
    known = QUOTA_KEYS.get(key)
    return inf if known is not None and value >= known.maximum else value


def make_effects(
    actual: Quotas, planned: Quotas, asked: Iterable[tuple[Entity, Sequence[str]]]
) -> Iterator[tuple[Effect, ...]]:
    """Yield what a plan does to those that entity matches are for: one effect per quota key.

    Args:
        actual: All quotas as they are.
        planned: The quotas that will be other ones, as they will be; empty for an entity that will be gone.
        asked: The entity matches, each with quota keys.
    """
    before = QuotaIndex(actual)
    after = before.altered(planned)
    spread = _Spread(after)
    for entity, keys in asked:
        request = representative(entity)
        if request is None:
            yield (NO_EFFECT,) * len(keys)
            continue
        now, then = before.entries(request), after.entries(request)
        effects = []
        for key in keys:
            limit = effective(then, key)
            effects.append(Effect(effective(now, key), limit, spread.differs(request, key, limit)))
        yield tuple(effects)


class _Values:
    """The values of one quota key that names have by entries of their own, counted."""

    def __init__(self, tables: Sequence[Mapping[str, QuotaEntry]], key: str) -> None:
        values: dict[str, float] = {}
        for entries in reversed(tables):
            values.update({name: entry.values[key] for name, entry in entries.items() if key in entry.values})
        self._counts = Counter(values.values())
        self._total = len(values)

    def other_than(self, value: float | None) -> int:
        """How many names have another value."""
        if value is None or value == value:
            return self._total - (0 if value is None else self._counts[value])
        return sum(count for other, count in self._counts.items() if not same_value(other, value))


class _Rivals(NamedTuple):
    """What can give names of one type another limit: levels that name it, stronger than the one that won.

    Attributes:
        alone: The entries of those that name nothing else, by name, the strongest level first.
        beside: Those that name other types as well.
    """

    alone: tuple[Mapping[str, QuotaEntry], ...]
    beside: tuple[Level, ...]


class _Spread:
    """How many names under a representative request resolve one key to another value than it does.

    A name that is filled in for an unmentioned one meets the same entries, and those that name it. Entries that name
    nothing else are the same whatever the rest of the request is: they are counted once per key, so that a count takes
    one look and not a walk over all names. Those that name other types as well are few under any one request, and
    walked.
    """

    def __init__(self, index: QuotaIndex) -> None:
        self._index = index
        self._rivals: dict[tuple[str, str | None], _Rivals] = {}
        self._values: dict[tuple[str, str, int], _Values] = {}
        self._differs: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {(): NO_NAMES}

    def differs(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that resolve to another value, per entity type; without those that have none."""
        counts = tuple(
            [
                (entity_type, count)
                for place, entity_type in _COLUMNS[len(request)]
                if request[place] is UNMENTIONED and (count := self._count(request, place, entity_type, key, limit))
            ]
        )
        differs = self._differs.get(counts)
        if differs is None:
            differs = self._differs[counts] = dict(counts)
        return differs

    def _count(self, request: Request, place: int, entity_type: str, key: str, limit: Effective) -> int:
        alone, beside = self._rivals_of(entity_type, limit.level, request)
        count = self._values_of(key, entity_type, alone).other_than(limit.value) if alone else 0
        for name in {name for level in beside for name in self._index.names_beside(level, entity_type, request)}:
            named = (*request[:place], name, *request[place + 1 :])
            value = effective(self._index.entries(named), key).value
            own = effective([entries[name] for entries in alone if name in entries], key).value
            count += not same_value(value, limit.value)
            count -= own is not None and not same_value(own, limit.value)
        return count

    def _rivals_of(self, entity_type: str, winner: Level | None, request: Request) -> _Rivals:
        source = winner.source if winner else None
        rivals = self._rivals.get((entity_type, source))
        if rivals is None:
            stronger = [
                level
                for level in PRECEDENCE_OF[len(request)].levels
                if entity_type in level.named and (winner is None or level.number < winner.number)
            ]
            rivals = self._rivals[entity_type, source] = _Rivals(
                alone=tuple([self._index.entries_of(level) for level in stronger if len(level.named) == 1]),
                beside=tuple([level for level in stronger if len(level.named) > 1]),
            )
        return rivals

    def _values_of(self, key: str, entity_type: str, tables: Sequence[Mapping[str, QuotaEntry]]) -> _Values:
        values = self._values.get((key, entity_type, len(tables)))
        if values is None:
            values = self._values[key, entity_type, len(tables)] = _Values(tables, key)
        return values
