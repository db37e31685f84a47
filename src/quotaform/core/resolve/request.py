"""Requests: who asks a broker for something, as precedence sees it."""

from __future__ import annotations

from typing import Final

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.model.precedence import PRECEDENCES


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
    return columns and tuple([names.get(column) or UNMENTIONED for column in columns])


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
            f"{entity.address} is not a concrete entity: it has a default or an empty name; give the names of a request"
        )
    if names.keys() == {IP}:
        return (str(names[IP]),)
    if not names or not names.keys() <= {USER, CLIENT_ID}:
        raise ValueError(f"{entity.address or 'nothing'} makes no request: give a user, a client-id or both, or an ip")
    return (names.get(USER) or UNMENTIONED, names.get(CLIENT_ID) or "")
