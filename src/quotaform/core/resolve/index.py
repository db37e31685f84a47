"""Which quota applies to a request, and why: the precedence table walked over an index of quotas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import takewhile
from operator import itemgetter
from typing import Any, Final, NamedTuple

from quotaform.core.resolve.address import Spellings
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS, LEVELS, Level, Match
from quotaform.model.quota_key import keys_for
from quotaform.model.quotas import Quotas, Values

CLIENT_KEYS: Final = keys_for(Entity(user=None, client_id=None))
"""The quota keys that can limit a request of a user and a client-id."""

IP_KEYS: Final = keys_for(Entity(ip=None))
"""The quota keys that can limit a connection from an address."""


class UnmentionedName:
    """A name that no quota mentions; it equals only itself, so that only defaults can match it."""

    def __repr__(self) -> str:
        return "*"


UNMENTIONED: Final = UnmentionedName()

RequestName = str | UnmentionedName
Request = tuple[RequestName, ...]
"""The names of a request: (user, client-id), or (ip,)."""


class Effective(NamedTuple):
    """What limits a request for one quota key.

    Attributes:
        value: The limit; `None` when nothing limits it.
        source: The entity match whose value it is; `None` when nothing limits it.
        level: The level of precedence that won; `None` when nothing limits it.
    """

    value: float | None = None
    source: Entity | None = None
    level: Level | None = None


NOTHING: Final = Effective()


class Resolved(NamedTuple):
    """What limits a request for one quota key, and what would if that were not there.

    Attributes:
        value: The limit; `None` when nothing limits it.
        source: The entity match whose value it is; `None` when nothing limits it.
        overridden: The entries that hold the key and lost, in order of precedence.
        level: The level of precedence that won; `None` when nothing limits it.
    """

    value: float | None = None
    source: Entity | None = None
    overridden: tuple[Effective, ...] = ()
    level: Level | None = None

    @property
    def source_name(self) -> str | None:
        """The name that KIP-248 gave to the source, such as `DefaultClientInUser`."""
        return self.level.source if self.level else None


UNLIMITED: Final = Resolved()
_UNLIMITED_CLIENT: Final = dict.fromkeys(CLIENT_KEYS, UNLIMITED)
_UNLIMITED_IP: Final = dict.fromkeys(IP_KEYS, UNLIMITED)
_new: Final = tuple.__new__


class Rung:
    """A quota entry that matches a request, on its level of precedence."""

    __slots__ = ("_resolved", "entity", "level", "values")

    def __init__(self, level: Level, entity: Entity, values: Values) -> None:
        self.level, self.entity, self.values = level, entity, values
        self._resolved: dict[str, Resolved] | None = None

    def alone(self) -> dict[str, Resolved]:
        """What the entry says of each of its keys when nothing else holds them; made once for many requests."""
        if self._resolved is None:
            self._resolved = {key: Resolved(value, self.entity, (), self.level) for key, value in self.values.items()}
        return self._resolved


Ladder = tuple[Rung, ...]
"""The quota entries that match a request, by precedence: the first that holds a key wins it."""


class _Table(NamedTuple):
    pick: Callable[[Request], Hashable]
    rungs: dict[Hashable, Rung]


def _tables(levels: tuple[Level, ...], types: tuple[str, ...]) -> dict[Level, _Table]:
    tables = {}
    for level in levels:
        positions = [types.index(entity_type) for entity_type in level.exact_types]
        pick: Callable[[Request], Hashable] = itemgetter(*positions) if positions else lambda _: None
        tables[level] = _Table(pick, {})
    return tables


def _halves(tables: dict[Level, _Table], entity_type: str) -> tuple[tuple[_Table, ...], tuple[_Table, ...]]:
    """Return the tables that name one, the last of them first; and the rest, which is the same for all of that type."""
    count = sum(1 for _ in takewhile(lambda level: entity_type in level.exact_types, tables))
    ordered = tuple(tables.values())
    return ordered[:count][::-1], ordered[count:]


def _lay(rung: Rung, found: dict[str, Resolved]) -> None:
    """Put an entry over what was found on lower levels."""
    for key, own in rung.alone().items():
        value, source, overridden, level = found.get(key, UNLIMITED)
        if source is None:
            found[key] = own
        else:
            # Half the time of calling the classes.
            beaten = _new(Effective, (value, source, level))
            found[key] = _new(Resolved, (own[0], own[1], (beaten, *overridden), own[3]))


_LEVELS: Final = {
    tuple(item for entity_type, match in level.matches for item in (entity_type, match is Match.DEFAULT)): level
    for level in LEVELS
}
"""The level of each shape: type, whether it is the default, and the same for a second type."""


class QuotaIndex:
    """Quotas by level of precedence, built once and then asked any number of times.

    Shapes that no level holds (unknown entity types) are left out: no broker resolves them.
    """

    def __init__(self, quotas: Quotas) -> None:
        client, ip = _tables(CLIENT_LEVELS, (USER, CLIENT_ID)), _tables(IP_LEVELS, (IP,))
        self._tables: Final = client | ip
        # An empty client-id matches no level that has a client-id, not even a default (KAFKA-13341).
        nameless = {level: table for level, table in client.items() if CLIENT_ID not in dict(level.matches)}
        self._client, self._nameless, self._ip = (tuple(tables.values()) for tables in (client, nameless, ip))
        self._client_halves, self._nameless_halves = _halves(client, USER), _halves(nameless, USER)
        self._ip_halves = _halves(ip, IP)
        self._shared: dict[Ladder | int, dict[str, Resolved]] = {}
        self._spellings: Spellings | None = None
        for entity, values in quotas.items():
            self._put(entity, values)

    def _put(self, entity: Entity, values: Values) -> None:
        parts = entity.parts
        if len(parts) == 1:
            ((entity_type, name),) = parts
            level = _LEVELS.get((entity_type, name is None))
            key: Hashable = name
        elif len(parts) == 2:
            (entity_type, name), (other_type, other) = parts
            level = _LEVELS.get((entity_type, name is None, other_type, other is None))
            key = other if name is None else name if other is None else (name, other)
        else:
            return
        if level is None:
            return
        if values:
            self._tables[level].rungs[key] = Rung(level, entity, values)
        else:
            self._tables[level].rungs.pop(key, None)

    def altered(self, quotas: Quotas) -> QuotaIndex:
        """Return the index with the values of some entities replaced; no values remove the entity."""
        index = QuotaIndex({})
        for level, table in self._tables.items():
            index._tables[level].rungs.update(table.rungs)
        for entity, values in quotas.items():
            index._put(entity, values)
        return index

    def client_ladder(self, user: RequestName, client_id: RequestName) -> Ladder:
        """The quota entries that match a request of this user and client-id."""
        request = (user, client_id)
        tables = self._nameless if client_id == "" else self._client
        return tuple([rung for pick, rungs in tables if rungs and (rung := rungs.get(pick(request))) is not None])

    def ip_ladder(self, ip: RequestName) -> Ladder:
        """The quota entries that match a connection from this address."""
        return tuple([rung for pick, rungs in self._ip if rungs and (rung := rungs.get(pick((ip,)))) is not None])

    def ladder(self, request: Request) -> Ladder:
        """The quota entries that match a request, whichever kind it is."""
        return self.client_ladder(*request) if len(request) == 2 else self.ip_ladder(*request)

    def resolve(self, request: Request) -> dict[str, Resolved]:
        """Resolve every quota key that can limit a request; keys that nothing limits have no source.

        An address finds its entry however that is written.

        >>> key = "producer_byte_rate"
        >>> index = QuotaIndex({Entity(user="a"): {key: 9.0}, Entity(user=None): {key: 5.0}})
        >>> found = index.resolve(("a", "app"))[key]
        >>> found.value, found.source_name, found.overridden[0].source.address
        (9.0, 'User', 'user=<default>')
        """
        size = len(request)
        if size == 1 and isinstance(request[0], str) and (spellings := self.spellings(request[0])):
            request = (spellings[0],)
        own, common = (
            self._ip_halves if size == 1 else self._nameless_halves if request[1] == "" else self._client_halves
        )
        rungs = tuple([rung for pick, table in common if table and (rung := table.get(pick(request))) is not None])
        # What is the same for all users is merged once, and not for every request.
        shared = self._shared.get(rungs or size)
        if shared is None:
            shared = dict(_UNLIMITED_IP if size == 1 else _UNLIMITED_CLIENT)
            for rung in reversed(rungs):
                _lay(rung, shared)
            self._shared[rungs or size] = shared
        found = shared.copy()
        for pick, table in own:
            if table and (rung := table.get(pick(request))) is not None:
                _lay(rung, found)
        return found

    def spellings(self, ip: str) -> list[str]:
        """Return how entries spell this address; see `quotaform.core.resolve.address.Spellings`."""
        if self._spellings is None:
            self._spellings = Spellings(self.rungs(IP_LEVELS[0]))
        return self._spellings.of(ip)

    def rungs(self, level: Level) -> Mapping[Any, Rung]:
        """All quota entries of one level, by what it names: a name, a (user, client-id) pair, or `None`."""
        return self._tables[level].rungs


def effective(ladder: Ladder, key: str) -> Effective:
    """The first entry of a ladder that holds the key."""
    for rung in ladder:
        value = rung.values.get(key)
        if value is not None:
            return Effective(value, rung.entity, rung.level)
    return NOTHING


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
    if names.keys() == {IP}:
        return (names[IP] or UNMENTIONED,)
    if names and names.keys() <= {USER, CLIENT_ID}:
        return (names.get(USER) or UNMENTIONED, names.get(CLIENT_ID) or UNMENTIONED)
    return None


def request_of(entity: Entity) -> Request:
    """Return the request that a concrete entity makes.

    | entity | request |
    | --- | --- |
    | user=U,client-id=C | of U with C |
    | user=U | of U with an empty client-id |
    | client-id=C | with C, of a user that no quota mentions: every request has a user |
    | ip=A | a connection from A |

    >>> request_of(Entity(user="a")), request_of(Entity(client_id="x")), request_of(Entity(ip="10.0.0.1"))
    (('a', ''), (*, 'x'), ('10.0.0.1',))

    Raises:
        ValueError: The entity holds a default, an empty user or ip, an unknown type, or types that do not go together.
    """
    parts = entity.parts
    if len(parts) == 2 and parts[0][0] == USER and parts[1][0] == CLIENT_ID:
        user, client_id = parts[0][1], parts[1][1]
        if user and client_id is not None:
            return user, client_id
    names = dict(parts)
    if None in names.values() or "" in (names.get(USER), names.get(IP)):
        raise ValueError(
            f"{entity.address} is not a concrete entity: it holds a default or an empty name; say who makes it"
        )
    if names.keys() == {IP}:
        return (str(names[IP]),)
    if not names or not names.keys() <= {USER, CLIENT_ID}:
        raise ValueError(f"{entity.address or 'nothing'} makes no request: give a user, a client-id or both, or an ip")
    return (names.get(USER) or UNMENTIONED, names.get(CLIENT_ID) or "")


def resolve_entities(quotas: Quotas, entities: Iterable[Entity]) -> dict[Entity, dict[str, Resolved]]:
    """Resolve many concrete entities against the same quotas, which are indexed once.

    Raises:
        ValueError: One of them is not concrete.
    """
    resolve = QuotaIndex(quotas).resolve
    return {entity: resolve(request_of(entity)) for entity in entities}
