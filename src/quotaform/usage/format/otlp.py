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
from typing import Any, Final

from msgspec import Struct

from quotaform.usage.format.text import Found, Parsed, Source, TimeUnit, json_documents, make_sample, read_time
from quotaform.usage.metric import Measure, Read, read_metric
from quotaform.usage.metric_name import TIME_UNITS, UCUM_SIZES, Origin
from quotaform.usage.sample import Attribute, DropReason

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


class _Group(Struct, rename="camel"):
    """The metrics of a resource, by scope, or those of a scope."""

    resource: _Point | None = None
    scope_metrics: list[_Group] | None = None
    instrumentation_library_metrics: list[_Group] | None = None
    metrics: list[_Metric] | None = None


class _Document(Struct, rename="camel"):
    resource_metrics: list[_Group]


def parse_otlp(source: Source, origin: Origin, ts: float) -> Iterator[Found]:
    """Yield what is in the documents; a position is the number of the data point in its document, from 1.

    `source`: one document, or one in each line. `ts`: when they came, in seconds since the epoch, for points without a
    time.
    """
    for line, document, text in json_documents(source, _Document, _in_camel_case):
        if isinstance(document, str):
            yield line, f"line {line}", document, text
            continue
        for number, (result, record) in enumerate(_results(document, origin, ts), start=1):
            yield number, f"data point {number}", result, record


def _in_camel_case(document: bytes) -> bytes:
    """Return a document with the names of fields as OTLP has them: some programs write them with underscores."""
    if b'"resource_metrics"' not in document:
        return document
    return _SNAKE.sub(lambda name: _HUMP.sub(lambda hump: hump[1].upper(), name[0]), document)


def _results(document: _Document, origin: Origin, ts: float) -> Iterator[tuple[Parsed, object]]:
    """Yield what each data point says, and it with its metric."""
    for each in document.resource_metrics:
        resource = _attributes(each.resource.attributes if each.resource else None)
        scopes = each.scope_metrics or each.instrumentation_library_metrics or ()
        for metric in (metric for scope in scopes for metric in scope.metrics or ()):
            for other in filter(None, (metric.histogram, metric.exponential_histogram, metric.summary)):
                yield from ((DropReason.OTHER_METRIC, None) for _ in other.data_points or ())
            for data in filter(None, (metric.gauge, metric.sum)):
                is_delta = data.aggregation_temporality in _DELTA
                for point in data.data_points or ():
                    labels = resource | _attributes(point.attributes)
                    measure = read_metric(metric.name or "", labels, origin)
                    yield (
                        _sample(measure, metric.unit or "", point, ts, is_delta=is_delta),
                        (metric.name, labels, point),
                    )


def _sample(measure: Read, unit: str, point: _Point, ts: float, *, is_delta: bool) -> Parsed:
    has_time = point.time_unix_nano not in (None, "", "0", 0)
    time = read_time(point.time_unix_nano, TimeUnit.NS) if has_time else ts
    is_unrecorded = isinstance(point.flags, int) and point.flags & _NO_RECORDED_VALUE
    raw = None if is_unrecorded else point.as_int if point.as_double is None else point.as_double
    if isinstance(measure, Measure):
        attribute = measure.series.attribute
        if attribute is Attribute.TOTAL and is_delta:
            # It counts from its start: a rate over that interval.
            start = read_time(point.start_time_unix_nano, TimeUnit.NS)
            seconds = 0.0 if isinstance(start, str) or isinstance(time, str) else time - start
            if seconds <= 0 and not isinstance(time, str):
                return "it counts an interval, but the interval has no start before its end"
            series = measure.series._replace(attribute=Attribute.RATE)
            measure = Measure(series, measure.factor / (seconds or 1.0), seconds)
        elif measure.factor == 1:
            is_time = attribute is Attribute.THROTTLE_TIME
            factors, unit = (TIME_UNITS, unit) if is_time else (UCUM_SIZES, unit.removesuffix("/s"))
            measure = measure._replace(factor=factors.get(unit, 1.0))
    return make_sample(measure, time, raw)


def _attributes(attributes: list[_Attribute] | None) -> dict[str, str]:
    """Return attributes with a simple value, as text."""
    found = {}
    for attribute in attributes or ():
        for kind, value in (attribute.value or {}).items():
            if kind in ("stringValue", "intValue", "doubleValue", "boolValue") and isinstance(value, str | int | float):
                found[attribute.key or ""] = str(value)
    return found
