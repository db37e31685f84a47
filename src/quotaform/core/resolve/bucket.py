"""Which requests share one rate: a broker measures per bucket, and the level that won says what a bucket is.

| level | bucket | so the limit is for |
| --- | --- | --- |
| 1, 2, 4, 5 | user and client-id | one client-id of one user |
| 3, 6 | user | one user, whichever client-id |
| 7, 8 | client-id | all users together who use one client-id |
| ip | ip | one address |

A default is one limit for each, not one for all: every user, client-id or address has a bucket of its own.
Source: org.apache.kafka.server.quota.ClientQuotaManager, quotaMetricTags.
"""

from __future__ import annotations

from typing import Final

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity, spell_name
from quotaform.model.precedence import Level

_EACH_OTHER: Final = {
    (): "",
    (USER,): "; each other user has its own",
    (CLIENT_ID,): "; each other client-id has its own",
    (USER, CLIENT_ID): "; each other pair of user and client-id has its own",
    (IP,): "; each other address has its own",
}


def shared_by(level: Level, asked: Entity) -> str:
    """Return which requests share the rate that limits a concrete entity, in words.

    >>> from quotaform.model.precedence import CLIENT_LEVELS
    >>> shared_by(CLIENT_LEVELS[7], Entity(user="alice", client_id="app1"))
    'all users together that send client-id app1; each other client-id has its own'

    Args:
        level: The level that won.
        asked: Who makes the request.
    """
    return _who(level, asked) + each_other(level)


def each_other(level: Level) -> str:
    """Return for whom else a level has a rate of its own, as the end of a sentence; empty for a named entry."""
    return _EACH_OTHER[tuple(entity_type for entity_type in level.bucket if entity_type in level.defaults)]


def _who(level: Level, asked: Entity) -> str:
    names = asked.names
    if level.bucket == (IP,):
        return f"all connections from {spell_name(names[IP] or '')}"
    # A name that is left out is one that no quota mentions.
    user = spell_name(name) if (name := names.get(USER)) else "one user"
    if level.bucket == (USER,):
        return f"all client-ids of {user} without an entry of their own"
    client_id = f"client-id {spell_name(name)}" if (name := names.get(CLIENT_ID)) else "one client-id"
    if level.bucket == (CLIENT_ID,):
        return f"all users together that send {client_id}"
    return f"all requests of {user} with {client_id}"
