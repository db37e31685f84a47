"""Quotas by level of precedence: the one walk from a request to its entries; how many names resolve differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

from quotaform.model.precedence import LEVELS, PRECEDENCES, Level, level_of
from quotaform.model.quotas import Quotas, same_value
from quotaform.resolve.request import NO_NAMES, PRECEDENCE_OF, UNMENTIONED, Effective, QuotaEntry, Request, effective

_Pick = Callable[[Sequence[Any]], Hashable]


def _pick(columns: Sequence[str], entity_types: Sequence[str]) -> _Pick:
    """Return what takes the names of some types from a row with one for each column: a name, or a tuple of them."""
    places = [columns.index(entity_type) for entity_type in entity_types]
    return itemgetter(*places) if places else itemgetter(slice(0, 0))


class _Table(NamedTuple):
    """The entries of one level by what they name."""

    level: Level
    columns: tuple[str, ...]  # Those of the requests that meet them
    pick: _Pick  # Takes what entries name from a request
    entries: dict[Hashable, QuotaEntry]
    """A name, a tuple of names, or `()` for a level that names nothing, to the entry."""

    def can_meet(self, request: Request) -> bool:
        """Whether a request can meet its entries; one with an empty name cannot meet those of some levels."""
        return all(request[self.columns.index(kind)] != "" for kind in self.level.non_empty)


class QuotaIndex:
    """Quotas by level of precedence, built once and then asked any number of times.

    What no request meets is left out: shapes that no level holds (unknown entity types), and empty names where a level
    has none.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._tables: Final = {
            level.source: _Table(level, each.columns, _pick(each.columns, level.named), {})
            for each in PRECEDENCES
            for level in each.levels
        }
        self._by_others: dict[tuple[str, str], tuple[_Pick, Mapping[Hashable, list[str]]]] = {}
        self._spellings: dict[str, dict[str, list[str]]] = {}
        self._replace(quotas)

    def _replace(self, quotas: Quotas) -> None:
        for entity, values in quotas.items():
            level = level_of(entity)
            names = [name for _, name in entity.parts if name is not None]
            if level is None or ("" in names and any((kind, "") in entity.parts for kind in level.non_empty)):
                continue
            key: Hashable = names[0] if len(names) == 1 else tuple(names)
            if values:
                self._tables[level.source].entries[key] = QuotaEntry(level, entity, values)
            else:
                self._tables[level.source].entries.pop(key, None)
        self._steps = {
            size: [table for table in map(self._tables.__getitem__, sources) if table.entries]
            for size, sources in _SOURCES.items()
        }

    def altered(self, quotas: Quotas) -> QuotaIndex:
        """Return the index with the values of some entities replaced; no values remove the entity."""
        index = QuotaIndex({})
        for source, table in self._tables.items():
            index._tables[source].entries.update(table.entries)
        index._replace(quotas)
        return index

    def entries(self, request: Request) -> tuple[QuotaEntry, ...]:
        """Return the entries that a request meets, by precedence: the first that holds a key wins it.

        This is the one walk of precedence. A name finds its entry however that is spelled.

        >>> from quotaform.model.entity import Entity
        >>> index = QuotaIndex({Entity(user=None): {"request_percentage": 5.0}, Entity(user="a"): {"x": 1.0}})
        >>> [entry.entity.address for entry in index.entries(("a", "app"))]
        ['user=a', 'user=<default>']
        """
        tables = self._steps[len(request)]
        if "" in request:
            tables = [table for table in tables if table.can_meet(request)]
        if PRECEDENCE_OF[len(request)].canonical:
            request = self._spelled(request)
        return tuple([entry for table in tables if (entry := table.entries.get(table.pick(request))) is not None])

    def _spelled(self, request: Request) -> Request:
        precedence = PRECEDENCE_OF[len(request)]
        return tuple(
            next(iter(self.spellings(kind, name)), name)
            if kind in precedence.canonical and isinstance(name, str)
            else name
            for kind, name in zip(precedence.columns, request, strict=True)
        )

    def spellings(self, entity_type: str, name: str) -> list[str]:
        """Return how entries spell a name: this spelling first if there is one, then the canonical one.

        >>> from quotaform.model.entity import Entity
        >>> QuotaIndex({Entity(ip="::ffff:10.0.0.1"): {"x": 1.0}}).spellings("ip", "10.0.0.1")
        ['::ffff:10.0.0.1']
        """
        canonical = next(each.canonical[entity_type] for each in PRECEDENCES if entity_type in each.canonical)
        if entity_type not in self._spellings:
            spelled = self._spellings[entity_type] = defaultdict(list)
            for each in sorted(str(key) for entries in self._naming(entity_type) for key in entries):
                spelled[canonical(each) or each].append(each)
        usual = canonical(name) or name
        return sorted(self._spellings[entity_type].get(usual, ()), key=lambda each: (each != name, each != usual))

    def _naming(self, entity_type: str) -> Iterator[Mapping[Hashable, QuotaEntry]]:
        """Yield the entries that name one type and nothing else, level by level."""
        return (self._tables[level.source].entries for level in _ALONE[entity_type])

    def meets_more_with_names(self, request: Request) -> bool:
        """Whether there are entries that a request would meet if a name that is empty were another."""
        for level in PRECEDENCE_OF[len(request)].levels:
            table = self._tables[level.source]
            for kind in level.non_empty:
                if request[table.columns.index(kind)] == "" and (
                    self.names_by_others(level, kind, request)
                    if kind in level.named
                    else table.pick(request) in table.entries
                ):
                    return True
        return False

    def names_by_others(self, level: Level, entity_type: str, request: Request) -> Sequence[str]:
        """Return the names of a type whose entries on a level a request would meet if it had them for a name."""
        found = self._by_others.get((level.source, entity_type))
        if found is None:
            table, names = self._tables[level.source], defaultdict(list)
            others = tuple(other for other in level.named if other != entity_type)
            name_of, others_of = _pick(level.named, (entity_type,)), _pick(level.named, others)
            for key in table.entries:
                row = key if isinstance(key, tuple) else (key,)
                names[others_of(row)].append(str(name_of(row)))
            found = self._by_others[level.source, entity_type] = _pick(table.columns, others), names
        pick, by_others = found
        return by_others.get(pick(request), ())

    def entries_of(self, level: Level) -> Mapping[Any, QuotaEntry]:
        """All entries of one level, by what it names: a name, a tuple of names, or `()`."""
        return self._tables[level.source].entries


