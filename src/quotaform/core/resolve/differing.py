"""How many names resolve differently from one that no quota mentions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from quotaform.core.resolve.entry import NO_NAMES, Effective, QuotaEntry, effective
from quotaform.core.resolve.index import NamesBeside, QuotaIndex
from quotaform.core.resolve.request import PRECEDENCE_OF, UNMENTIONED, Request
from quotaform.model.precedence import Level
from quotaform.model.quotas import same_value

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
        self._stronger: dict[tuple[str | None, tuple[str, ...]], _Tables] = {}
        self._values: dict[tuple[str, str | None, tuple[str, ...]], _Values] = {}

    @cached_property
    def _beside(self) -> list[NamesBeside]:
        kind = self.entity_type
        return [self._index.names_beside(level, kind) for level in self._levels if level.named != (kind,)]

    def differing(self, request: Request, key: str, limit: Effective) -> int:
        """Count the names that make a request resolve a key to another value than `limit`."""
        source = limit.level.source if limit.level else None
        empty = self._empty_columns(request) if "" in request else ()
        alone = self._stronger.get((source, empty))
        if alone is None:
            alone = self._stronger[source, empty] = self._stronger_than(limit.level, empty)
        count = 0
        if alone:
            values = self._values.get((key, source, empty))
            if values is None:
                values = self._values[key, source, empty] = _Values(alone, key)
            count = values.other_than(limit.value)
        for name in {name for beside in self._beside for name in beside.of(request)}:
            named = (*request[: self.place], name, *request[self.place + 1 :])
            value = effective(self._index.entries(named), key).value
            own = effective([entries[name] for entries in alone if name in entries], key).value
            count += not same_value(value, limit.value)
            count -= own is not None and not same_value(own, limit.value)
        return count

    @staticmethod
    def _empty_columns(request: Request) -> tuple[str, ...]:
        columns = PRECEDENCE_OF[len(request)].columns
        return tuple([column for column, name in zip(columns, request, strict=True) if name == ""])

    def _stronger_than(self, winner: Level | None, empty: tuple[str, ...]) -> _Tables:
        """Return the entries that name this type alone and win over a level, of those that a request can meet.

        `winner` is the level; `None` for one weaker than all. `empty` holds the types for which the request has an
        empty name, which some levels do not match.
        """
        stronger = [level for level in self._levels if winner is None or level.number < winner.number]
        return tuple(
            self._index.entries_of(level)
            for level in stronger
            if level.named == (self.entity_type,) and not set(empty).intersection(level.non_empty)
        )


class DifferingNames:
    """How many names resolve a key to another value than one that no quota mentions does."""

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

    def count(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that differ per entity type, without the types of which none does.

        >>> from quotaform.model.entity import Entity
        >>> key = "producer_byte_rate"
        >>> index = QuotaIndex({Entity(user="a"): {key: 9.0}, Entity(user=None): {key: 5.0}})
        >>> anybody = (UNMENTIONED, "app")
        >>> DifferingNames(index).count(anybody, key, effective(index.entries(anybody), key))
        {'user': 1}

        Args:
            request: One with a name that no quota mentions, or several.
        """
        counts = [
            (names.entity_type, count)
            for names in self._names[len(request)]
            if request[names.place] is UNMENTIONED and (count := names.differing(request, key, limit))
        ]
        return self._shared.setdefault(tuple(counts), dict(counts)) if counts else NO_NAMES
