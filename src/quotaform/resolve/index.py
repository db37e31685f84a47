"""Quotas by level of precedence: the one walk from a request to its entries; how many names resolve differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple

from quotaform.model.precedence import PRECEDENCES, Level, Precedence, level_of
from quotaform.model.quotas import Quotas, same_value
from quotaform.resolve.request import NO_NAMES, PRECEDENCE_OF, UNMENTIONED, Effective, QuotaEntry, Request, effective


class Spellings:
    """How entries spell names.

    >>> from quotaform.model.entity import address_of
    >>> Spellings(["::ffff:10.0.0.1", "10.0.0.2"], address_of).of("10.0.0.1")
    ['::ffff:10.0.0.1']

    `names`: The names of all entries but the default. `canonical`: Returns the canonical spelling of a name; see
    `quotaform.model.precedence.Precedence`.
    """

    def __init__(self, names: Iterable[str], canonical: Callable[[str], str | None]) -> None:
        self._canonical = canonical
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            self._names[canonical(name) or name].append(name)

    def of(self, name: str) -> list[str]:
        """Return how entries spell a name: this spelling first if there is one, then the canonical one."""
        canonical = self._canonical(name) or name
        found = self._names.get(canonical, [])
        return sorted(found, key=lambda each: (each != name, each != canonical)) if len(found) > 1 else found


_Pick = Callable[[Sequence[Any]], Hashable]


def _pick(columns: Sequence[str], entity_types: Iterable[str]) -> _Pick:
    """Return what takes the names of some types from a row with one for each column: a name, or a tuple of them."""
    places = [columns.index(entity_type) for entity_type in entity_types]
    return itemgetter(*places) if places else itemgetter(slice(0, 0))


class _Table(NamedTuple):
    """The entries of one level by what they name."""

    level: Level
    precedence: Precedence
    is_shared: bool  # Whether requests with another name in the first column meet the same entries
    pick: _Pick  # Takes what entries name from a request
    entries: dict[Hashable, QuotaEntry]
    """A name, a tuple of names, or `()` for a level that names nothing, to the entry."""


def _tables() -> dict[str, _Table]:
    return {
        level.source: _Table(
            level=level,
            precedence=precedence,
            is_shared=precedence.columns[0] not in level.named,
            pick=_pick(precedence.columns, level.named),
            entries={},
        )
        for precedence in PRECEDENCES
        for level in precedence.levels
    }


class Run:
    """Consecutive levels whose entries are found by the same names of a request.

    A level that names nothing belongs to the run before it or, as the first one, to the run after it. Of a user with a
    client-id there are three: level 1 by both, levels 2 and 3 by the user, the others by the client-id.

    Attributes:
        pick: Takes the names by which the entries are found from a request.
        default: The entries for names that none of the levels mentions, by precedence.
    """

    __slots__ = ("_naming", "_steps", "default", "pick")

    def __init__(self, pick: _Pick, tables: Sequence[_Table]) -> None:
        self.pick = pick
        # A step that is the same for all names is looked up once.
        self._steps = [
            (table.entries.get, None) if table.level.named else (None, table.entries[()])
            for table in tables
            if table.entries
        ]
        self._naming = [table.entries for table in tables if table.level.named and table.entries]
        self.default = tuple([entry for _, entry in self._steps if entry is not None])

    def find(self, names: Hashable) -> tuple[QuotaEntry, ...]:
        """Return the entries for some names, by precedence: `default` itself when no level mentions them."""
        for entries in self._naming:
            if names in entries:
                break
        else:
            return self.default
        return tuple([entry for find, same in self._steps if (entry := find(names) if find else same) is not None])


class _Walk(NamedTuple):
    """The way of all requests of one kind with the same empty names."""

    runs: tuple[Run, ...]  # The levels, by precedence
    spelled: tuple[tuple[int, str, tuple[Mapping[Hashable, QuotaEntry], ...]], ...]
    """The columns whose names have several spellings, each with its entity type and the entries that name it."""


class NamesByOthers(NamedTuple):
    """The names of one entity type on one level, by the other names that their entries hold."""

    pick: _Pick
    names: dict[Hashable, list[str]]

    def of(self, request: Request) -> Sequence[str]:
        """Return those whose entries a request would meet if it had them for a name."""
        return self.names.get(self.pick(request), ())


class QuotaIndex:
    """Quotas by level of precedence, built once and then asked any number of times.

    What no request meets is left out: shapes that no level holds (unknown entity types), and empty names where a level
    has none.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._tables: Final = _tables()
        self._walks: dict[Hashable, _Walk] = {}
        self._spellings: dict[str, Spellings] = {}
        self._by_others: dict[tuple[str, str], NamesByOthers] = {}
        self._replace(quotas)

    def _replace(self, quotas: Quotas) -> None:
        tables = self._tables
        for entity, values in quotas.items():
            level = level_of(entity)
            if level is None:
                continue
            table = tables[level.source]
            names = [name for _, name in entity.parts if name is not None]
            if "" in names and any(name == "" for kind, name in entity.parts if kind in level.non_empty):
                continue
            key: Hashable = names[0] if len(names) == 1 else tuple(names)
            if values:
                table.entries[key] = QuotaEntry(level, entity, values, table.is_shared)
            else:
                table.entries.pop(key, None)

    def altered(self, quotas: Quotas) -> QuotaIndex:
        """Return the index with the values of some entities replaced; no values remove the entity."""
        index = QuotaIndex({})
        for source, table in self._tables.items():
            index._tables[source].entries.update(table.entries)
        index._replace(quotas)
        return index

    def entries(self, request: Request) -> tuple[QuotaEntry, ...]:
        """Return the entries that a request meets, by precedence: the first that holds a key wins it.

        >>> from quotaform.model.entity import Entity
        >>> index = QuotaIndex({Entity(user=None): {"request_percentage": 5.0}, Entity(user="a"): {"x": 1.0}})
        >>> [entry.entity.address for entry in index.entries(("a", "app"))]
        ['user=a', 'user=<default>']
        """
        request, runs = self.walk(request)
        return tuple([entry for run in runs for entry in run.find(run.pick(request))])

    def walk(self, request: Request) -> tuple[Request, tuple[Run, ...]]:
        """Return the runs of levels in which a request finds its entries, and how entries spell its names.

        This is the one walk of precedence. A name finds its entry however that is spelled.
        """
        kind: Hashable = tuple([name == "" for name in request]) if "" in request else len(request)
        walk = self._walks.get(kind)
        if walk is None:
            walk = self._walks[kind] = self._make_walk(request)
        return self._spelled(request, walk) if walk.spelled else request, walk.runs

    def _make_walk(self, request: Request) -> _Walk:
        precedence = PRECEDENCE_OF[len(request)]
        columns = precedence.columns
        tables = [
            self._tables[level.source]
            for level in precedence.levels
            if all(request[columns.index(name)] != "" for name in level.non_empty)
        ]
        runs: list[tuple[tuple[str, ...], list[_Table]]] = []
        for table in tables:
            named = table.level.named
            if runs and (not named or not runs[-1][0] or named == runs[-1][0]):
                runs[-1] = (runs[-1][0] or named, [*runs[-1][1], table])
            else:
                runs.append((named, [table]))
        return _Walk(
            runs=tuple([Run(_pick(columns, named), members) for named, members in runs]),
            spelled=tuple([(columns.index(kind), kind, self._naming(kind)) for kind in precedence.canonical]),
        )

    def _spelled(self, request: Request, walk: _Walk) -> Request:
        names = list(request)
        for place, entity_type, naming in walk.spelled:
            name = names[place]
            if not isinstance(name, str) or any(name in entries for entries in naming):
                continue
            if spellings := self.spellings(entity_type, name):
                names[place] = spellings[0]
        return tuple(names)

    def meets_more_with_names(self, request: Request) -> bool:
        """Whether there are entries that a request would meet if a name that is empty were another."""
        columns = PRECEDENCE_OF[len(request)].columns
        for level in PRECEDENCE_OF[len(request)].levels:
            empty = [name for name in level.non_empty if request[columns.index(name)] == ""]
            table = self._tables[level.source]
            for entity_type in empty:
                if entity_type not in level.named:
                    if table.pick(request) in table.entries:
                        return True
                elif self.names_by_others(level, entity_type).of(request):
                    return True
        return False

    def names_by_others(self, level: Level, entity_type: str) -> NamesByOthers:
        """Return the names of a type that entries of a level hold, by the other names that they hold."""
        by_others = self._by_others.get((level.source, entity_type))
        if by_others is None:
            table = self._tables[level.source]
            others = tuple(other for other in level.named if other != entity_type)
            name_of, others_of = _pick(level.named, (entity_type,)), _pick(level.named, others)
            names: dict[Hashable, list[str]] = defaultdict(list)
            for key in table.entries:
                row = key if isinstance(key, tuple) else (key,)
                names[others_of(row)].append(str(name_of(row)))
            by_others = NamesByOthers(_pick(table.precedence.columns, others), dict(names))
            self._by_others[level.source, entity_type] = by_others
        return by_others

    def spellings(self, entity_type: str, name: str) -> list[str]:
        """Return how entries spell a name; see `quotaform.resolve.index.Spellings`."""
        spellings = self._spellings.get(entity_type)
        if spellings is None:
            canonical = next(each.canonical[entity_type] for each in PRECEDENCES if entity_type in each.canonical)
            names = {str(name) for entries in self._naming(entity_type) for name in entries}
            spellings = self._spellings[entity_type] = Spellings(names, canonical)
        return spellings.of(name)

    def _naming(self, entity_type: str) -> tuple[Mapping[Hashable, QuotaEntry], ...]:
        """Return the entries that name one type and nothing else, level by level."""
        return tuple([table.entries for table in self._tables.values() if table.level.named == (entity_type,)])

    def entries_of(self, level: Level) -> Mapping[Any, QuotaEntry]:
        """All entries of one level, by what it names: a name, a tuple of names, or `()`."""
        return self._tables[level.source].entries


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
    def _by_others(self) -> list[NamesByOthers]:
        kind = self.entity_type
        return [self._index.names_by_others(level, kind) for level in self._levels if level.named != (kind,)]

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
        for name in {name for by_others in self._by_others for name in by_others.of(request)}:
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
        """
        counts = [
            (names.entity_type, count)
            for names in self._names[len(request)]
            if request[names.place] is UNMENTIONED and (count := names.differing(request, key, limit))
        ]
        return self._shared.setdefault(tuple(counts), dict(counts)) if counts else NO_NAMES
