"""The quota keys of Kafka: meaning, range of values and entity types."""

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
        entity_types: The entity types that may carry the key.
        limits: What it limits, for editors and docs.
        kip: The proposal that specified it.
        examples: Values as people write them.
        nan_effect: What brokers do when the value is NaN, as measured on Kafka 4.3.1.
    """

    name: str
    kind: NumberKind
    unit: str
    measures: str
    per: str
    entity_types: frozenset[str]
    limits: str
    kip: str
    examples: tuple[str | int, ...]
    nan_effect: str

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def maximum(self) -> float:
        """The value of `unlimited`; this value and larger ones limit nothing."""
        return _MAXIMA[self.kind]

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are allowed."""
        return self.kind is not NumberKind.DOUBLE

    def fits(self, entity: Entity) -> bool:
        """Whether an entity of this shape can carry the key."""
        return self.entity_types.issuperset(entity.types)


_MAXIMA: Final = {NumberKind.LONG: 2.0**63, NumberKind.INT: 2147483647.0, NumberKind.DOUBLE: 2147483647.0}
"""What Kafka's QuotaConfig means by no limit; for DOUBLE keys a broker takes more, and that limits nothing either."""


_CLIENTS: Final = frozenset({USER, CLIENT_ID})
_NOT_THROTTLED: Final = "brokers do not throttle by it"

_ROWS: Final = (
    QuotaKey(
        name="producer_byte_rate",
        kind=NumberKind.LONG,
        unit="B/s",
        measures="bytes per second",
        per="broker",
        entity_types=_CLIENTS,
        limits="Bytes per second that producers may send",
        kip="KIP-13",
        examples=("10MiB/s", "5MB/s", 1048576),
        nan_effect=_NOT_THROTTLED,
    ),
    QuotaKey(
        name="consumer_byte_rate",
        kind=NumberKind.LONG,
        unit="B/s",
        measures="bytes per second",
        per="broker",
        entity_types=_CLIENTS,
        limits="Bytes per second that consumers may fetch",
        kip="KIP-13",
        examples=("20MiB/s", "50MB/s", 2097152),
        nan_effect="brokers answer every fetch with a single batch",
    ),
    QuotaKey(
        name="request_percentage",
        kind=NumberKind.DOUBLE,
        unit="%",
        measures="percent of one request or network thread",
        per="broker",
        entity_types=_CLIENTS,
        limits="Time of request and network threads, where 100% is one thread",
        kip="KIP-124",
        examples=("150%", "12.5%", 200),
        nan_effect=_NOT_THROTTLED,
    ),
    QuotaKey(
        name="controller_mutation_rate",
        kind=NumberKind.DOUBLE,
        unit="/s",
        measures="partitions created or deleted per second",
        per="cluster",
        entity_types=_CLIENTS,
        limits="Partitions created or deleted per second",
        kip="KIP-599",
        examples=("20/s", 5),
        nan_effect=_NOT_THROTTLED,
    ),
    QuotaKey(
        name="connection_creation_rate",
        kind=NumberKind.INT,
        unit="/s",
        measures="connections per second",
        per="broker",
        entity_types=frozenset({IP}),
        limits="Connections accepted per second",
        kip="KIP-612",
        examples=("50/s", 10),
        nan_effect="brokers close every new connection from the address",
    ),
)

QUOTA_KEYS: Final[dict[str, QuotaKey]] = {key.name: key for key in _ROWS}
"""The known keys by name, as Kafka's QuotaConfig has them, in the order in which they print.

A new key is a new row: files, checks, plans, schemas, help and docs follow from it.
"""

PRODUCER_BYTE_RATE: Final = QUOTA_KEYS["producer_byte_rate"]
CONSUMER_BYTE_RATE: Final = QUOTA_KEYS["consumer_byte_rate"]
REQUEST_PERCENTAGE: Final = QUOTA_KEYS["request_percentage"]
CONTROLLER_MUTATION_RATE: Final = QUOTA_KEYS["controller_mutation_rate"]
CONNECTION_CREATION_RATE: Final = QUOTA_KEYS["connection_creation_rate"]

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
