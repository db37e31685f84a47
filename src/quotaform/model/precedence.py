"""Kafka's rules of precedence: which quota applies to a request.

There are two kinds of request, each a row of `PRECEDENCES`: of a user with a client-id (eight levels, KIP-55 and
KIP-546), and a connection from an address (two levels, KIP-612). Per quota key, the first level whose entry holds that
key wins; values are never merged, added or compared (org.apache.kafka.server.quota.ClientQuotaManager).

The entries of a level are the entities whose types are `Level.bucket` and no others, with the default for those
in `Level.defaults` and a name for those in `Level.named`; `resolve.index` looks them up by the names of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity, address_of
from quotaform.model.quota_key import keys_for

CALLBACK: Final = "client.quota.callback.class"
"""The broker configuration that replaces the choice of quotas (KIP-257)."""


class Level(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One level of precedence."""

    number: int  # 1 is asked first
    source: str  # the name that KIP-248 gave to this quota source
    named: tuple[str, ...]  # the entity types for which its entries have the name of the request
    defaults: tuple[str, ...]  # those for which they have the default; they have no others
    # The entity types of its entries, in canonical order; requests that agree in their names share one rate
    bucket: tuple[str, ...]

    def is_stronger(self, other: Level | None) -> bool:
        """Whether its entries win over those of another level for the same kind of request; `None` is no entry at all.

        >>> LEVELS[2].is_stronger(LEVELS[5]), LEVELS[2].is_stronger(None)
        (True, True)
        """
        return other is None or self.number < other.number

    def allows_empty(self, entity_types: Iterable[str]) -> bool:
        """Whether a request in which the names of these types are empty can meet its entries.

        One with an empty client-id meets no entry with a client-id, not even a default (KAFKA-13341), and an entry with
        an empty one matches no request.

        >>> [level.number for level in LEVELS if level.allows_empty([CLIENT_ID])]
        [3, 6, 1, 2]
        """
        return CLIENT_ID not in self.bucket or CLIENT_ID not in entity_types


class Precedence(Struct, frozen=True, kw_only=True):
    """How the quotas of one kind of request are found."""

    columns: tuple[str, ...]  # the entity types for which a request has a name, in canonical order
    levels: tuple[Level, ...]  # the levels, the strongest first
    # Per entity type whose names have several spellings, the function that returns the canonical one; it returns `None`
    # for a name that only a broker's resolver could tell, which is like no other then. A broker holds an entry per
    # spelling. Of several for one name, an exact spelling of the request's is meant; without one, that in canonical
    # spelling; without that, the first by code points.
    canonical: Mapping[str, Callable[[str], str | None]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """The known quota keys that can limit a request."""
        return keys_for(Entity(dict.fromkeys(self.columns)))


def _level(number: int, source: str, *types: str, defaults: tuple[str, ...] = ()) -> Level:
    named = tuple(each for each in types if each not in defaults)
    return Level(number=number, source=source, named=named, defaults=defaults, bucket=types)


CLIENT_PRECEDENCE: Final = Precedence(
    columns=(USER, CLIENT_ID),
    levels=(
        _level(1, "ClientInUser", USER, CLIENT_ID),
        _level(2, "DefaultClientInUser", USER, CLIENT_ID, defaults=(CLIENT_ID,)),
        _level(3, "User", USER),
        _level(4, "ClientInDefaultUser", USER, CLIENT_ID, defaults=(USER,)),
        _level(5, "DefaultClientInDefaultUser", USER, CLIENT_ID, defaults=(USER, CLIENT_ID)),
        _level(6, "DefaultUser", USER, defaults=(USER,)),
        _level(7, "Client", CLIENT_ID),
        _level(8, "DefaultClient", CLIENT_ID, defaults=(CLIENT_ID,)),
    ),
)
IP_PRECEDENCE: Final = Precedence(
    columns=(IP,),
    levels=(_level(1, "Ip", IP), _level(2, "DefaultIp", IP, defaults=(IP,))),
    canonical={IP: address_of},
)
PRECEDENCES: Final = (CLIENT_PRECEDENCE, IP_PRECEDENCE)
"""All of it: one row per kind of request."""

LEVELS: Final = tuple(level for precedence in PRECEDENCES for level in precedence.levels)

_Shape = tuple[str | tuple[str, None], ...]
"""What the entities of a level have in common: the type where they hold a name, the whole part where the default."""

_LEVEL_OF_SHAPE: Final[dict[_Shape, Level]] = {
    tuple([(kind, None) if kind in level.defaults else kind for kind in level.bucket]): level for level in LEVELS
}


def level_of(entity: Entity) -> Level | None:
    """The level that an entity match belongs to; `None` for a shape that no broker resolves.

    >>> level_of(Entity(user="a", client_id=None)).source
    'DefaultClientInUser'
    """
    return _LEVEL_OF_SHAPE.get(tuple([(kind, None) if name is None else kind for kind, name in entity.parts]))


def met_level(entity: Entity) -> Level | None:
    """The level on which requests meet an entity; `None` if none can, because of its shape or an empty name.

    >>> met_level(Entity(user="a", client_id="")) is None
    True
    """
    level = level_of(entity)
    empty = [kind for kind, name in entity.parts if name == ""]
    return None if empty and level and not level.allows_empty(empty) else level
