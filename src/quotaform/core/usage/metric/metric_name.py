"""What the names of metrics say: of which quota they are, what they measure, and in which unit.

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

from functools import lru_cache
from re import IGNORECASE, Match
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.core.usage.metric.origin import fold
from quotaform.core.usage.sample.series import Attribute
from quotaform.model.quota_key import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

_PRODUCE: Final = PRODUCER_BYTE_RATE.name
_FETCH: Final = CONSUMER_BYTE_RATE.name
_REQUEST: Final = REQUEST_PERCENTAGE.name
_MUTATION: Final = CONTROLLER_MUTATION_RATE.name
_CONNECTION: Final = CONNECTION_CREATION_RATE.name

LONGEST_METRIC: Final = 2048
"""The limit on characters of the name of a metric that is of interest."""

_TYPES: Final = {
    **dict.fromkeys(("produce", "producer", fold(_PRODUCE)), _PRODUCE),
    **dict.fromkeys(("fetch", "consume", "consumer", fold(_FETCH)), _FETCH),
    **dict.fromkeys(("request", fold(_REQUEST)), _REQUEST),
    **dict.fromkeys(("controllermutation", "mutation", fold(_MUTATION)), _MUTATION),
    **dict.fromkeys(("connection", "connections", "ip", "socketservermetrics", fold(_CONNECTION)), _CONNECTION),
}
"""The quota key by the folded type: that of the MBean, other spellings, and the key itself."""

_ATTRIBUTES: Final = {
    "byte_rate": (Attribute.RATE, (_PRODUCE, _FETCH)),
    "request_time": (Attribute.RATE, (_REQUEST,)),
    "mutation_rate": (Attribute.RATE, (_MUTATION,)),
    "connection_accept_rate": (Attribute.RATE, (_CONNECTION,)),
    "throttle_time": (Attribute.THROTTLE_TIME, (_PRODUCE, _FETCH, _REQUEST, _MUTATION)),
}
"""What each attribute measures, and of which quota keys.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, ConnectionQuotas.
"""

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
"""Attributes of the quota managers that neither say what somebody used nor how long somebody waited.

The last ones are of KIP-1373 and KIP-786.
"""

_TIME_UNITS: Final = {
    "ms": 1.0,
    "milliseconds": 1.0,
    "s": 1000.0,
    "seconds": 1000.0,
    "us": 0.001,
    "microseconds": 0.001,
    "ns": 0.000001,
    "nanoseconds": 0.000001,
}
"""Milliseconds per unit of time at the end of a name, or beside it."""

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

_UCUM_SIZES: Final = {
    "kBy": 1e3,
    "MBy": 1e6,
    "GBy": 1e9,
    "KiBy": 2.0**10,
    "MiBy": 2.0**20,
    "GiBy": 2.0**30,
}
"""Bytes per unit beside a name, as OpenTelemetry spells them."""

_UNITS: Final[dict[str, dict[str, float]]] = {
    "byte_rate": _SIZE_UNITS,
    "request_time": {"percent": 1.0, "percentage": 1.0},
    "mutation_rate": {"mutations": 1.0, "partitions": 1.0},
    "connection_accept_rate": {"connections": 1.0},
    "throttle_time": _TIME_UNITS,
}
"""By what a value is multiplied, by attribute and unit. Another unit of another attribute cannot be converted."""

_ALL_UNITS: Final = "|".join(sorted({"ratio", *(unit for units in _UNITS.values() for unit in units)}, reverse=True))

_CLIENT_METRICS: Final = {
    ("producer", "outgoing_byte_rate"): (_PRODUCE, Attribute.RATE),
    ("producer", "outgoing_byte_total"): (_PRODUCE, Attribute.TOTAL),
    ("producer", "produce_throttle_time_avg"): (_PRODUCE, Attribute.THROTTLE_TIME),
    ("consumer", "bytes_consumed_rate"): (_FETCH, Attribute.RATE),
    ("consumer", "bytes_consumed_total"): (_FETCH, Attribute.TOTAL),
    ("consumer", "fetch_throttle_time_avg"): (_FETCH, Attribute.THROTTLE_TIME),
}
"""What clients measure of themselves, by kind of client and name.

Source: KIP-714; org.apache.kafka.clients.producer.internals.SenderMetricsRegistry,
org.apache.kafka.clients.consumer.internals.FetchMetricsRegistry, org.apache.kafka.common.network.Selector.
"""

_CLIENTS: Final = {"produce": "producer", "fetch": "consumer", "bytes": "consumer"}
"""The kind of client by the first word of its metric; both have an `outgoing_byte_rate`."""

_TYPE: Final = "produce|producer|fetch|consume|consumer|request|controller_?mutation|mutation|socket_?server_?metrics"
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
_CLIENT_NAME = regex(
    r"(?:org_apache_)?kafka_(?:clients?_|(?P<client>producer|consumer)_(?:(?:producer|consumer)_)?)"
    r"(?:fetch_manager_)?(?:metrics_)?"
    r"(?P<attribute>outgoing_byte_(?:rate|total)|bytes_consumed_(?:rate|total)"
    rf"|(?:produce|fetch)_throttle_time_(?:avg|max))(?:_(?P<unit>bytes|{'|'.join(_TIME_UNITS)}))?(?:_total)?"
).fullmatch
_BY_FOLD: Final = {fold(name): name for name in _ATTRIBUTES}
_SWALLOWED = regex(
    rf"kafka_server_(?:quotas?_)?(?:{_TYPE})_(?:user|client_?id|ip)_.+_(?:rate|time|tokens)(?:_ms)?"
).fullmatch
_PREFIXED = regex(r".+?_(kafka_(?:server|broker|producer|consumer)_.+)").fullmatch
"""A name with something before it: that of an application or a service, or of what was computed."""
_CAPITAL: Final = regex(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS: Final = regex(r"[^A-Za-z0-9]+")


class MetricName(NamedTuple):
    """What a name says.

    Attributes:
        key: The quota key; `None` if a label has to say it.
        keys: The quota keys that it can be of.
        attribute: What is measured; `None` for other things that quota managers measure.
        factor: By what a value is multiplied to be in the unit of the attribute; `None` if its unit is another one.
    """

    key: str | None
    keys: tuple[str, ...]
    attribute: Attribute | None
    factor: float | None = 1.0
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
    client = found["client"] or _CLIENTS.get(found["attribute"].partition("_")[0], "")
    measured = _CLIENT_METRICS.get((client, found["attribute"]))
    if measured is None:
        return None
    key, attribute = measured
    units = _TIME_UNITS if attribute is Attribute.THROTTLE_TIME else _SIZE_UNITS
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


def time_factor(unit: str) -> float:
    """Return how many milliseconds a unit of time is; 1 for one that is not known.

    >>> time_factor("s"), time_factor("")
    (1000.0, 1.0)
    """
    return _TIME_UNITS.get(unit, 1.0)


def size_factor(unit: str) -> float:
    """Return how many bytes a unit of OpenTelemetry is; 1 for one that is not of bytes.

    >>> size_factor("KiBy/s"), size_factor("By"), size_factor("%")
    (1024.0, 1.0, 1.0)
    """
    return _UCUM_SIZES.get(unit.removesuffix("/s"), 1.0)


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
