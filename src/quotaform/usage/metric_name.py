"""What the names of metrics say, and where a recording is from if they do not say it.

Names differ with the rules of the exporter; all of these are byte rates of Produce:

| name | made by |
| --- | --- |
| `kafka_server_quota_byte_rate` | rules that put the type into a label |
| `kafka_server_Produce_byte_rate`, `kafka_server_produce_byte_rate` | no rules, or rules with `kafka_server_$1_$4` |
| `kafka_server_quota_Produce_byte_rate` | rules with `kafka_server_quota_$1_$4` |
| `kafka_server_produce` | rules that put the attribute into a label |
| `kafka_client_byte_rate`, `kafka_user_byte_rate` | a Prometheus to which Telegraf writes what it reads by Jolokia |
| `kafka_server_produce_byte_rate_bytes_per_second` | OpenTelemetry, which adds the unit |

Clients that measure themselves (KIP-714, or an exporter in the client) say `org.apache.kafka.producer.…`,
`kafka_producer_producer_metrics_…` and the like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from re import IGNORECASE, Match
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.model.quota_key import QUOTA_KEYS, KeyMetrics
from quotaform.usage.sample import Attribute

CLUSTER_LABELS: Final = (
    "kafka_cluster",
    "kafka_cluster_name",
    "strimzi_io_cluster",
    "label_strimzi_io_cluster",
    "cluster",
    "cluster_name",
    "kafka_cluster_id",
    "cluster_id",
)
"""The labels that name the cluster, the first one that a metric has: `cluster` may be that of Kubernetes."""

BROKER_LABELS: Final = (
    "broker",
    "broker_id",
    "kafka_broker",
    "kafka_broker_id",
    "kafka_node_id",
    "node_id",
    "pod",
    "kubernetes_pod_name",
    "pod_name",
    "k8s_pod_name",
    "exported_instance",
    "instance",
    "service_instance_id",
    "jolokia_agent_url",
    "net_host_name",
    "server_address",
    "hostname",
    "host_name",
    "host",
    "server",
    "node",
    "node_name",
)
"""The labels that name the broker, the first one that a metric has."""

TYPE_LABELS: Final = (
    "quota_type",
    "resource",
    "type",
    "quota",
    "request_type",
    "api",
    "operation",
    "bean_type",
    "kind",
)
"""The labels that say of which quota a metric is, the first one that names a type of quota."""

USER_LABELS: Final = ("exported_user", "user", "username", "principal", "kafka_user", "quota_user", "kafka_principal")
"""The labels that name the user, the first one that a metric has."""

CLIENT_ID_LABELS: Final = ("exported_client_id", "client_id", "client", "kafka_client_id", "quota_client_id")
"""The labels that name the client-id, the first one that a metric has."""

IP_LABELS: Final = ("ip", "client_ip", "source_ip", "address", "exported_ip")
"""The labels that name the address, the first one that a metric has."""

INSTANCE_LABELS: Final = ("client_instance_id", "instance", "service_instance_id", "pod")
"""The labels that tell clients of the same names apart that measure themselves, the first one that a metric has."""

_LONGEST_KNOWN: Final = 256
_CAPITAL: Final = regex(r"(?<=[a-z0-9])(?=[A-Z])")
_LETTERS: Final = regex(r"[^a-z0-9]+")
_URL = regex(r"[a-z]+://(?:[^/?#@]*@)?([^/?#@]+)(?:[/?#].*)?").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a recording is from."""

    cluster: str | None = None  # The cluster of metrics that have none of the labels; `None` if it is not known
    broker: str | None = None  # The same for the broker
    cluster_labels: tuple[str, ...] = CLUSTER_LABELS
    """The labels that name the cluster; the first one that a metric has counts."""
    broker_labels: tuple[str, ...] = BROKER_LABELS  # The same for the broker
    type_labels: tuple[str, ...] = TYPE_LABELS
    """The labels that say of which quota a metric is; the first one that names a type of quota counts."""
    user_labels: tuple[str, ...] = USER_LABELS  # The labels that name the user; the first one that a metric has counts
    client_id_labels: tuple[str, ...] = CLIENT_ID_LABELS  # The same for the client-id
    ip_labels: tuple[str, ...] = IP_LABELS  # The same for the address

    def __hash__(self) -> int:
        """Return the hash, which each sample asks for; that of all labels would take as long as reading the sample."""
        return hash((self.cluster, self.broker))

    def cluster_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the cluster of a metric with these labels, whose names are folded."""
        return first_label(labels, self.cluster_labels) or self.cluster

    def broker_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the broker of a metric with these labels, whose names are folded."""
        name = first_label(labels, self.broker_labels)
        url = _URL(name) if name else None
        return url[1] if url else name or self.broker


