"""Requests: who asks a broker for something, as precedence sees it."""

from __future__ import annotations

from shlex import quote as quote_for_shell
from typing import Final

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.precedence import LEVELS, PRECEDENCES, level_of


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

_EMPTY_COLUMNS: Final = frozenset(column for level in LEVELS for column in level.non_empty)
"""The columns of requests that may hold an empty name."""

_COLUMNS_OF: Final = {level.entity_types: each.columns for each in PRECEDENCES for level in each.levels}
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

    Raises:
        ValueError: No broker resolves such a shape.
    """
    request, level = representative(entity), level_of(entity)
    if request is None or level is None:
        raise ValueError(f"{entity.address} matches no request")
    columns = PRECEDENCE_OF[len(request)].columns
    return tuple(
        [
            "" if name is UNMENTIONED and column in _EMPTY_COLUMNS and column not in level.non_empty else name
            for column, name in zip(columns, request, strict=True)
        ]
    )


def request_of(entity: Entity, *, allows_defaults: bool = False) -> Request:
    """Return the request that a concrete entity makes.

    | entity | request |
    | --- | --- |
    | user=U,client-id=C | (U, C) |
    | user=U | (U, *) |
    | user=U,client-id="" | (U, ""): one with an empty client-id, which no entry with a client-id matches |
    | client-id=C | (*, C) |
    | ip=A | (A,): a connection |

    `*` is a name that no quota mentions, as in `representative`: nearly every client sends a client-id, and every
    request has a user.

    >>> request_of(Entity(user="a")), request_of(Entity(client_id="x")), request_of(Entity(ip="10.0.0.1"))
    (('a', *), (*, 'x'), ('10.0.0.1',))

    Args:
        entity: Who makes the request.
        allows_defaults: Whether it may hold defaults, which then stand for `*`.

    Raises:
        ValueError: The entity holds a default, an empty user or ip, an unknown type, or types that do not go together.
    """
    parts = entity.parts
    if len(parts) == 2 and parts[0][0] == USER and parts[1][0] == CLIENT_ID:
        user, client_id = parts[0][1], parts[1][1]
        if user and client_id is not None:
            return user, client_id
    request = representative(entity)
    if request is None:
        subject = f"{entity.address} is not the source of a request: " if parts else ""
        raise ValueError(f"{subject}give a user, a client-id, both, or an ip")
    for entity_type, name in parts:
        if name is None and not allows_defaults:
            alone = "an address that no quota mentions, as in ip=192.0.2.1"
            if entity_type != IP:
                alone = f"a name that no quota mentions, as in {entity_type}=some-name"
            remedy = f"give {alone}; describe shows the entry of the default itself"
            rest = Entity({other: kept for other, kept in parts if kept is not None})
            if rest.parts:
                remedy = f"for one that no quota mentions write {quote_for_shell(rest.address)}"
            raise ValueError(
                f"{entity.address} is not a concrete entity: requests have no default {entity_type}; {remedy}"
            )
        if name == "" and entity_type != CLIENT_ID:
            raise ValueError(f"the name of the {entity_type} is empty; only a client-id can be")
    return request


def unmentioned_types(request: Request) -> tuple[str, ...]:
    """Return the entity types for which a request has a name that no quota mentions.

    >>> unmentioned_types(("a", UNMENTIONED)), unmentioned_types(("a", ""))
    (('client-id',), ())
    """
    columns = PRECEDENCE_OF[len(request)].columns
    return tuple([column for column, name in zip(columns, request, strict=True) if name is UNMENTIONED])
