"""From the name and labels of a metric to the series that it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from re import DOTALL
from re import compile as regex
from types import MappingProxyType
from typing import Final, NamedTuple

from quotaform.core.usage.metric.metric_label import hidden_name, names_of, other_name, split_type, type_of
from quotaform.core.usage.metric.metric_name import (
    MetricName,
    is_of_quotas,
    key_of_type,
    may_be_of_client,
    needs_attribute,
    read_metric_name,
    without_prefix,
    without_value,
)
from quotaform.core.usage.metric.object_name import parse_object_name
from quotaform.core.usage.metric.origin import INSTANCE_LABELS, Origin, first_label, fold
from quotaform.core.usage.sample.sample import DropReason, Unreadable
from quotaform.core.usage.sample.series import Attribute, Series, broker_window_s
from quotaform.model.text import quote

CLIENT_WINDOW_S: Final = 60.0
"""Seconds that a rate of a client covers, at most, with the defaults of `metrics.num.samples` and
`metrics.sample.window.ms`."""

LONGEST_NAME: Final = 32767
"""The limit on characters of a name: that of a string in Kafka's protocol."""

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

LONGEST_KNOWN: Final = 4096
"""The limit on characters of names that are remembered."""

_PART_LABELS: Final = ("topic", "partition")
_ATTRIBUTE_LABELS: Final = ("attribute_name", "attribute", "attr")
_OBJECT_NAME_LABELS: Final = ("mbean", "object_name", "bean")
_STATISTIC_LABELS: Final = ("quantile", "le")
_OBJECT_NAME = regex(r"([^<]+)<(.+)><>([^<>]+)", DOTALL).fullmatch

_SWALLOWED: Final = (
    "the names of the bucket are in the metric's name, in which they can't be told apart; "
    "put rules that keep labels before the catch-all rule of the exporter"
)
_VALUE_IN_NAME: Final = (
    "its value is in its name, so that each value makes another metric; end the pattern of the exporter's rule with a "
    "colon: ><>(.+):"
)
_PREFIX: Final = (
    "there is something before {} in its name, so that it may have been computed of others; record the metric itself, "
    "or take that away if it is a prefix only"
)
_OF_CLIENT_OR_BROKER: Final = (
    "a producer or consumer may have measured it, for one topic, or a broker for all; if it is a broker's, let the "
    "rules of the exporter begin its name with kafka_server"
)
_OTHER_UNIT: Final = (
    "its name ends in a unit into which the metric of a broker cannot be converted; record it without that unit"
)


class Measure(NamedTuple):
    """What the values of a metric are.

    Attributes:
        factor: By what a value is multiplied to be in the unit of the series.
        window_s: How many seconds up to its time a value covers; 0 for a total.
    """

    series: Series
    factor: float
    window_s: float


