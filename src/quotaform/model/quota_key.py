"""The quota keys that Kafka knows: what they measure, what they may hold and whom they fit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity


class NumberKind(StrEnum):
    """The type that Kafka's QuotaConfig declares; LONG and INT keys hold whole numbers."""

    LONG = "long"
    INT = "int"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaKey:
    """One quota key.

    Attributes:
        name: As on the wire, e.g. `producer_byte_rate`.
        kind: LONG, INT or DOUBLE.
        unit: What one unit is: `B/s` (bytes per second), `%` (of one thread) or `/s` (events per second).
        measures: The unit in words.
        per: Where the limit holds: `broker` (each one enforces the whole limit) or `cluster`.
        maximum: The value that `unlimited` writes, and from which on the key limits nothing.
        entity_types: The entity types that may carry the key.
    """

    name: str
    kind: NumberKind
    unit: str
    measures: str
    per: str
    maximum: float
    entity_types: frozenset[str]

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are allowed."""
        return self.kind is not NumberKind.DOUBLE

    def fits(self, entity: Entity) -> bool:
        """Whether an entity of this shape can carry the key."""
        return self.entity_types.issuperset(entity.types)


_CLIENT: Final = frozenset({USER, CLIENT_ID})
_INT_MAX: Final = 2147483647.0

PRODUCER_BYTE_RATE: Final = QuotaKey(
    name="producer_byte_rate",
    kind=NumberKind.LONG,
    unit="B/s",
    measures="bytes per second",
    per="broker",
    maximum=2.0**63,
    entity_types=_CLIENT,
)
CONSUMER_BYTE_RATE: Final = QuotaKey(
    name="consumer_byte_rate",
    kind=NumberKind.LONG,
    unit="B/s",
    measures="bytes per second",
    per="broker",
    maximum=2.0**63,
    entity_types=_CLIENT,
)
REQUEST_PERCENTAGE: Final = QuotaKey(
    name="request_percentage",
    kind=NumberKind.DOUBLE,
    unit="%",
    measures="percent of one request or network thread",
    per="broker",
    maximum=_INT_MAX,
    entity_types=_CLIENT,
)
CONTROLLER_MUTATION_RATE: Final = QuotaKey(
    name="controller_mutation_rate",
    kind=NumberKind.DOUBLE,
    unit="/s",
    measures="partitions created or deleted per second",
    per="cluster",
    maximum=_INT_MAX,
    entity_types=_CLIENT,
)
CONNECTION_CREATION_RATE: Final = QuotaKey(
    name="connection_creation_rate",
    kind=NumberKind.INT,
    unit="/s",
    measures="connections per second",
    per="broker",
    maximum=_INT_MAX,
    entity_types=frozenset({IP}),
)

QUOTA_KEYS: Final[dict[str, QuotaKey]] = {
    key.name: key
    for key in (
        PRODUCER_BYTE_RATE,
        CONSUMER_BYTE_RATE,
        REQUEST_PERCENTAGE,
        CONTROLLER_MUTATION_RATE,
        CONNECTION_CREATION_RATE,
    )
}
"""The known keys by name (Kafka's QuotaConfig; KIP-13, KIP-124, KIP-599, KIP-612), in the order in which they print."""

KEY_ORDER: Final = {name: rank for rank, name in enumerate(QUOTA_KEYS)}


def key_order(name: str) -> tuple[int, str]:
    """Sort key for quota key names: the known ones in Kafka's order, then the others by name."""
    return KEY_ORDER.get(name, len(KEY_ORDER)), name


def keys_for(entity: Entity) -> tuple[str, ...]:
    """The known quota keys that an entity of this shape can carry.

    >>> keys_for(Entity(ip="10.0.0.1"))
    ('connection_creation_rate',)
    """
    return tuple(name for name, key in QUOTA_KEYS.items() if key.fits(entity))
