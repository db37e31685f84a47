"""Which quota limits a request, and why: the table of precedence walked over an index of quotas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from quotaform.core.resolve.entry import QuotaEntry
from quotaform.core.resolve.request import PRECEDENCE_OF, Request
from quotaform.model.precedence import PRECEDENCES, Level, Precedence, level_of
from quotaform.model.quotas import Quotas


class Spellings:
    """How entries spell names.

    >>> from quotaform.model.ip import address_of
    >>> Spellings(["::ffff:10.0.0.1", "10.0.0.2"], address_of).of("10.0.0.1")
    ['::ffff:10.0.0.1']

    Args:
        names: The names of all entries but the default.
        canonical: Returns the canonical spelling of a name; see `quotaform.model.precedence.Precedence`.
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
    """The entries of one level by what they name.

    Attributes:
        is_shared: Whether requests with another name in the first column meet the same entries.
        pick: Takes what entries name from a request.
        entries: A name, a tuple of names, or `()` for a level that names nothing, to the entry.
    """

    level: Level
    precedence: Precedence
    is_shared: bool
    pick: _Pick
    entries: dict[Hashable, QuotaEntry]


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
    """The way of all requests of one kind with the same empty names.

    Attributes:
        runs: The levels, by precedence.
        spelled: The columns whose names have several spellings, each with its entity type and the entries that name it.
    """

    runs: tuple[Run, ...]
    spelled: tuple[tuple[int, str, tuple[Mapping[Hashable, QuotaEntry], ...]], ...]


class NamesBeside(NamedTuple):
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
        self._beside: dict[tuple[str, str], NamesBeside] = {}
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
                elif self.names_beside(level, entity_type).of(request):
                    return True
        return False

    def names_beside(self, level: Level, entity_type: str) -> NamesBeside:
        """Return the names of a type that entries of a level hold, by the other names that they hold."""
        beside = self._beside.get((level.source, entity_type))
        if beside is None:
            table = self._tables[level.source]
            others = tuple(other for other in level.named if other != entity_type)
            name_of, others_of = _pick(level.named, (entity_type,)), _pick(level.named, others)
            names: dict[Hashable, list[str]] = defaultdict(list)
            for key in table.entries:
                row = key if isinstance(key, tuple) else (key,)
                names[others_of(row)].append(str(name_of(row)))
            beside = NamesBeside(_pick(table.precedence.columns, others), dict(names))
            self._beside[level.source, entity_type] = beside
        return beside

    def spellings(self, entity_type: str, name: str) -> list[str]:
        """Return how entries spell a name; see `quotaform.core.resolve.index.Spellings`."""
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
