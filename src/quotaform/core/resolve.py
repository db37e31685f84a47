"""Which quota applies to a request, and why: the precedence table walked over an index of quotas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS, Level
from quotaform.model.quotas import Quotas, Values


class UnmentionedName:
    """A name that no quota mentions; it equals only itself, so that only defaults can match it."""

    def __repr__(self) -> str:
        return "*"


UNMENTIONED: Final = UnmentionedName()

RequestName = str | UnmentionedName
Request = tuple[RequestName, ...]
"""The names of a request: (user, client-id), or (ip,)."""


@dataclass(frozen=True, slots=True)
class Effective:
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


class _Table(NamedTuple):
    level: Level
    pick: Callable[[Request], Hashable]
    entries: dict[Hashable, tuple[Entity, Values]]


def _tables(levels: tuple[Level, ...], types: tuple[str, ...]) -> list[_Table]:
    tables = []
    for level in levels:
        positions = [types.index(entity_type) for entity_type in level.exact_types]
        pick: Callable[[Request], Hashable] = itemgetter(*positions) if positions else lambda _: None
        tables.append(_Table(level, pick, {}))
    return tables


class QuotaIndex:
    """Quotas by level of precedence, built once and then asked any number of times.

    Shapes that no level holds (unknown entity types) are left out: no broker resolves them.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._client: Final = _tables(CLIENT_LEVELS, (USER, CLIENT_ID))
        self._ip: Final = _tables(IP_LEVELS, (IP,))
        shapes = {
            tuple((entity_type, match.value == "default") for entity_type, match in table.level.matches): table.entries
            for table in (*self._client, *self._ip)
        }
        for entity, values in quotas.items():
            entries = shapes.get(tuple([(entity_type, name is None) for entity_type, name in entity.parts]))
            if entries is not None:
                exact = [name for _, name in entity.parts if name is not None]
                entries[tuple(exact) if len(exact) > 1 else exact[0] if exact else None] = (entity, values)

    def client_ladder(self, user: RequestName, client_id: RequestName) -> list[tuple[Level, Entity, Values]]:
        """The quota entries that match a request of this user and client-id, the first one winning per key.

        An empty client-id matches no level that has a client-id, not even a default (KAFKA-13341).
        """
        request = (user, client_id)
        if client_id == "":
            return [rung for rung in self._ladder(self._client, request) if CLIENT_ID not in rung[1].types]
        return list(self._ladder(self._client, request))

    def ip_ladder(self, ip: RequestName) -> list[tuple[Level, Entity, Values]]:
        """The quota entries that match a connection from this address, the first one winning."""
        return list(self._ladder(self._ip, (ip,)))

    @staticmethod
    def _ladder(tables: list[_Table], request: Request) -> Iterator[tuple[Level, Entity, Values]]:
        for level, pick, entries in tables:
            if entries:
                found = entries.get(pick(request))
                if found is not None:
                    yield level, *found

    def entries(self, level: Level) -> Iterator[tuple[Entity, Values]]:
        """All quota entries of one level."""
        for table in (*self._client, *self._ip):
            if table.level is level:
                yield from table.entries.values()


def effective(ladder: list[tuple[Level, Entity, Values]], key: str) -> Effective:
    """The first entry of a ladder that holds the key."""
    for level, entity, values in ladder:
        if key in values:
            return Effective(values[key], entity, level)
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


def ladder_of(index: QuotaIndex, request: Request) -> list[tuple[Level, Entity, Values]]:
    """The ladder of a request, whichever kind it is."""
    return index.client_ladder(*request) if len(request) == 2 else index.ip_ladder(*request)
