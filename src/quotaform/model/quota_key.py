"""The quota keys of Kafka: meaning, range of values and entity types."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from quotaform.model.entity import CLIENT_ID, IP, USER, Entity

LARGEST_LONG: Final = 2.0**63
"""The value of `unlimited` for a LONG of Kafka's QuotaConfig."""
_LARGEST_INT: Final = 2147483647.0
"""That of an INT and of a DOUBLE; a broker takes larger doubles, too, and they limit nothing either."""

QUOTA_WINDOW_S: Final = 11.5
"""Seconds that a rate of a broker covers: between 11 and 12 with the defaults of `quota.window.num` and
`quota.window.size.seconds`, as the current window has begun but not ended, and one whose last request is less than 11 s
old counts as a whole; between 10 and 11 for the first seconds after a time without requests, and before Kafka 3.8.

Source: org.apache.kafka.common.metrics.stats.Rate and SampledStat.
"""

MUTATION_WINDOW_S: Final = 60.0
"""Seconds that a mutation rate of a broker covers: between 30 and 90 with the defaults of `metrics.num.samples` and
`metrics.sample.window.ms`, as it is not measured by the windows of quotas.

Source: kafka.server.ControllerMutationQuotaManager.
"""


class Enforcement(Struct, frozen=True, kw_only=True):
    """How brokers enforce a quota key, as far as a replay of recorded rates needs it.

    | key | requests wait | what waits | longest delay |
    | --- | --- | --- | --- |
    | producer_byte_rate, consumer_byte_rate | while the rate of the window is over the limit | is sent later | none |
    | request_percentage | likewise | is sent later | 1 s per request |
    | controller_mutation_rate | while a token bucket of 11 s of the limit is overdrawn | is sent later | none |
    | connection_creation_rate | while the rate of the window is over the limit | is refused, and comes again | 1 s |

    The numbers are those of the defaults of `quota.window.num` and `quota.window.size.seconds`, and of the same
    settings of controllers.

    Source: kafka.server.ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager;
    kafka.network.ConnectionQuotas; org.apache.kafka.common.metrics.stats.TokenBucket.
    """

    burst_s: float = 0.0  # How many seconds of the limit are admitted at once, beyond those of the rate's own window
    is_refused: bool = False  # Whether what is over the limit is refused: it waits as long as clients try again
    longest_delay_s: float | None = None  # The longest delay of one request; `None` if there is no such cap
    answer: float = 0.0
    """How large an answer is that is not sent, and does not count, unless all of it fits into the window: up to so much
    of each window stays unused. What consumers ask for of a partition, by default."""


class ClientMetrics(Struct, frozen=True, kw_only=True):
    """How clients measure their own use of a quota key.

    Source: KIP-714; org.apache.kafka.clients.producer.internals.SenderMetricsRegistry,
    org.apache.kafka.clients.consumer.internals.FetchMetricsRegistry, org.apache.kafka.common.network.Selector.
    """

    kind: str  # `producer` or `consumer`
    rate: str  # The metric of bytes, without `_rate` or `_total`
    throttle_time: str
    words: tuple[str, ...]  # Prefixes of metric names that only clients of this kind have


class KeyMetrics(Struct, frozen=True, kw_only=True):
    """How brokers, and clients, measure the use of a quota key.

    Source: org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager;
    kafka.network.ConnectionQuotas.
    """

    mbean: str  # The `type` of the MBean
    rate: str  # The attribute of the MBean with the rate
    types: tuple[str, ...] = ()  # How names of metrics and labels also spell the type
    label_types: tuple[str, ...] = ()  # How labels also spell it
    units: tuple[str, ...] = ()  # What exporters add to the name of the rate; units of size are known
    has_throttle_time: bool = True
    window_s: float = QUOTA_WINDOW_S  # How many seconds a rate covers
    client: ClientMetrics | None = None


