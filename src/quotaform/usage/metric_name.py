"""What the names of metrics say, and where a recording is from if they do not say it.

Names differ with the rules of the exporter: docs/usage-recordings.md has those that are read, and those of clients that
measure themselves (KIP-714, or an exporter in the client).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from re import IGNORECASE
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.model.quota_key import QUOTA_KEYS, KeyMetrics
from quotaform.usage.sample import Attribute

_LETTERS: Final = regex(r"[^a-z0-9]+")


def fold(name: str) -> str:
    """Return what all spellings of a label have in common: `clientid` of `client-id`, `clientId` and `client_id`."""
    return _LETTERS.sub("", name.lower())


LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    kind: tuple(map(fold, names.split()))
    for kind, names in {
        # Of several, `cluster` may be that of Kubernetes.
        "cluster": """
            kafka_cluster kafka_cluster_name strimzi_io_cluster label_strimzi_io_cluster cluster cluster_name
            kafka_cluster_id cluster_id
        """,
        "broker": """
            broker broker_id kafka_broker kafka_broker_id kafka_node_id node_id pod kubernetes_pod_name pod_name
            k8s_pod_name exported_instance instance service_instance_id jolokia_agent_url net_host_name server_address
            hostname host_name host server node node_name
        """,
        "type": "quota_type resource type quota request_type api operation bean_type kind",
        "user": "exported_user user username principal kafka_user quota_user kafka_principal",
        "client_id": "exported_client_id client_id client kafka_client_id quota_client_id",
        "ip": "ip client_ip source_ip address exported_ip",
        # What tells clients of the same names apart that measure themselves
        "instance": "client_instance_id instance service_instance_id pod",
    }.items()
}
"""The labels that say each thing, folded: the first one that a metric has; of the type, the first that names a type."""

_CAPITAL: Final = regex(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a recording is from."""

    cluster: str | None = None  # The cluster of metrics that have none of the labels; `None` if it is not known
    broker: str | None = None  # The same for the broker
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: LABELS)
    """The labels of each kind of `LABELS`, folded."""

    def __hash__(self) -> int:
        """Return the hash, which each sample asks for; that of all labels would take as long as reading the sample."""
        return hash((self.cluster, self.broker))

    def value_of(self, kind: str, labels: Mapping[str, str]) -> str | None:
        """Return what the labels of a metric, whose names are folded, say of a kind."""
        return first_label(labels, self.labels[kind])


