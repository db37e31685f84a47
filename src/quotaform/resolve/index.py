"""Quotas by level of precedence: the one walk from a request to its entries; how many names resolve differently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from quotaform.model.precedence import LEVELS, PRECEDENCES, Level, Precedence, met_level
from quotaform.model.quotas import Quotas, same_value
from quotaform.resolve.request import NO_NAMES, PRECEDENCE_OF, UNMENTIONED, Effective, QuotaEntry, Request, effective

_Pick = Callable[[Any], Hashable]


def _pick(columns: Sequence[str], entity_types: Sequence[str]) -> _Pick:
    """Return what takes the names of some types from a row with one for each column: a name, or a tuple of them."""
    places = [columns.index(entity_type) for entity_type in entity_types]
    return itemgetter(*places) if places else itemgetter(slice(0, 0))


Kind: TypeAlias = tuple[bool, ...]
"""Which names of a request are empty, by column: this decides on which levels it can meet entries."""
_FULL: Final[dict[int, Kind]] = {size: (False,) * size for size in PRECEDENCE_OF}


def kind_of(request: Request) -> Kind:
    """Return the kind of a request."""
    return tuple([name == "" for name in request]) if "" in request else _FULL[len(request)]


def _met_levels(kind: Kind) -> list[Level]:
    """Return the levels on which requests of a kind can meet entries, the strongest first."""
    precedence = PRECEDENCE_OF[len(kind)]
    return [level for level in precedence.levels if level.allows_empty(compress(precedence.columns, kind))]


class LevelLookup(NamedTuple):
    """The entries of levels that follow each other and name the same, or nothing: one look-up finds those of a name."""

    pick: _Pick  # Takes from a request what the entries name
    numbers: dict[Hashable, int]  # Names that have entries, to their place in the groups
    groups: list[tuple[QuotaEntry, ...]]  # What names meet, by precedence; at first what names without entries do


class QuotaIndex:
    """Quotas by level of precedence, built once and then asked any number of times.

    What no request meets is left out: shapes that no level holds (unknown entity types), and empty names where a level
    has none.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._by_level: Final[dict[str, dict[Hashable, QuotaEntry]]] = {level.source: {} for level in LEVELS}
        self._steps: dict[Kind, list[LevelLookup]] = {}
        self._by_others: dict[tuple[str, str], tuple[_Pick, Mapping[Hashable, list[str]]]] = {}
        self._spellings: dict[str, dict[str, list[str]]] = {}
        self._replace(quotas)

    def _replace(self, quotas: Quotas) -> None:
        for entity, values in quotas.items():
            level = met_level(entity)
            if level is None:
                continue
            names = [name for _, name in entity.parts if name is not None]
            key: Hashable = names[0] if len(names) == 1 else tuple(names)
            if values:
                self._by_level[level.source][key] = QuotaEntry(level, entity, values)
            else:
                self._by_level[level.source].pop(key, None)

    def altered(self, quotas: Quotas) -> QuotaIndex:
        """Return the index with the values of some entities replaced; no values remove the entity."""
        index = QuotaIndex({})
        for source, entries in self._by_level.items():
            index._by_level[source].update(entries)
        index._replace(quotas)
        return index

    def steps(self, kind: Kind) -> Sequence[LevelLookup]:
        """Return the steps in which requests of a kind meet entries, the strongest first.

        This is the one walk of precedence.
        """
        if kind not in self._steps:
            steps: list[list[Level]] = []
            for level in _met_levels(kind):
                if steps and level.named in ((), steps[-1][0].named):
                    steps[-1].append(level)
                else:
                    steps.append([level])
            self._steps[kind] = [self._step(PRECEDENCE_OF[len(kind)], levels) for levels in steps]
        return self._steps[kind]

    def _step(self, precedence: Precedence, levels: Sequence[Level]) -> LevelLookup:
        named = levels[0].named
        pick = _pick(precedence.columns, named)

        def spelled(request: Request) -> Hashable:
            name = pick(request)
            return next(iter(self.spellings(named[0], name)), name) if isinstance(name, str) else name

        names = [name for level in levels if level.named for name in self._by_level[level.source]]
        met: dict[Hashable, list[QuotaEntry]] = {name: [] for name in (None, *names)}
        for level in levels:
            entries = self._by_level[level.source]
            if level.named:
                for name, entry in entries.items():
                    met[name].append(entry)
            else:
                for each in met.values():
                    each += entries.values()
        numbers = {name: number for number, name in enumerate(met)}
        return LevelLookup(spelled if precedence.canonical else pick, numbers, list(map(tuple, met.values())))

    def entries(self, request: Request) -> tuple[QuotaEntry, ...]:
        """Return the entries that a request meets, by precedence: the first that holds a key wins it.

        A name finds its entry however that is spelled.
        """
        met: tuple[QuotaEntry, ...] = ()
        for pick, numbers, groups in self.steps(kind_of(request)):
            met += groups[numbers.get(pick(request), 0)]
        return met

    def spellings(self, entity_type: str, name: str) -> list[str]:
        """Return how entries spell a name: this spelling first if there is one, then the canonical one."""
        canonical = next(each.canonical[entity_type] for each in PRECEDENCES if entity_type in each.canonical)
        if entity_type not in self._spellings:
            spelled = self._spellings[entity_type] = defaultdict(list)
            levels = [level for level in LEVELS if level.named == (entity_type,)]
            for each in sorted(str(key) for level in levels for key in self._by_level[level.source]):
                spelled[canonical(each) or each].append(each)
        usual = canonical(name) or name
        return sorted(self._spellings[entity_type].get(usual, ()), key=lambda each: (each != name, each != usual))

    def meets_more_with_names(self, request: Request) -> bool:
        """Whether there are entries that a request would meet if a name that is empty were another."""
        named = tuple([UNMENTIONED if name == "" else name for name in request])
        empty = compress(PRECEDENCE_OF[len(request)].columns, kind_of(request))
        return len(self.entries(named)) > len(self.entries(request)) or any(
            self.names_by_others(level, kind, request) for kind in empty for level in LEVELS if kind in level.named
        )

    def names_by_others(self, level: Level, entity_type: str, request: Request) -> Sequence[str]:
        """Return the names of a type whose entries on a level a request would meet if it had them for a name."""
        found = self._by_others.get((level.source, entity_type))
        if found is None:
            names = defaultdict(list)
            others = tuple(other for other in level.named if other != entity_type)
            name_of, others_of = _pick(level.named, (entity_type,)), _pick(level.named, others)
            for key in self._by_level[level.source]:
                row = key if isinstance(key, tuple) else (key,)
                names[others_of(row)].append(str(name_of(row)))
            found = self._by_others[level.source, entity_type] = (
                _pick(PRECEDENCE_OF[len(request)].columns, others),
                names,
            )
        pick, by_others = found
        return by_others.get(pick(request), ())

    def entries_of(self, level: Level) -> Mapping[Any, QuotaEntry]:
        """All entries of one level, by what it names: a name, a tuple of names, or `()`."""
        return self._by_level[level.source]


