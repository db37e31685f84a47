"""Metrics of OpenTelemetry as JSON (OTLP): what a collector writes, one document per line or alone.

Two kinds of metrics are read: those of brokers, under the names that exporters give them, and those that clients push
to brokers (KIP-714), under names such as `org.apache.kafka.producer.outgoing.byte.rate`.

| data point | becomes |
| --- | --- |
| of a gauge | a sample as it is |
| of a cumulative sum | a total |
| of a delta sum of bytes | the rate over the interval of the point |

Source: opentelemetry.io/docs/specs/otlp, opentelemetry/proto/metrics/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from re import compile as regex
from typing import Any, Final, NamedTuple

from msgspec import Struct

from quotaform.usage.format.text import Parsed, Source, as_items, json_documents, make_sample, read_number, read_time
from quotaform.usage.metric import Measure, read_metric
from quotaform.usage.metric_name import TIME_UNITS, UCUM_SIZES, Origin
from quotaform.usage.sample import Attribute, DropReason, Item, Rejected

_DELTA: Final = (1, "AGGREGATION_TEMPORALITY_DELTA")
_NO_RECORDED_VALUE: Final = 1
"""The flag of a point without a value, as a Prometheus writes it of a series that ended."""
_SNAKE: Final = regex(rb'"[a-z]+(?:_[a-z]+)+"(?=\s*:)')
_HUMP: Final = regex(rb"_([a-z])")


class _Attribute(Struct):
    key: str | None = None
    value: dict[str, Any] | None = None


class _Point(Struct, rename="camel"):
    attributes: list[_Attribute] | None = None
    time_unix_nano: Any = None
    start_time_unix_nano: Any = None
    as_double: Any = None
    as_int: Any = None
    flags: Any = None


class _Data(Struct, rename="camel"):
    data_points: list[_Point] | None = None
    aggregation_temporality: Any = None


class _Metric(Struct, rename="camel"):
    name: str | None = None
    unit: str | None = None
    gauge: _Data | None = None
    sum: _Data | None = None
    histogram: _Data | None = None
    exponential_histogram: _Data | None = None
    summary: _Data | None = None


class _Scope(Struct):
    metrics: list[_Metric] | None = None


class _Resource(Struct):
    attributes: list[_Attribute] | None = None


class _ResourceMetrics(Struct, rename="camel"):
    resource: _Resource | None = None
    scope_metrics: list[_Scope] | None = None
    instrumentation_library_metrics: list[_Scope] | None = None


class _Document(Struct, rename="camel"):
    resource_metrics: list[_ResourceMetrics]


class DataPoint(NamedTuple):
    """A data point, with its metric and labels."""

    name: str
    unit: str
    labels: dict[str, str]
    is_delta: bool
    data: _Point


def parse_otlp(source: Source, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in the documents; a position is the number of the data point in its document, from 1.

    `source`: one document, or one in each line. `origin`: what counts for metrics that do not say where they are from.
    `ts`: when they came, in seconds since the epoch, for points without a time.
    """
    for document in json_documents(source, _Document, _in_camel_case):
        if isinstance(document, Rejected):
            yield document
        else:
            yield from as_items(_results(document[1], origin, ts))


def _in_camel_case(document: bytes) -> bytes:
    """Return a document with the names of fields as OTLP has them: some programs write them with underscores.

    >>> _in_camel_case(b'{"resource_metrics": [{"key": "client_id"}]}')
    b'{"resourceMetrics": [{"key": "client_id"}]}'
    """
    if b'"resource_metrics"' not in document:
        return document
    return _SNAKE.sub(lambda name: _HUMP.sub(lambda hump: hump[1].upper(), name[0]), document)


def _results(document: _Document, origin: Origin, ts: float | None) -> Iterator[tuple[int, str, Parsed, object]]:
    for number, point in enumerate(_points(document), start=1):
        result = DropReason.OTHER_METRIC if point is None else _result(point, origin, ts)
        yield number, f"data point {number}", result, point


def _result(point: DataPoint, origin: Origin, ts: float | None) -> Parsed:
    measure = read_metric(point.name, point.labels, origin)
    data = point.data
    time = _time(data.time_unix_nano, ts)
    is_unrecorded = isinstance(data.flags, int) and data.flags & _NO_RECORDED_VALUE
    raw = None if is_unrecorded else data.as_int if data.as_double is None else data.as_double
    if isinstance(measure, Measure):
        if measure.series.attribute is Attribute.TOTAL and point.is_delta:
            return time if isinstance(time, str) else _rate(measure, data, time, raw)
        if measure.factor == 1:
            is_time = measure.series.attribute is Attribute.THROTTLE_TIME
            factors, unit = (TIME_UNITS, point.unit) if is_time else (UCUM_SIZES, point.unit.removesuffix("/s"))
            measure = measure._replace(factor=factors.get(unit, 1.0))
    return make_sample(measure, time, raw)


def _rate(measure: Measure, data: _Point, time: float, raw: object) -> Parsed:
    """Return the rate over the interval of a point that counts from its start."""
    start = _time(data.start_time_unix_nano, None)
    if isinstance(start, str) or start >= time:
        return "it counts an interval, but the interval has no start before its end"
    series = measure.series._replace(attribute=Attribute.RATE)
    return make_sample(Measure(series, measure.factor / (time - start), time - start), time, raw)


def _time(raw: object, ts: float | None) -> float | str:
    if raw is None or raw in ("", "0", 0):
        return "it has no time; say when it came" if ts is None else ts
    nanoseconds = read_number(raw)
    return read_time(nanoseconds / 1e9 if nanoseconds is not None else raw)


def _points(document: _Document) -> Iterator[DataPoint | None]:
    """Yield the data points of a document; `None` for those that are of no rate."""
    for resource_metrics in document.resource_metrics:
        resource = _attributes(resource_metrics.resource.attributes if resource_metrics.resource else None)
        scopes = resource_metrics.scope_metrics or resource_metrics.instrumentation_library_metrics
        for metric in (metric for scope in scopes or () for metric in scope.metrics or ()):
            for other in (metric.histogram, metric.exponential_histogram, metric.summary):
                yield from (None for _ in (other and other.data_points) or ())
            for data in filter(None, (metric.gauge, metric.sum)):
                is_delta = data.aggregation_temporality in _DELTA
                for point in data.data_points or ():
                    labels = resource | _attributes(point.attributes)
                    yield DataPoint(metric.name or "", metric.unit or "", labels, is_delta, point)


def _attributes(attributes: list[_Attribute] | None) -> dict[str, str]:
    """Return attributes with a simple value, as text."""
    found = {}
    for attribute in attributes or ():
        for kind, value in (attribute.value or {}).items():
            if kind in ("stringValue", "intValue", "doubleValue", "boolValue") and isinstance(value, str | int | float):
                found[attribute.key or ""] = str(value)
    return found
