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


_MAXIMA: Final = {NumberKind.LONG: 2.0**63, NumberKind.INT: 2147483647.0, NumberKind.DOUBLE: 2147483647.0}
"""What Kafka's QuotaConfig means by no limit; for DOUBLE keys a broker takes more, and that limits nothing either."""


def _key(name: str, kind: NumberKind, unit: str, measures: str, per: str, *entity_types: str) -> QuotaKey:
    return QuotaKey(
        name=name,
        kind=kind,
        unit=unit,
        measures=measures,
        per=per,
        maximum=_MAXIMA[kind],
        entity_types=frozenset(entity_types),
    )


_L, _I, _D = NumberKind.LONG, NumberKind.INT, NumberKind.DOUBLE
_BYTES, _THREAD = "bytes per second", "percent of one request or network thread"
_PARTITIONS, _CONNECTIONS = "partitions created or deleted per second", "connections per second"

PRODUCER_BYTE_RATE: Final = _key("producer_byte_rate", _L, "B/s", _BYTES, "broker", USER, CLIENT_ID)
CONSUMER_BYTE_RATE: Final = _key("consumer_byte_rate", _L, "B/s", _BYTES, "broker", USER, CLIENT_ID)
REQUEST_PERCENTAGE: Final = _key("request_percentage", _D, "%", _THREAD, "broker", USER, CLIENT_ID)
CONTROLLER_MUTATION_RATE: Final = _key("controller_mutation_rate", _D, "/s", _PARTITIONS, "cluster", USER, CLIENT_ID)
CONNECTION_CREATION_RATE: Final = _key("connection_creation_rate", _I, "/s", _CONNECTIONS, "broker", IP)

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
