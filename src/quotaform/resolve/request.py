"""Requests as precedence sees them: who asks, what limits them (`Effective`, `Resolved`), and who shares a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity, spell_name
from quotaform.model.precedence import PRECEDENCES, Level, level_of
from quotaform.model.quotas import Values


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
