"""Which quota limits a request, and why: the table of precedence walked over an index of quotas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from quotaform.core.resolve.address import Spellings
from quotaform.core.resolve.entry import NOT_LIMITED, QuotaEntry, Resolved
from quotaform.core.resolve.request import PRECEDENCE_OF, Request, request_of
from quotaform.model.entity import Entity
from quotaform.model.precedence import PRECEDENCES, Level, Precedence, level_of
from quotaform.model.quotas import Quotas

_UNTOUCHED: Final = {size: dict.fromkeys(precedence.keys, NOT_LIMITED) for size, precedence in PRECEDENCE_OF.items()}

_Pick = Callable[[Sequence[Any]], Hashable]


def _pick(columns: Sequence[str], entity_types: Iterable[str]) -> _Pick:
    """Return what takes the names of some types from a row with one for each column: a name, or a tuple of them."""
    places = [columns.index(entity_type) for entity_type in entity_types]
    return itemgetter(*places) if places else itemgetter(slice(0, 0))


class _Table(NamedTuple):
    """The entries of one level by what they name.

    Attributes:
        level: The level.
        precedence: That of which it is one.
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


class _Walk(NamedTuple):
    """The steps of all requests of one kind with the same empty names: tables without entries are left out.

    Attributes:
        steps: What each table takes from a request, and what finds the entry for it, by precedence.
        spelled: The columns whose names have several spellings, each with its entity type and the entries that name it.
    """

    steps: tuple[tuple[_Pick, Callable[[Hashable], QuotaEntry | None]], ...]
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
        self._shared: dict[tuple[QuotaEntry, ...] | int, dict[str, Resolved]] = {}
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

        This is the one walk of precedence. A name finds its entry however that is spelled.

        >>> index = QuotaIndex({Entity(user=None): {"request_percentage": 5.0}, Entity(user="a"): {"x": 1.0}})
        >>> [entry.entity.address for entry in index.entries(("a", "app"))]
        ['user=a', 'user=<default>']
        """
        kind: Hashable = tuple([name == "" for name in request]) if "" in request else len(request)
        walk = self._walks.get(kind)
        if walk is None:
            walk = self._walks[kind] = self._walk(request)
        steps, spelled = walk
        if spelled:
            request = self._spelled(request, walk)
        return tuple([entry for pick, find in steps if (entry := find(pick(request))) is not None])

    def _walk(self, request: Request) -> _Walk:
        precedence = PRECEDENCE_OF[len(request)]
        columns = precedence.columns
        met = [
            level for level in precedence.levels if all(request[columns.index(name)] != "" for name in level.non_empty)
        ]
        tables = [self._tables[level.source] for level in met]
        return _Walk(
            steps=tuple([(table.pick, table.entries.get) for table in tables if table.entries]),
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

    def resolve(self, request: Request) -> dict[str, Resolved]:
        """Resolve every quota key that can limit a request; keys that nothing limits have no source.

        >>> key = "producer_byte_rate"
        >>> index = QuotaIndex({Entity(user="a"): {key: 9.0}, Entity(user=None): {key: 5.0}})
        >>> found = index.resolve(("a", "app"))[key]
        >>> found.value, found.source_name, found.overridden[0].source.address
        (9.0, 'User', 'user=<default>')
        """
        entries = self.entries(request)
        own = 0
        for entry in entries:
            if entry.is_shared:
                break
            own += 1
        # What many requests resolve to but for entries of their own is merged once, and not for each.
        common = entries[own:]
        shared = self._shared.get(common or len(request))
        if shared is None:
            shared = _UNTOUCHED[len(request)].copy()
            for entry in reversed(common):
                entry.override(shared)
            self._shared[common or len(request)] = shared
        found = shared.copy()
        for entry in reversed(entries[:own]):
            entry.override(found)
        return found

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
        """Return how entries spell a name; see `quotaform.core.resolve.address.Spellings`."""
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


def resolve_entities(quotas: Quotas, entities: Iterable[Entity]) -> dict[Entity, dict[str, Resolved]]:
    """Resolve many concrete entities against the same quotas, which are indexed once.

    Raises:
        ValueError: One of them is not concrete.
    """
    resolve = QuotaIndex(quotas).resolve
    return {entity: resolve(request_of(entity)) for entity in entities}