class QuotaKey(Struct, frozen=True, kw_only=True):
    """One quota key."""

    name: str  # As on the wire, e.g. `producer_byte_rate`.
    maximum: float  # the value of `unlimited`; this value and larger ones limit nothing
    unit: str  # what one unit is: `B/s` (bytes per second), `%` (of one thread) or `/s` (events per second)
    measures: str  # the unit in words
    per: str  # where the limit holds: `broker` (each one enforces the whole limit) or `cluster`
    entity_types: frozenset[str]  # the entity types that may carry the key
    limits: str  # what it limits, for editors and docs
    kip: str  # the proposal that specified it
    examples: tuple[str | int, ...]  # values as people write them
    nan_effect: str  # what brokers do when the value is NaN, as measured on Kafka 4.3.1
    is_whole: bool = True  # whether only whole numbers are allowed: it is a LONG or an INT, and no DOUBLE
    enforcement: Enforcement = Enforcement()  # how brokers enforce it
    # How its use is measured; `None` if brokers have no metric of it, so that nothing can be recorded
    metrics: KeyMetrics | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def fits(self, entity: Entity) -> bool:
        """Whether an entity of this shape can carry the key."""
        return self.entity_types.issuperset(entity.types)


_CLIENTS: Final = frozenset({USER, CLIENT_ID})
_NOT_THROTTLED: Final = "brokers do not throttle by it"

_ROWS: Final = (
    QuotaKey(
        name="producer_byte_rate",
        maximum=LARGEST_LONG,
        unit="B/s",
        measures="bytes per second",
        per="broker",
        entity_types=_CLIENTS,
        limits="Bytes per second that producers may send",
        kip="KIP-13",
        examples=("10MiB/s", "5MB/s", 1048576),
        nan_effect=_NOT_THROTTLED,
        metrics=KeyMetrics(
            mbean="Produce",
            rate="byte-rate",
            types=("producer",),
            client=ClientMetrics(
                kind="producer", rate="outgoing_byte", throttle_time="produce_throttle_time", words=("produce",)
            ),
        ),
    ),
    QuotaKey(
        name="consumer_byte_rate",
        maximum=LARGEST_LONG,
        unit="B/s",
        measures="bytes per second",
        per="broker",
        entity_types=_CLIENTS,
        limits="Bytes per second that consumers may fetch",
        kip="KIP-13",
        examples=("20MiB/s", "50MB/s", 2097152),
        nan_effect="brokers answer every fetch with a single batch",
        enforcement=Enforcement(answer=2.0**20),
        metrics=KeyMetrics(
            mbean="Fetch",
            rate="byte-rate",
            types=("consume", "consumer"),
            client=ClientMetrics(
                kind="consumer", rate="bytes_consumed", throttle_time="fetch_throttle_time", words=("fetch", "bytes")
            ),
        ),
    ),
    QuotaKey(
        name="request_percentage",
        maximum=_LARGEST_INT,
        is_whole=False,
        unit="%",
        measures="percent of one request or network thread",
        per="broker",
        entity_types=_CLIENTS,
        limits="Time of request and network threads, where 100% is one thread",
        kip="KIP-124",
        examples=("150%", "12.5%", 200),
        nan_effect=_NOT_THROTTLED,
        enforcement=Enforcement(longest_delay_s=1.0),
        metrics=KeyMetrics(mbean="Request", rate="request-time", units=("percent", "percentage")),
    ),
    QuotaKey(
        name="controller_mutation_rate",
        maximum=_LARGEST_INT,
        is_whole=False,
        unit="/s",
        measures="partitions created or deleted per second",
        per="cluster",
        entity_types=_CLIENTS,
        limits="Partitions created or deleted per second",
        kip="KIP-599",
        examples=("20/s", 5),
        nan_effect=_NOT_THROTTLED,
        enforcement=Enforcement(burst_s=11.0),
        metrics=KeyMetrics(
            mbean="ControllerMutation",
            rate="mutation-rate",
            types=("mutation",),
            units=("mutations", "partitions"),
            window_s=MUTATION_WINDOW_S,
        ),
    ),
    QuotaKey(
        name="connection_creation_rate",
        maximum=_LARGEST_INT,
        unit="/s",
        measures="connections per second",
        per="broker",
        entity_types=frozenset({IP}),
        limits="Connections accepted per second",
        kip="KIP-612",
        examples=("50/s", 10),
        nan_effect="brokers close every new connection from the address",
        enforcement=Enforcement(is_refused=True, longest_delay_s=1.0),
        metrics=KeyMetrics(
            mbean="socket-server-metrics",
            rate="connection-accept-rate",
            label_types=("connection", "connections", "ip"),
            units=("connections",),
            has_throttle_time=False,
        ),
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