def read_metric(name: str, labels: Mapping[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what a metric measures, or why it is not for the table of usage, or why it can't be read.

    >>> labels = {"resource": "Produce, user=CN%3Da", "clientId": "app", "instance": "b1:7071"}
    >>> read_metric("kafka_server_quota_byte_rate", labels, Origin("prod")).series[:5]
    ('prod', 'b1:7071', 'producer_byte_rate', 'CN=a', 'app')

    Args:
        name: The name of the metric, as Prometheus or OpenTelemetry has it.
        origin: What counts for a metric that has no such label.
    """
    if not is_of_quotas(name):
        return DropReason.OTHER_METRIC
    if (plain := without_value(name)) is not None:
        measure = read_metric(plain, labels, origin)
        return Unreadable(_VALUE_IN_NAME) if isinstance(measure, Measure) else measure
    if (plain := without_prefix(name)) is not None:
        measure = read_metric(plain, labels, origin)
        return Unreadable(_PREFIX.format(plain)) if isinstance(measure, Measure) else measure
    folded = {fold(label): value for label, value in labels.items()}
    folded |= _of_object_name(folded)
    meaning = read_metric_name(name)
    if meaning is None and needs_attribute(name):
        attribute = first_label(folded, _ATTRIBUTE_LABELS)
        meaning = read_metric_name(f"{name}_{attribute}") if attribute else None
        if meaning is None:
            return DropReason.OTHER_METRIC
    if meaning is None:
        return _swallowed(labels, origin)
    if first_label(folded, _PART_LABELS):
        return DropReason.OTHER_METRIC
    if meaning.attribute is None or first_label(folded, _STATISTIC_LABELS):
        return DropReason.OTHER_ATTRIBUTE
    if meaning.is_of_client:
        measure = _of_client(meaning, folded, origin)
    else:
        measure = _of_broker(meaning, folded, origin)
        if isinstance(measure, Measure):
            kind = type_of(folded, origin)
            if may_be_of_client(name) and measure.series.user is None and not (kind and key_of_type(kind)):
                return Unreadable(_OF_CLIENT_OR_BROKER)
            return other_name(measure.series.user, measure.series.client_id, labels, origin) or measure
    hidden = hidden_name(labels, origin) if measure is DropReason.BROKER_TOTAL else None
    return measure if hidden is None else hidden


def read_known_metric(name: str, labels: Mapping[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what `read_metric` returns, faster for a metric that was there before: the same ones come with every poll.

    `name` is the name of the metric. `origin` is what counts for a metric that has no such label.
    """
    if len(name) + sum(map(len, labels)) + sum(map(len, labels.values())) > LONGEST_KNOWN:
        return read_metric(name, labels, origin)
    return _read_known_metric(name, tuple(labels.items()), origin)


@lru_cache(maxsize=65536)
def _read_known_metric(
    name: str, labels: tuple[tuple[str, str], ...], origin: Origin
) -> Measure | DropReason | Unreadable:
    return read_metric(name, dict(labels), origin)


def read_object_name(
    object_name: str, attribute: str, origin: Origin, labels: Mapping[str, str] = NO_LABELS
) -> Measure | DropReason | Unreadable:
    """Return what an attribute of an MBean measures, as `read_metric` does.

    >>> read_object_name("kafka.server:type=Fetch,client-id=app", "byte-rate", Origin()).series.key
    'consumer_byte_rate'

    Args:
        origin: What counts for an MBean without such labels.
        labels: Labels beside the name, which may say where it is from.
    """
    parsed = parse_object_name(object_name)
    if parsed is None:
        return Unreadable(f"{quote(object_name)} is not the name of an MBean")
    properties = {**labels, **parsed.properties}
    kind = properties.pop("type", "")
    return read_metric(f"{parsed.domain}_{kind}_{attribute}", properties, origin)


def read_known_object_name(object_name: str, attribute: str, origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what `read_object_name` returns, faster for an MBean that was there before."""
    if len(object_name) + len(attribute) > LONGEST_KNOWN:
        return read_object_name(object_name, attribute, origin)
    return _read_known_object_name(object_name, attribute, origin)


@lru_cache(maxsize=65536)
def _read_known_object_name(object_name: str, attribute: str, origin: Origin) -> Measure | DropReason | Unreadable:
    return read_object_name(object_name, attribute, origin)


def check_series(series: Series) -> Series | DropReason | Unreadable:
    """Return a series that the table of usage can hold as it is, or why it cannot be one."""
    if series.user is None and series.client_id is None and series.ip is None:
        return DropReason.BROKER_TOTAL
    names = [name for name in series if name is not None]
    if max(map(len, names)) > LONGEST_NAME:
        return Unreadable(f"a name is longer than {LONGEST_NAME:,} characters, which no name in Kafka is")
    if not all(map(_is_text, names)):
        return Unreadable("a name is not UTF-8")
    return series


def _swallowed(labels: Mapping[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    """Return what a metric measures whose name holds the names of its bucket.

    The exporter adds the name of the MBean to metrics that would otherwise be the same.
    """
    found = _OBJECT_NAME(labels.get("_objectname", ""))
    if found is None:
        return Unreadable(_SWALLOWED)
    return read_object_name(f"{found[1]}:{found[2]}", found[3], origin, labels)


def _of_object_name(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what the name of the MBean says, where a label holds all of it."""
    parsed = parse_object_name(first_label(labels, _OBJECT_NAME_LABELS) or "")
    return {fold(name): value for name, value in parsed.properties.items()} if parsed else {}


def _of_broker(meaning: MetricName, labels: dict[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    kind = type_of(labels, origin)
    if kind is not None and "=" in kind:
        kind, labels = split_type(kind, labels, origin)
    key = meaning.key or (key_of_type(kind) if kind else None)
    if key is None:
        return _without_key(kind, labels, origin)
    if key not in meaning.keys:
        return DropReason.OTHER_METRIC
    return _measure(meaning, key, labels, origin, None)


def _of_client(meaning: MetricName, labels: Mapping[str, str], origin: Origin) -> Measure | DropReason | Unreadable:
    if meaning.key is None:
        return DropReason.OTHER_METRIC
    return _measure(meaning, meaning.key, labels, origin, first_label(labels, INSTANCE_LABELS))


def _measure(
    meaning: MetricName, key: str, labels: Mapping[str, str], origin: Origin, instance: str | None
) -> Measure | DropReason | Unreadable:
    if meaning.attribute is None:
        return DropReason.OTHER_ATTRIBUTE
    names = names_of(key, labels, origin)
    if isinstance(names, Unreadable):
        return names
    broker = None if meaning.is_of_client else origin.broker_of(labels)
    series = check_series(Series(origin.cluster_of(labels), broker, key, *names, meaning.attribute, instance))
    if not isinstance(series, Series):
        return series
    if meaning.factor is None:
        return Unreadable(_OTHER_UNIT)
    window = CLIENT_WINDOW_S if meaning.is_of_client else broker_window_s(key)
    return Measure(series, meaning.factor, 0.0 if meaning.attribute is Attribute.TOTAL else window)


def _without_key(kind: str | None, labels: Mapping[str, str], origin: Origin) -> DropReason | Unreadable:
    """Return what becomes of a metric which may be of a quota, but of which one is not known."""
    if kind:
        return DropReason.OTHER_METRIC
    if not first_label(labels, (*origin.user_labels, *origin.client_id_labels)):
        return DropReason.BROKER_TOTAL
    return Unreadable(
        "neither the name nor a label says of which quota it is; let the rules of the exporter keep the type of the "
        "MBean in a label quota_type, or name the label with --type-label"
    )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
