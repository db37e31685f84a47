"""What a change does to those an entity match is for: effective limits before and after, and their direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from math import inf
from typing import Final

from quotaform.core.resolve.entry import NOTHING, Effective, QuotaEntry, effective
from quotaform.core.resolve.index import NamesBeside, QuotaIndex
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
        return _direction(key, self.before.value, self.after.value)

    def becomes_unlimited(self, key: str) -> bool:
        """Whether something limited the request and nothing will."""
        if self.before.value is None:
            return False
        known = QUOTA_KEYS.get(key)
        return not is_unlimited(known, self.before.value) and is_unlimited(known, self.after.value)

    def shadowed_by(self, entity: Entity, after: float | None) -> Entity | None:
        """The entity match that wins over `entity` on both sides, so that changing it has no effect here."""
        winner = self.before.source if after is None else self.after.source
        return None if winner is None or winner is entity or winner == entity else winner


NO_EFFECT: Final = Effect(NOTHING, NOTHING)


@lru_cache(maxsize=4096)
def _direction(key: str, before: float | None, after: float | None) -> Direction:
    before, after = _size(key, before), _size(key, after)
    if after > before:
        return Direction.LOOSEN
    return Direction.TIGHTEN if after < before else Direction.NONE


def _size(key: str, value: float | None) -> float:
    """Return a value so that larger is looser; NaN stays NaN, which is neither."""
    if value is None:
        return inf
    known = QUOTA_KEYS.get(key)
    return inf if known is not None and value >= known.maximum else value


def make_effects(
    actual: Quotas, planned: Quotas, asked: Sequence[tuple[Entity, Sequence[str]]]
) -> Iterator[tuple[Effect, ...]]:
    """Yield what a plan does to those that entity matches are for: one effect per quota key.

    Args:
        actual: All quotas as they are.
        planned: The quotas that will be other ones, as they will be; empty for an entity that will be gone.
        asked: The entity matches, each with quota keys.
    """
    if not asked:
        return  # An index of a large cluster takes its time.
    before = QuotaIndex(actual)
    after = before.altered(planned)
    spread = _Spread(after)
    for entity, keys in asked:
        request = representative(entity)
        if request is None:
            yield (NO_EFFECT,) * len(keys)
            continue
        now, then = before.entries(request) if actual else (), after.entries(request)
        effects = []
        for key in keys:
            limit = effective(then, key)
            effects.append(Effect(effective(now, key), limit, spread.differs(request, key, limit)))
        yield tuple(effects)


_Tables = tuple[Mapping[str, QuotaEntry], ...]
"""The entries of levels that name one type and nothing else, by name, the strongest level first."""


class _Values:
    """The values of one quota key that names have by entries of their own, counted."""

    def __init__(self, tables: _Tables, key: str) -> None:
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


class _Names:
    """The names of one entity type, and what they change when they are filled in for an unmentioned one.

    Such a request meets the same entries, and those that name it; it resolves to another value when one of these, on a
    level stronger than the one that won, holds another. Entries that name nothing else are the same whatever the rest
    of the request is: they are counted once per key, so that a count takes one look and not a walk over all names.
    Those that name other types as well are few under any one request, and walked.
    """

    def __init__(self, index: QuotaIndex, levels: Iterable[Level], place: int, entity_type: str) -> None:
        self.entity_type, self.place = entity_type, place
        self._index = index
        self._levels = [level for level in levels if entity_type in level.named]
        self._stronger: dict[str | None, _Tables] = {}
        self._values: dict[tuple[str, int], _Values] = {}

    @cached_property
    def _beside(self) -> list[NamesBeside]:
        kind = self.entity_type
        return [self._index.names_beside(level, kind) for level in self._levels if level.named != (kind,)]

    def differing(self, request: Request, key: str, limit: Effective) -> int:
        """Count the names that make a request resolve a key to another value than `limit`."""
        source = limit.level.source if limit.level else None
        alone = self._stronger.get(source)
        if alone is None:
            alone = self._stronger[source] = self._stronger_than(limit.level)
        count = self._values_of(key, alone).other_than(limit.value) if alone else 0
        for name in {name for beside in self._beside for name in beside.of(request)}:
            named = (*request[: self.place], name, *request[self.place + 1 :])
            value = effective(self._index.entries(named), key).value
            own = effective([entries[name] for entries in alone if name in entries], key).value
            count += not same_value(value, limit.value)
            count -= own is not None and not same_value(own, limit.value)
        return count

    def _stronger_than(self, winner: Level | None) -> _Tables:
        stronger = [level for level in self._levels if winner is None or level.number < winner.number]
        return tuple([self._index.entries_of(level) for level in stronger if level.named == (self.entity_type,)])

    def _values_of(self, key: str, tables: _Tables) -> _Values:
        values = self._values.get((key, len(tables)))
        if values is None:
            values = self._values[key, len(tables)] = _Values(tables, key)
        return values


class _Spread:
    """How many names under a representative request resolve a key to another value than it does."""

    def __init__(self, index: QuotaIndex) -> None:
        self._names = {
            # By type, which is the order in which plans list them.
            size: sorted(
                [_Names(index, each.levels, place, column) for place, column in enumerate(each.columns)],
                key=lambda names: names.entity_type,
            )
            for size, each in PRECEDENCE_OF.items()
        }
        self._shared: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}

    def differs(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that differ per entity type, without the types of which none does."""
        counts = [
            (names.entity_type, count)
            for names in self._names[len(request)]
            if request[names.place] is UNMENTIONED and (count := names.differing(request, key, limit))
        ]
        return self._shared.setdefault(tuple(counts), dict(counts)) if counts else NO_NAMES
