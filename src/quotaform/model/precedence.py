"""Which quota wins: the precedence of Kafka's quotas as data.

Per quota key, the first level that holds that key wins; values are never merged, added or compared
(org.apache.kafka.server.quota.ClientQuotaManager; KIP-55, KIP-546). `core.resolve` walks this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity


class Match(Enum):
    """What a level asks of one entity type."""

    EXACT = "exact"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of precedence.

    Attributes:
        number: 1 is asked first.
        source: The name that KIP-248 gave to this quota source.
        matches: What the entity of this level holds, per entity type; a type not listed is absent.
        bucket: The entity types whose names tell one rate from another; requests that agree in them share it.
    """

    number: int
    source: str
    matches: tuple[tuple[str, Match], ...]
    bucket: tuple[str, ...]

    @property
    def exact_types(self) -> tuple[str, ...]:
        """The entity types that must be named."""
        return tuple(entity_type for entity_type, match in self.matches if match is Match.EXACT)

    def has_shape_of(self, entity: Entity) -> bool:
        """Whether an entity match belongs to this level."""
        return self.matches == tuple(
            (entity_type, Match.DEFAULT if name is None else Match.EXACT) for entity_type, name in entity.parts
        )


def _level(number: int, source: str, bucket: tuple[str, ...], **matches: Match) -> Level:
    pairs = tuple((entity_type.replace("_", "-"), match) for entity_type, match in matches.items())
    return Level(number=number, source=source, matches=pairs, bucket=bucket)


_E, _D = Match.EXACT, Match.DEFAULT
_BOTH: Final = (USER, CLIENT_ID)

CLIENT_LEVELS: Final = (
    _level(1, "ClientInUser", _BOTH, user=_E, client_id=_E),
    _level(2, "DefaultClientInUser", _BOTH, user=_E, client_id=_D),
    _level(3, "User", (USER,), user=_E),
    _level(4, "ClientInDefaultUser", _BOTH, user=_D, client_id=_E),
    _level(5, "DefaultClientInDefaultUser", _BOTH, user=_D, client_id=_D),
    _level(6, "DefaultUser", (USER,), user=_D),
    _level(7, "Client", (CLIENT_ID,), client_id=_E),
    _level(8, "DefaultClient", (CLIENT_ID,), client_id=_D),
)
"""The eight levels for a request of a user with a client-id."""

IP_LEVELS: Final = (
    _level(1, "Ip", (IP,), ip=_E),
    _level(2, "DefaultIp", (IP,), ip=_D),
)
"""The two levels for a connection from an address (KIP-612)."""

LEVELS: Final = CLIENT_LEVELS + IP_LEVELS


def level_of(entity: Entity) -> Level | None:
    """The level that an entity match belongs to; `None` for a shape that no broker resolves.

    >>> level_of(Entity(user="a", client_id=None)).source
    'DefaultClientInUser'
    """
    return next((level for level in LEVELS if level.has_shape_of(entity)), None)