_WITH_OTHERS: Final = {
    kind: [level for level in LEVELS if kind in level.named != (kind,)] for each in PRECEDENCES for kind in each.columns
}
"""The levels that name a type and others as well, by type."""
_PLACES: Final = {
    size: [(kind, each.columns.index(kind)) for kind in sorted(each.columns)] for size, each in PRECEDENCE_OF.items()
}
"""The entity types of a request and where their names are in it, by its size; in the order in which plans list them."""


class DifferingNames:
    """How many names resolve a key to another value than one that no quota mentions does.

    A request with a name filled in meets the same entries, and those that name it; it resolves to another value when
    one of these, on a level stronger than the one that won, holds another. Entries that name nothing else are the same
    whatever the rest of the request is: they are counted once per key, so that a count takes one look and not a walk
    over all names. Those that name other types as well are few under any one request, and walked.
    """

    def __init__(self, index: QuotaIndex) -> None:
        self._index = index
        # The values of a key that names have by entries of their own, on levels above one; and how many have each.
        self._own: dict[tuple[str, str, Level | None, Kind], tuple[dict[str, float], Counter[float]]] = {}

    def count(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that differ per entity type, without the types of which none does."""
        counts: dict[str, int] = {}
        for kind, place in _PLACES[len(request)]:
            if request[place] is UNMENTIONED and (number := self._differing(request, place, kind, key, limit)):
                counts[kind] = number
        return counts or NO_NAMES

    def _differing(self, request: Request, place: int, kind: str, key: str, limit: Effective) -> int:
        """Count the names that make a request resolve a key to another value than `limit`."""
        asked = kind, key, limit.level, kind_of(request)
        if asked not in self._own:
            levels = [each for each in _met_levels(kind_of(request)) if each.named == (kind,)]
            values: dict[str, float] = {}
            for each in reversed([each for each in levels if each.is_stronger(limit.level)]):
                entries = self._index.entries_of(each)
                values.update({name: entry.values[key] for name, entry in entries.items() if key in entry.values})
            self._own[asked] = values, Counter(values.values())
        own, counts = self._own[asked]
        if limit.value is None or limit.value == limit.value:
            count = len(own) - (0 if limit.value is None else counts[limit.value])
        else:
            count = sum(number for value, number in counts.items() if not same_value(value, limit.value))
        for name in {name for each in _WITH_OTHERS[kind] for name in self._index.names_by_others(each, kind, request)}:
            value = effective(self._index.entries((*request[:place], name, *request[place + 1 :])), key).value
            count += not same_value(value, limit.value)
            count -= name in own and not same_value(own[name], limit.value)
        return count