_TYPES: Final = tuple(column for each in PRECEDENCES for column in each.columns)
_ALONE: Final = {kind: [level for level in LEVELS if level.named == (kind,)] for kind in _TYPES}
"""The levels that name one type and nothing else, by type."""
_WITH_OTHERS: Final = {kind: [level for level in LEVELS if kind in level.named != (kind,)] for kind in _TYPES}
_SOURCES: Final = {size: [level.source for level in each.levels] for size, each in PRECEDENCE_OF.items()}


_NONE: Final = frozenset[str]()
_PLACES: Final = {
    size: [(kind, each.columns.index(kind)) for kind in sorted(each.columns)] for size, each in PRECEDENCE_OF.items()
}
"""The entity types of a request and where their names are in it, by its size; in the order in which plans list them."""


class _Values(dict[str, float]):
    """The values of one quota key that names have by entries of their own, which are counted."""

    def __init__(self, tables: Sequence[Mapping[str, QuotaEntry]], key: str) -> None:
        """Take the entries by name from tables, of which the first one wins."""
        for entries in reversed(tables):
            self.update({name: entry.values[key] for name, entry in entries.items() if key in entry.values})
        self._counts = Counter(self.values())

    def other_than(self, value: float | None) -> int:
        """How many names have another value."""
        if value is None or value == value:
            return len(self) - (0 if value is None else self._counts[value])
        return sum(count for other, count in self._counts.items() if not same_value(other, value))


class DifferingNames:
    """How many names resolve a key to another value than one that no quota mentions does.

    A request with a name filled in meets the same entries, and those that name it; it resolves to another value when
    one of these, on a level stronger than the one that won, holds another. Entries that name nothing else are the same
    whatever the rest of the request is: they are counted once per key, so that a count takes one look and not a walk
    over all names. Those that name other types as well are few under any one request, and walked.
    """

    def __init__(self, index: QuotaIndex) -> None:
        self._index = index
        self._own: dict[tuple[str, str, float, frozenset[str]], _Values] = {}

    def count(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that differ per entity type, without the types of which none does.

        >>> from quotaform.model.entity import Entity
        >>> key = "producer_byte_rate"
        >>> index = QuotaIndex({Entity(user="a"): {key: 9.0}, Entity(user=None): {key: 5.0}})
        >>> anybody = (UNMENTIONED, "app")
        >>> DifferingNames(index).count(anybody, key, effective(index.entries(anybody), key))
        {'user': 1}
        """
        counts: dict[str, int] = {}
        for kind, place in _PLACES[len(request)]:
            if request[place] is UNMENTIONED and (number := self._differing(request, place, kind, key, limit)):
                counts[kind] = number
        return counts or NO_NAMES

    def _differing(self, request: Request, place: int, kind: str, key: str, limit: Effective) -> int:
        """Count the names that make a request resolve a key to another value than `limit`."""
        columns = PRECEDENCE_OF[len(request)].columns
        empty = frozenset(columns[at] for at, name in enumerate(request) if name == "") if "" in request else _NONE
        weakest = limit.level.number if limit.level else inf
        own = self._own.get((kind, key, weakest, empty))
        if own is None:
            levels = [each for each in _ALONE[kind] if each.number < weakest and empty.isdisjoint(each.non_empty)]
            own = self._own[kind, key, weakest, empty] = _Values([self._index.entries_of(each) for each in levels], key)
        count = own.other_than(limit.value)
        for name in {name for each in _WITH_OTHERS[kind] for name in self._index.names_by_others(each, kind, request)}:
            value = effective(self._index.entries((*request[:place], name, *request[place + 1 :])), key).value
            count += not same_value(value, limit.value)
            count -= name in own and not same_value(own[name], limit.value)
        return count
