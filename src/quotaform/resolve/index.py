"""Requests as precedence sees them, what limits them (`Effective`, `Resolved`) and who shares a limit; and the index of
quotas that says so, with the one walk from a request to its entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity, spell_name
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level, Precedence, level_of, met_level
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas, Values, same_value


class UnmentionedName:
    """A name that no quota mentions; it equals only itself, so that only defaults can match it."""

    def __repr__(self) -> str:
        return "*"


UNMENTIONED: Final = UnmentionedName()

RequestName = str | UnmentionedName
Request = tuple[RequestName, ...]
"""The names of a request, one per column of its `Precedence`: (user, client-id), or (ip,)."""

PRECEDENCE_OF: Final = {len(precedence.columns): precedence for precedence in PRECEDENCES}
"""The precedence of a request, by how many names that has."""

_COLUMNS_OF: Final = {level.bucket: each.columns for each in PRECEDENCES for level in each.levels}
"""The columns of the requests that entities with these types can limit."""


def representative(entity: Entity) -> Request | None:
    """The request that stands for those an entity match is for; `None` for a shape that no broker resolves.

    | entity match | request |
    | --- | --- |
    | user=U,client-id=C | (U, C) |
    | user=U; user=U,client-id=<default> | (U, *) |
    | client-id=C; user=<default>,client-id=C | (*, C) |
    | the other user and client-id defaults | (*, *) |
    | ip=A; ip=<default> | (A,); (*,) |

    `*` is a name that no quota mentions.

    >>> representative(Entity(user="a", client_id=None))
    ('a', *)
    """
    names = dict(entity.parts)
    columns = _COLUMNS_OF.get(tuple(names))
    return columns and tuple([UNMENTIONED if (name := names.get(column)) is None else name for column in columns])


def barest(entity: Entity) -> Request:
    """Return the request that the fewest other entries match of those that an entity match is for.

    It is the representative one, with an empty client-id instead of one that no quota mentions where the entity matches
    that, too.

    >>> barest(Entity(user="a")), barest(Entity(user="a", client_id=None)), barest(Entity(ip=None))
    (('a', ''), ('a', *), (*,))

    Raises `ValueError`: No broker resolves such a shape.
    """
    request, level = representative(entity), level_of(entity)
    if request is None or level is None:
        raise ValueError(f"{entity.address} matches no request")
    first, *client_id = request
    return (first, "") if client_id == [UNMENTIONED] and level.allows_empty((CLIENT_ID,)) else request


def request_of(entity: Entity, *, allows_defaults: bool = False) -> Request:
    """Return the request that a concrete entity makes.

    A user or client-id that the entity leaves out becomes a name that no quota mentions, since every request has a user
    and nearly every client sends a client-id. An empty client-id stays empty: no entry with a client-id matches it.

    >>> request_of(Entity(user="a")), request_of(Entity(client_id="x")), request_of(Entity(ip="10.0.0.1"))
    (('a', *), (*, 'x'), ('10.0.0.1',))

    `allows_defaults`: Whether it may hold defaults, which then stand for `*`.
    Raises `ValueError`: The entity holds a default, an empty user or ip, an unknown type, or types that do not go
    together.
    """
    request = representative(entity)
    if request is None:
        subject = f"{entity.address} is not the source of a request: " if entity.parts else ""
        raise ValueError(f"{subject}give a user, a client-id, both, or an ip")
    for entity_type, name in entity.parts:
        if name is None and not allows_defaults:
            raise ValueError(
                f"{entity.address} is not a concrete entity: requests have no default {entity_type}; leave it out or "
                "give a name that no quota mentions, as in user=some-name or ip=192.0.2.1"
            )
        if name == "" and entity_type != CLIENT_ID:
            raise ValueError(f"the name of the {entity_type} is empty; only a client-id can be")
    return request


def unmentioned_types(request: Request) -> tuple[str, ...]:
    """Return the entity types for which a request has a name that no quota mentions."""
    columns = PRECEDENCE_OF[len(request)].columns
    return tuple([column for column, name in zip(columns, request, strict=True) if name is UNMENTIONED])


class Effective(NamedTuple):
    """What limits a request for one quota key."""

    value: float | None = None  # The limit; `None` when nothing limits it
    source: Entity | None = None  # The entity match whose value it is; `None` when nothing limits it
    level: Level | None = None  # The level of precedence that won; `None` when nothing limits it


NO_LIMIT: Final = Effective()
"""Nothing limits the request."""


NO_NAMES: Final[Mapping[str, int]] = {}
"""No name differs; one object, because that is so of nearly every request."""


class Resolved(NamedTuple):
    """What limits a request for one quota key, and what would if that were not there."""

    value: float | None = None  # The limit; `None` when nothing limits it
    source: Entity | None = None  # The entity match whose value it is; `None` when nothing limits it
    overridden: tuple[Effective, ...] = ()  # The entries that hold the key and lost, in order of precedence
    level: Level | None = None  # The level of precedence that won; `None` when nothing limits it
    differs: Mapping[str, int] = NO_NAMES
    """Of a request without a user or a client-id, entity type to the number of names that resolve to another value than
    a name that no quota mentions; types without such names are left out."""

    @property
    def source_name(self) -> str | None:
        """The name that KIP-248 gave to the source, such as `DefaultClientInUser`."""
        return self.level.source if self.level else None

    @property
    def effective(self) -> Effective:
        """The same without the entries that lost."""
        return Effective(self.value, self.source, self.level)

    @property
    def entries(self) -> tuple[Effective, ...]:
        """All entries that hold the key, in order of precedence: the winner, then those that lost to it."""
        return () if self.source is None else (self.effective, *self.overridden)


NOT_LIMITED: Final = Resolved()
"""Nothing limits the request, and there is nothing to override."""


class QuotaEntry(Struct, frozen=True, eq=False):
    """The quotas of one entity on their level of precedence; equal to itself alone."""

    level: Level
    entity: Entity
    values: Values


def winner(entries: Iterable[QuotaEntry], key: str) -> QuotaEntry | None:
    """Return the entry that wins a quota key, of those that a request meets: the first that holds it."""
    for entry in entries:
        if key in entry.values:
            return entry
    return None


def effective(entries: Iterable[QuotaEntry], key: str) -> Effective:
    """What limits a request for one quota key, of the entries that it meets."""
    entry = winner(entries, key)
    return NO_LIMIT if entry is None else Effective(entry.values[key], entry.entity, entry.level)


# Which requests share one rate: a broker measures per bucket, and the level that won says what a bucket is.
#
# | level | bucket | so the limit is for |
# | --- | --- | --- |
# | 1, 2, 4, 5 | user and client-id | one client-id of one user |
# | 3, 6 | user | one user, whichever client-id |
# | 7, 8 | client-id | all users together who use one client-id |
# | ip | ip | one address |
#
# A default is one limit for each, not one for all: every user, client-id or address has a bucket of its own.
# Source: org.apache.kafka.server.quota.ClientQuotaManager, quotaMetricTags.


def shared_by(level: Level, asked: Entity) -> str:
    """Return which requests share the rate that limits a concrete entity, in words.

    >>> from quotaform.model.precedence import LEVELS
    >>> shared_by(LEVELS[7], Entity(user="alice", client_id="app1"))
    'all users together that send client-id app1; each other client-id has its own'
    """
    names = asked.names
    # A name that is left out is one that no quota mentions.
    user = spell_name(name) if (name := names.get(USER)) else "one user"
    client_id = f"client-id {spell_name(name)}" if (name := names.get(CLIENT_ID)) else "one client-id"
    who = {
        (IP,): f"all connections from {spell_name(names.get(IP) or '')}",
        (USER,): f"all client-ids of {user} without an entry of their own",
        (CLIENT_ID,): f"all users together that send {client_id}",
        (USER, CLIENT_ID): f"all requests of {user} with {client_id}",
    }
    kinds = ["address" if kind == IP else kind for kind in level.defaults]
    each_other = f"; each other {'pair of ' * (len(kinds) > 1)}{' and '.join(kinds)} has its own" if kinds else ""
    return who[level.bucket] + each_other


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


_WITH_OTHERS: Final = {
    kind: [level for level in LEVELS if kind in level.named != (kind,)] for each in PRECEDENCES for kind in each.columns
}
"""The levels that name a type and others as well, by type."""
_PLACES: Final = {
    size: [(kind, each.columns.index(kind)) for kind in sorted(each.columns)] for size, each in PRECEDENCE_OF.items()
}
"""The entity types of a request and where their names are in it, by its size; in the order in which plans list them."""
_KEYS: Final = {size: each.keys for size, each in PRECEDENCE_OF.items()}
_MOST_KEPT: Final = 4096
"""How many results an index keeps, of which many requests have one in common."""


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
        # The values of a key that names have by entries of their own, on levels above one; and how many have each.
        self._own: dict[tuple[str, str, Level | None, Kind], tuple[dict[str, float], Counter[float]]] = {}
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

    # How many names resolve a key to another value than one that no quota mentions does.
    #
    # A request with a name filled in meets the same entries, and those that name it; it resolves to another value when
    # one of these, on a level stronger than the one that won, holds another. Entries that name nothing else are the
    # same whatever the rest of the request is: they are counted once per key, so that a count takes one look and not a
    # walk over all names. Those that name other types as well are few under any one request, and walked.

    def differing(self, request: Request, key: str, limit: Effective) -> Mapping[str, int]:
        """Return the number of names that differ per entity type, without the types of which none does.

        `limit` is what the request resolves the key to.
        """
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
                entries = self.entries_of(each)
                values.update({name: entry.values[key] for name, entry in entries.items() if key in entry.values})
            self._own[asked] = values, Counter(values.values())
        own, counts = self._own[asked]
        if limit.value is None or limit.value == limit.value:
            count = len(own) - (0 if limit.value is None else counts[limit.value])
        else:
            count = sum(number for value, number in counts.items() if not same_value(value, limit.value))
        for name in {name for each in _WITH_OTHERS[kind] for name in self.names_by_others(each, kind, request)}:
            value = effective(self.entries((*request[:place], name, *request[place + 1 :])), key).value
            count += not same_value(value, limit.value)
            count -= name in own and not same_value(own[name], limit.value)
        return count

    def resolve(self, request: Request, keys: Iterable[str] = ()) -> Mapping[str, Resolved]:
        """Resolve every quota key that can limit a request; keys that nothing limits have no source.

        Requests that meet the same entries share a result, which therefore cannot be changed.

        `keys`: Keys that this version does not know and that are resolved even if no entry of the request holds them.
        """
        found = self._merged(self.entries(request), len(request))
        if UNMENTIONED not in request:
            return found
        others = {key: NOT_LIMITED for key in keys if key not in found and key not in QUOTA_KEYS}
        differing = {
            key: resolved._replace(differs=differs)
            for key, resolved in {**found, **others}.items()
            if (differs := self.differing(request, key, resolved.effective))
        }
        return MappingProxyType({**found, **differing}) if differing else found

    @cached_property
    def _merged(self) -> Callable[[tuple[QuotaEntry, ...], int], Mapping[str, Resolved]]:
        """`_merge`, with what it returned last."""
        return lru_cache(_MOST_KEPT)(self._merge)

    def _merge(self, entries: tuple[QuotaEntry, ...], size: int) -> Mapping[str, Resolved]:
        """Return what entries, by precedence, say together of requests with so many names, key by key."""
        if not entries:
            return MappingProxyType(dict.fromkeys(_KEYS[size], NOT_LIMITED))
        strongest, weaker = entries[0], self._merged(entries[1:], size)
        found = dict(weaker)
        for key, value in strongest.values.items():
            found[key] = Resolved(value, strongest.entity, weaker.get(key, NOT_LIMITED).entries, strongest.level)
        return MappingProxyType(found)