def first_label(labels: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the value of the first of some labels that is not empty: to Prometheus an empty label is absent.

    The names, and those of `labels`, are folded.
    """
    return next((value for name in names if (value := labels.get(name))), None)


def type_pattern(kind: str) -> str:
    """Return what fits all spellings of a type of quota in lower case, as a regular expression."""
    return _CAPITAL.sub("_", kind).lower().replace("-", "_").replace("_", "_?")


TIME_UNITS: Final = {
    **dict.fromkeys(("ms", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "seconds"), 1000.0),
    **dict.fromkeys(("us", "microseconds"), 0.001),
    **dict.fromkeys(("ns", "nanoseconds"), 0.000001),
}
"""Milliseconds per unit of time, at the end of a name or given apart from it."""

_SIZES: Final = {"kilo": 1e3, "mega": 1e6, "giga": 1e9, "kibi": 2.0**10, "mebi": 2.0**20, "gibi": 2.0**30}
_SIZE_UNITS: Final = {"bytes": 1.0, **{f"{prefix}bytes": size for prefix, size in _SIZES.items()}}
"""Bytes per unit at the end of a name."""

UCUM_SIZES: Final = {"kBy": 1e3, "MBy": 1e6, "GBy": 1e9, "KiBy": 2.0**10, "MiBy": 2.0**20, "GiBy": 2.0**30}
"""Bytes per unit that is given apart from the name, as OpenTelemetry spells them."""


class _Measured(NamedTuple):
    attribute: Attribute
    keys: tuple[str, ...]
    units: Mapping[str, float]
    """By what a value in a unit is multiplied; a value in another unit cannot be converted."""


METRICS: Final[dict[str, KeyMetrics]] = {
    name: key.metrics for name, key in QUOTA_KEYS.items() if key.metrics is not None
}
"""The metrics of each quota key that brokers measure."""
_RATES: Final = {name: metrics.rate.replace("-", "_") for name, metrics in METRICS.items()}
_MEASURED: Final = {
    **{
        rate: _Measured(
            Attribute.RATE,
            tuple(other for other in _RATES if _RATES[other] == rate),
            _SIZE_UNITS if QUOTA_KEYS[name].unit == "B/s" else dict.fromkeys(METRICS[name].units, 1.0),
        )
        for name, rate in _RATES.items()
    },
    "throttle_time": _Measured(
        Attribute.THROTTLE_TIME,
        tuple(name for name, metrics in METRICS.items() if metrics.has_throttle_time),
        TIME_UNITS,
    ),
}
_BY_FOLD: Final = {fold(name): measured for name, measured in _MEASURED.items()}

_OTHERS: Final = (
    *("tokens", "queue_size", "exempt_request_time", "exempt_throttle_time", "broker_connection_accept_rate"),
    *("connection_accept_throttle_time", "ip_connection_accept_throttle_time"),
    # KIP-1373 and KIP-786
    *("quota_utilization", "quota_value", "byte_quota_value", "request_quota_value"),
)
"""Attributes of the quota managers that say neither what was used nor how long requests waited."""

_CLIENTS: Final = {name: metrics.client for name, metrics in METRICS.items() if metrics.client is not None}
_CLIENT_METRICS: Final = {
    (client.kind, metric): _Measured(attribute, (name,), units)
    for name, client in _CLIENTS.items()
    for metric, attribute, units in (
        (f"{client.rate}_rate", Attribute.RATE, _SIZE_UNITS),
        (f"{client.rate}_total", Attribute.TOTAL, _SIZE_UNITS),
        (f"{client.throttle_time}_avg", Attribute.THROTTLE_TIME, TIME_UNITS),
    )
}
"""What clients measure of themselves, by kind of client and name."""
_KIND_OF_WORD: Final = {word: client.kind for client in _CLIENTS.values() for word in client.words}

_TYPES: Final = {
    fold(spelling): name
    for name, metrics in METRICS.items()
    for spelling in (metrics.mbean, *metrics.types, *metrics.label_types)
} | {fold(name): name for name in QUOTA_KEYS}
"""The quota key by the folded type: that of the MBean, other spellings, and the key itself."""

_ALL_UNITS: Final = "|".join(sorted({"ratio", *(unit for each in _MEASURED.values() for unit in each.units)})[::-1])
_TYPE: Final = "|".join(
    type_pattern(spelling) for metrics in METRICS.values() for spelling in (metrics.mbean, *metrics.types)
)
_SCOPE: Final = "quotas?|users?|client_ids?|clients?|ips?"
"""What rules add to a name which say for whom a bucket is; the names themselves are in labels."""
_BEFORE: Final = rf"(?:(?:kafka|server|broker|jmx|jolokia|agent|metrics?|{_SCOPE})_)*+"
_STATISTIC: Final = "avg|mean|value|gauge|total"
_BROKER_NAME = regex(
    rf"{_BEFORE}(?:(?P<type>{_TYPE})_)?(?:(?:{_SCOPE})_)*?"
    rf"(?P<attribute>{'|'.join(name.replace('_', '_?') for name in (*_MEASURED, *_OTHERS))})(?:_(?:{_STATISTIC}))?+"
    rf"(?:_(?P<unit>{_ALL_UNITS}))?+(?:_per_sec(?:ond)?)?+(?:_(?:{_STATISTIC}))*+"
).fullmatch
_KINDS: Final = "|".join(client.kind for client in _CLIENTS.values())
_CLIENT_NAME = regex(
    rf"(?:org_apache_)?kafka_(?:clients?_|(?P<client>{_KINDS})_(?:(?:{_KINDS})_)?)"
    r"(?:fetch_manager_)?(?:metrics_)?"
    rf"(?P<attribute>(?:{'|'.join(client.rate for client in _CLIENTS.values())})_(?:rate|total)"
    rf"|(?:{'|'.join(client.throttle_time for client in _CLIENTS.values())})_(?:avg|max))"
    rf"(?:_(?P<unit>bytes|{'|'.join(TIME_UNITS)}))?(?:_total)?"
).fullmatch
_WITHOUT_ATTRIBUTE = regex(
    rf"kafka_{_BEFORE}(?:{_TYPE})?|kafka_server(?:_quotas?)?"
    r"|kafka_(?:producer_(?:producer_)?metrics|consumer_(?:consumer_)?fetch_manager_metrics)"
).fullmatch
_MAY_BE_OF_CLIENT = regex(r"kafka_(?:producer|consumer)_byte_?rate").fullmatch
_WITH_NAMES = regex(
    rf"kafka_server_(?:quotas?_)?(?:{_TYPE})_(?:user|client_?id|ip)_.+_(?:rate|time|tokens)(?:_ms)?"
).fullmatch
_WITH_VALUE = regex(r"(.+?)_?:_?(?:[0-9][0-9_.]*(?:E_?[0-9]+)?|NaN|Infinity)", IGNORECASE).fullmatch
"""A name that a rule of an exporter made of an attribute and its value: `byte-rate: 1.5`."""
_PREFIXED = regex(r".+?_(kafka_(?:server|broker|producer|consumer)_.+)").fullmatch
"""A name with something before it: that of an application or a service, or of what was computed."""
_SEPARATORS: Final = regex(r"[^A-Za-z0-9]+")


class MetricName(NamedTuple):
    """What a name says."""

    keys: tuple[str, ...] = ()  # The quota keys that it can be of; of several, a label has to say which
    attribute: Attribute | None = None  # What is measured; `None` for other things that quota managers measure
    factor: float | None = 1.0
    """By what a value is multiplied to be in the unit of the attribute; `None` if its unit is another one."""
    is_of_client: bool = False
    may_be_of_client: bool = False
    """Whether it is the byte rate of a topic as a client measures it, without the topic, or the rate of a quota."""
    base: str | None = None  # The name to which a label has to add what is measured, if one has
    has_names: bool = False  # Whether it holds the names of the bucket, in which they can't be told apart
    problem: str | None = None  # Why its values are not those of the metric that it names


@lru_cache(maxsize=16384)
def _read_metric_name(name: str) -> MetricName | None:
    problem = None
    if ":" in name and (found := _WITH_VALUE(name)):
        name = found[1]
        problem = (
            "its value is in its name, so that each value makes another metric; end the pattern of the exporter's "
            "rule with a colon: ><>(.+):"
        )
    plain = _SEPARATORS.sub("_", _CAPITAL.sub("_", name)).strip("_").lower()
    said = _read_plain(plain)
    if said is None and (found := _PREFIXED(plain)) and (said := _read_plain(found[1])):
        problem = (
            f"there is something before {found[1]} in its name, so that it may have been computed of others; record "
            "the metric itself, or take that away if it is a prefix only"
        )
    if said is None and _WITH_NAMES(plain):
        said = MetricName(has_names=True)
    return said and said._replace(problem=problem)


def read_metric_name(name: str) -> MetricName | None:
    """Return what the name of a metric says; `None` if it is not about client quotas."""
    # A longer one is not of interest.
    return _read_metric_name(name) if len(name) <= 2048 else None


def _read_plain(plain: str) -> MetricName | None:
    """Return what a name in lower case says, with nothing before it."""
    keys: tuple[str, ...] = ()
    measured, is_of_client = None, False
    if found := _CLIENT_NAME(plain):
        kind = found["client"] or _KIND_OF_WORD.get(found["attribute"].partition("_")[0], "")
        measured, is_of_client = _CLIENT_METRICS.get((kind, found["attribute"])), True
    elif found := _BROKER_NAME(plain):
        measured = _BY_FOLD.get(fold(found["attribute"]))
        if measured is None:
            return MetricName()
        keys = (_TYPES[fold(found["type"])],) if found["type"] else ()
    if found is None or measured is None or not {*keys} <= {*measured.keys}:
        return MetricName(base=plain) if _WITHOUT_ATTRIBUTE(plain) else None
    return MetricName(
        keys or measured.keys,
        measured.attribute,
        measured.units.get(found["unit"]) if found["unit"] else 1.0,
        is_of_client,
        may_be_of_client=_MAY_BE_OF_CLIENT(plain) is not None,
    )


def key_of_type(text: str) -> str | None:
    """Return the quota key of a type of quota, such as `ControllerMutation`; `None` if there is no such type."""
    return _TYPES.get(fold(text))