def first_label(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the value of the first of some labels that is there and not empty: to Prometheus an empty one is absent.

    `labels` are values by folded name. `names` are names of labels, as people write them.
    """
    for name in names:
        if value := labels.get(fold(name)):
            return value
    return None


def fold(name: str) -> str:
    """Return what all spellings of the name of a label have in common.

    >>> {fold(name) for name in ("client-id", "clientId", "client_id", "clientid")}
    {'clientid'}
    """
    return _known_fold(name) if len(name) <= _LONGEST_KNOWN else _LETTERS.sub("", name.lower())


@lru_cache(maxsize=4096)
def _known_fold(name: str) -> str:
    return _LETTERS.sub("", name.lower())


def type_pattern(kind: str) -> str:
    """Return what fits all spellings of a type of quota in lower case, as a regular expression.

    >>> type_pattern("ControllerMutation"), type_pattern("socket-server-metrics")
    ('controller_?mutation', 'socket_?server_?metrics')
    """
    return _CAPITAL.sub("_", kind).lower().replace("-", "_").replace("_", "_?")


_METRICS: Final[dict[str, KeyMetrics]] = {
    name: key.metrics for name, key in QUOTA_KEYS.items() if key.metrics is not None
}
_THROTTLE_TIME: Final = "throttle_time"


LONGEST_METRIC: Final = 2048
"""The limit on characters of the name of a metric that is of interest."""

_TYPES: Final = {
    **{
        fold(spelling): name
        for name, metrics in _METRICS.items()
        for spelling in (metrics.mbean, *metrics.types, *metrics.label_types)
    },
    **{fold(name): name for name in QUOTA_KEYS},
}
"""The quota key by the folded type: that of the MBean, other spellings, and the key itself."""

_RATES: Final = {name: metrics.rate.replace("-", "_") for name, metrics in _METRICS.items()}
_ATTRIBUTES: Final = {
    **{
        rate: (Attribute.RATE, tuple(name for name, other in _RATES.items() if other == rate))
        for rate in _RATES.values()
    },
    _THROTTLE_TIME: (
        Attribute.THROTTLE_TIME,
        tuple(name for name, metrics in _METRICS.items() if metrics.has_throttle_time),
    ),
}
"""What each attribute measures, and of which quota keys."""

_OTHERS: Final = (
    "tokens",
    "queue_size",
    "exempt_request_time",
    "exempt_throttle_time",
    "broker_connection_accept_rate",
    "connection_accept_throttle_time",
    "ip_connection_accept_throttle_time",
    "quota_utilization",
    "quota_value",
    "byte_quota_value",
    "request_quota_value",
)
"""Attributes of the quota managers that say neither what was used nor how long requests waited.

The last ones are of KIP-1373 and KIP-786.
"""

TIME_UNITS: Final = {
    "ms": 1.0,
    "milliseconds": 1.0,
    "s": 1000.0,
    "seconds": 1000.0,
    "us": 0.001,
    "microseconds": 0.001,
    "ns": 0.000001,
    "nanoseconds": 0.000001,
}
"""Milliseconds per unit of time, at the end of a name or given apart from it."""

_SIZE_UNITS: Final = {
    "bytes": 1.0,
    "kilobytes": 1e3,
    "megabytes": 1e6,
    "gigabytes": 1e9,
    "kibibytes": 2.0**10,
    "mebibytes": 2.0**20,
    "gibibytes": 2.0**30,
}
"""Bytes per unit at the end of a name."""

UCUM_SIZES: Final = {
    "kBy": 1e3,
    "MBy": 1e6,
    "GBy": 1e9,
    "KiBy": 2.0**10,
    "MiBy": 2.0**20,
    "GiBy": 2.0**30,
}
"""Bytes per unit that is given apart from the name, as OpenTelemetry spells them."""

_UNITS: Final[dict[str, dict[str, float]]] = {
    **{
        rate: _SIZE_UNITS if QUOTA_KEYS[name].unit == "B/s" else dict.fromkeys(_METRICS[name].units, 1.0)
        for name, rate in _RATES.items()
    },
    _THROTTLE_TIME: TIME_UNITS,
}
"""By what a value is multiplied, by attribute and unit. Another unit of another attribute cannot be converted."""

_ALL_UNITS: Final = "|".join(sorted({"ratio", *(unit for units in _UNITS.values() for unit in units)}, reverse=True))

_CLIENTS: Final = {name: metrics.client for name, metrics in _METRICS.items() if metrics.client is not None}
_CLIENT_METRICS: Final = {
    (client.kind, metric): (name, attribute)
    for name, client in _CLIENTS.items()
    for metric, attribute in (
        (f"{client.rate}_rate", Attribute.RATE),
        (f"{client.rate}_total", Attribute.TOTAL),
        (f"{client.throttle_time}_avg", Attribute.THROTTLE_TIME),
    )
}
"""What clients measure of themselves, by kind of client and name."""

_KIND_OF_WORD: Final = {word: client.kind for client in _CLIENTS.values() for word in client.words}

_TYPE: Final = "|".join(
    type_pattern(spelling) for metrics in _METRICS.values() for spelling in (metrics.mbean, *metrics.types)
)
_SCOPE: Final = "quotas?|users?|client_ids?|clients?|ips?"
"""What rules add to a name which say for whom a bucket is; the names themselves are in labels."""
_PREFIX: Final = rf"(?:(?:kafka|server|broker|jmx|jolokia|agent|metrics?|{_SCOPE})_)*+"
_STATISTIC: Final = "avg|mean|value|gauge|total"
_BROKER_NAME = regex(
    rf"{_PREFIX}(?:(?P<type>{_TYPE})_)?(?:(?:{_SCOPE})_)*?"
    rf"(?P<attribute>{'|'.join(name.replace('_', '_?') for name in (*_ATTRIBUTES, *_OTHERS))})(?:_(?:{_STATISTIC}))?+"
    rf"(?:_(?P<unit>{_ALL_UNITS}))?+(?:_per_sec(?:ond)?)?+(?:_(?:{_STATISTIC}))*+"
).fullmatch
_UNATTRIBUTED = regex(
    rf"kafka_{_PREFIX}(?:{_TYPE})?|kafka_server(?:_quotas?)?"
    r"|kafka_(?:producer_(?:producer_)?metrics|consumer_(?:consumer_)?fetch_manager_metrics)"
).fullmatch
_MAY_BE_OF_CLIENT = regex(r"kafka_(?:producer|consumer)_byte_?rate").fullmatch
"""The byte rate of a topic as a client measures it, without the topic, or the rate of a quota."""
_VALUE = regex(r"(.+?)_?:_?(?:[0-9][0-9_.]*(?:E_?[0-9]+)?|NaN|Infinity)", IGNORECASE).fullmatch
"""A name that a rule of an exporter made of an attribute and its value: `byte-rate: 1.5`."""
_KINDS: Final = "|".join(client.kind for client in _CLIENTS.values())
_CLIENT_NAME = regex(
    rf"(?:org_apache_)?kafka_(?:clients?_|(?P<client>{_KINDS})_(?:(?:{_KINDS})_)?)"
    r"(?:fetch_manager_)?(?:metrics_)?"
    rf"(?P<attribute>(?:{'|'.join(client.rate for client in _CLIENTS.values())})_(?:rate|total)"
    rf"|(?:{'|'.join(client.throttle_time for client in _CLIENTS.values())})_(?:avg|max))"
    rf"(?:_(?P<unit>bytes|{'|'.join(TIME_UNITS)}))?(?:_total)?"
).fullmatch
_BY_FOLD: Final = {fold(name): name for name in _ATTRIBUTES}
_SWALLOWED = regex(
    rf"kafka_server_(?:quotas?_)?(?:{_TYPE})_(?:user|client_?id|ip)_.+_(?:rate|time|tokens)(?:_ms)?"
).fullmatch
_PREFIXED = regex(r".+?_(kafka_(?:server|broker|producer|consumer)_.+)").fullmatch
"""A name with something before it: that of an application or a service, or of what was computed."""
_SEPARATORS: Final = regex(r"[^A-Za-z0-9]+")


class MetricName(NamedTuple):
    """What a name says."""

    key: str | None  # The quota key; `None` if a label has to say it
    keys: tuple[str, ...]  # The quota keys that it can be of
    attribute: Attribute | None  # What is measured; `None` for other things that quota managers measure
    factor: float | None = 1.0
    """By what a value is multiplied to be in the unit of the attribute; `None` if its unit is another one."""
    is_of_client: bool = False


@lru_cache(maxsize=16384)
def read_metric_name(name: str) -> MetricName | None:
    """Return what the name of a metric says; `None` if it is not about client quotas.

    >>> read_metric_name("kafka_server_Produce_throttle_time_seconds")[2:4]
    (<Attribute.THROTTLE_TIME: 'throttle_time'>, 1000.0)
    """
    plain = _plain(name)
    if found := _CLIENT_NAME(plain):
        return _of_client(found)
    if not (found := _BROKER_NAME(plain)):
        return None
    measured = _BY_FOLD.get(fold(found["attribute"]), "")
    attribute, keys = _ATTRIBUTES.get(measured, (None, ()))
    key = _TYPES[fold(found["type"])] if found["type"] else keys[0] if len(keys) == 1 else None
    if attribute and key and key not in keys:
        return None
    unit = found["unit"]
    return MetricName(key, keys, attribute, _UNITS[measured].get(unit) if attribute and unit else 1.0)


def _of_client(found: Match[str]) -> MetricName | None:
    client = found["client"] or _KIND_OF_WORD.get(found["attribute"].partition("_")[0], "")
    measured = _CLIENT_METRICS.get((client, found["attribute"]))
    if measured is None:
        return None
    key, attribute = measured
    units = TIME_UNITS if attribute is Attribute.THROTTLE_TIME else _SIZE_UNITS
    factor = units.get(found["unit"]) if found["unit"] else 1.0
    return MetricName(key, (key,), attribute, factor, is_of_client=True)


def may_be_of_client(name: str) -> bool:
    """Whether a name is that of a client's metric as well as that of a broker's.

    >>> may_be_of_client("kafka_producer_byte_rate"), may_be_of_client("kafka_server_producer_byte_rate")
    (True, False)
    """
    return _MAY_BE_OF_CLIENT(_plain(name)) is not None


def without_value(name: str) -> str | None:
    """Return a name without the value at its end; `None` if there is none.

    >>> without_value("kafka_server_quota_Produce_byte_rate:_55300_99"), without_value("kafka_server_Produce_byte_rate")
    ('kafka_server_quota_Produce_byte_rate', None)
    """
    found = _VALUE(name) if ":" in name else None
    return found[1] if found else None


def without_prefix(name: str) -> str | None:
    """Return a name without what is before it; `None` if there is nothing, or the rest is not about client quotas.

    >>> without_prefix("aiven_kafka_server_Produce_byte_rate"), without_prefix("jmx_kafka_server_Produce_byte_rate")
    ('kafka_server_produce_byte_rate', None)
    """
    found = None if read_metric_name(name) or needs_attribute(name) else _PREFIXED(_plain(name))
    return found[1] if found and (read_metric_name(found[1]) or needs_attribute(found[1])) else None


def needs_attribute(name: str) -> bool:
    """Whether a label has to say what a metric measures.

    >>> needs_attribute("kafka_server_produce"), needs_attribute("kafka_server_produce_byte_rate")
    (True, False)
    """
    return len(name) <= LONGEST_METRIC and _UNATTRIBUTED(_plain(name)) is not None


def key_of_type(text: str) -> str | None:
    """Return the quota key of a type of quota.

    >>> key_of_type("ControllerMutation"), key_of_type("raft-metrics")
    ('controller_mutation_rate', None)
    """
    return _TYPES.get(fold(text))


def is_of_quotas(name: str) -> bool:
    """Whether a metric may be about client quotas, so that its labels are of interest.

    >>> is_of_quotas("kafka_server_Fetch_queue_size"), is_of_quotas("jvm_threads_current")
    (True, False)
    """
    return len(name) <= LONGEST_METRIC and _is_of_quotas(without_value(name) or name)


@lru_cache(maxsize=16384)
def _is_of_quotas(name: str) -> bool:
    is_plain = read_metric_name(name) is not None or needs_attribute(name) or has_swallowed_names(name)
    return is_plain or without_prefix(name) is not None


def has_swallowed_names(name: str) -> bool:
    """Whether the names of a bucket went into the name of its metric, in which they can't be told apart.

    >>> has_swallowed_names("kafka_server_Produce_user_alice_client_id_app_byte_rate")
    True
    """
    return _SWALLOWED(_plain(name)) is not None


def _plain(name: str) -> str:
    return _SEPARATORS.sub("_", _CAPITAL.sub("_", name)).strip("_").lower()
