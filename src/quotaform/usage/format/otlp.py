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

from quotaform.model.text import quote
from quotaform.usage.format.text import (
    Result,
    Source,
    as_items,
    json_documents,
    make_sample,
    read_number,
    read_time,
    spell_record,
)
from quotaform.usage.metric import Measure, read_known_metric
from quotaform.usage.metric_name import TIME_UNITS, UCUM_SIZES, Origin
from quotaform.usage.sample import Attribute, DropReason, Item, Rejected, reject

_DELTA: Final = (1, "AGGREGATION_TEMPORALITY_DELTA")
_NO_RECORDED_VALUE: Final = 1
_UNDERSCORE: Final = regex(r"_([a-z])")
_OTHER_KINDS: Final = ("histogram", "exponentialHistogram", "summary")


class Point(NamedTuple):
    """A data point with what it is of."""

    name: str
    unit: str
    labels: dict[str, str]
    is_delta: bool
    data: dict[str, Any]


def parse_otlp(source: Source, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in the documents; a position is the number of the data point in its document, from 1.

    `source`: one document, or one in each line. `origin`: what counts for metrics that do not say where they are from.
    `ts`: when they came, in seconds since the epoch, for points without a time.
    """
    for document in json_documents(source, object):
        if isinstance(document, Rejected):
            yield document
            continue
        line, metrics = document
        metrics = _camel(metrics) if isinstance(metrics, dict) else metrics
        if not isinstance(metrics, dict) or not isinstance(metrics.get("resourceMetrics"), list):
            reason = f"line {line}: not metrics of OpenTelemetry: it has no resourceMetrics"
            yield reject(line, reason, spell_record(metrics))
            continue
        yield from as_items(_results(metrics, origin, ts))


def _results(document: dict[str, Any], origin: Origin, ts: float | None) -> Iterator[tuple[int, str, Result, object]]:
    number = 0
    try:
        for number, point in enumerate(_points(document), start=1):
            result = point if isinstance(point, DropReason) else _result(point, origin, ts)
            yield number, f"data point {number}", result, point
    except _FormError as error:
        place = f"the document is not OTLP after data point {number}"
        yield number + 1, place, quote(str(error), 100), document


def _result(point: Point, origin: Origin, ts: float | None) -> Result:
    measure = read_known_metric(point.name, point.labels, origin)
    time = _time(point.data.get("timeUnixNano"), ts)
    raw = None if _is_unrecorded(point.data) else point.data.get("asDouble", point.data.get("asInt"))
    if isinstance(measure, Measure):
        if measure.series.attribute is Attribute.TOTAL and point.is_delta:
            return time if isinstance(time, str) else _rate(measure, point.data, time, raw)
        if measure.factor == 1:
            is_time = measure.series.attribute is Attribute.THROTTLE_TIME
            factors, unit = (TIME_UNITS, point.unit) if is_time else (UCUM_SIZES, point.unit.removesuffix("/s"))
            measure = measure._replace(factor=factors.get(unit, 1.0))
    return make_sample(measure, time, raw)


def _rate(measure: Measure, data: dict[str, Any], time: float, raw: object) -> Result:
    """Return the rate over the interval of a point that counts from its start."""
    start = _time(data.get("startTimeUnixNano"), None)
    if isinstance(start, str) or start >= time:
        return "it counts an interval, but the interval has no start before its end"
    series = measure.series._replace(attribute=Attribute.RATE)
    return make_sample(Measure(series, measure.factor / (time - start), time - start), time, raw)


def _time(raw: object, ts: float | None) -> float | str:
    if raw is None or raw in ("", "0", 0):
        return "it has no time; say when it came" if ts is None else ts
    nanoseconds = read_number(raw)
    return read_time(nanoseconds / 1e9 if nanoseconds is not None else raw)


def _points(document: dict[str, Any]) -> Iterator[Point | DropReason]:
    """Yield the data points of a document, as a reason those that are of no rate.

    Raises `_FormError` if a part of it has another form.
    """
    for resource_metrics in _dicts(document.get("resourceMetrics")):
        resource = _attributes(_dict(resource_metrics.get("resource")).get("attributes"))
        scopes = resource_metrics.get("scopeMetrics", resource_metrics.get("instrumentationLibraryMetrics"))
        for scope in _dicts(scopes):
            for metric in _dicts(scope.get("metrics")):
                yield from _of_metric(metric, resource)


def _of_metric(metric: dict[str, Any], resource: dict[str, str]) -> Iterator[Point | DropReason]:
    for kind in _OTHER_KINDS:
        yield from (DropReason.OTHER_METRIC for _ in _dicts(_dict(metric.get(kind)).get("dataPoints")))
    for kind in ("gauge", "sum"):
        data = _dict(metric.get(kind))
        is_delta = data.get("aggregationTemporality") in _DELTA
        for point in _dicts(data.get("dataPoints")):
            labels = resource | _attributes(point.get("attributes"))
            yield Point(_text(metric.get("name")), _text(metric.get("unit")), labels, is_delta, point)


def _is_unrecorded(data: dict[str, Any]) -> bool:
    """Whether a point says that there is no value, as a Prometheus does of a series that ended."""
    flags = data.get("flags")
    return isinstance(flags, int) and flags & _NO_RECORDED_VALUE != 0


def _attributes(attributes: object) -> dict[str, str]:
    """Return attributes with a simple value, as text.

    >>> _attributes([{"key": "client_id", "value": {"stringValue": "app"}}, {"key": "n", "value": {"intValue": "7"}}])
    {'client_id': 'app', 'n': '7'}
    """
    found = {}
    for attribute in _dicts(attributes):
        text = attribute.get("value")
        if type(text) is dict and len(text) == 1 and type(text := text.get("stringValue")) is str:
            # Nearly all of them.
            found[_text(attribute.get("key"))] = text
            continue
        for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
            value = _dict(attribute.get("value")).get(kind)
            if isinstance(value, (str, int, float)):
                found[_text(attribute.get("key"))] = str(value)
    return found


def _camel(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the names of fields as OTLP has them: some programs write them with underscores.

    >>> _camel({"resource_metrics": []})
    {'resourceMetrics': []}
    """
    return {_UNDERSCORE.sub(lambda found: found[1].upper(), name): value for name, value in document.items()}


class _FormError(ValueError):
    """A part of a document has another form than OTLP has."""


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list, which may be absent."""
    if value is not None and not isinstance(value, list):
        raise _FormError(f"not a list: {spell_record(value)[:80]}")
    yield from map(_dict, value or ())


def _dict(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _FormError(f"not an object: {spell_record(value)[:80]}")
    return _camel(value) if "_" in "".join(value) else value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
