"""Metrics of OpenTelemetry as JSON."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest

from quotaform.core.usage.format.otlp import parse_otlp
from quotaform.core.usage.sample.sample import DropReason, Item, Sample
from quotaform.core.usage.sample.series import Attribute

from .recorded import ORIGIN, TS, dropped, reasons, samples, series, values

PRODUCER = "org.apache.kafka.producer."


def attributes(**values: str) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


ALICE = attributes(user="alice", client_id="x")


def nanoseconds(ts: float) -> str:
    return str(int(ts * 1_000_000_000))


def point(value: Any = 5.5, ts: float = TS, **more: Any) -> dict[str, Any]:
    return {"asDouble": value, "timeUnixNano": nanoseconds(ts), "attributes": ALICE, **more}


def metric(name: str, *points: Any, kind: str = "gauge", unit: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "unit": unit, kind: {"dataPoints": list(points), **more}}


def document(*metrics: Any, **resource: str) -> dict[str, Any]:
    scope = {"scope": {"name": "x"}, "metrics": list(metrics)}
    return {"resourceMetrics": [{"resource": {"attributes": attributes(**resource)}, "scopeMetrics": [scope]}]}


def parse(*metrics: Any, ts: float | None = None, **resource: str) -> list[Item]:
    return list(parse_otlp(dumps(document(*metrics, **resource)), ORIGIN, ts))


def test_a_metric_of_a_broker_has_its_names_in_attributes() -> None:
    produce = [*ALICE, *attributes(quota_type="Produce")]
    items = parse(metric("kafka_server_quota_byte_rate", point(attributes=produce)), cluster="c", broker="b")
    assert items == [Sample(series(user="alice", client_id="x", broker="b")._replace(cluster="c"), TS, 5.5, 11.5)]


@pytest.mark.parametrize("value", [{"asDouble": 7.0}, {"asInt": "7"}, {"asInt": 7}, {"asDouble": "7"}])
def test_a_number_may_be_a_string(value: dict[str, Any]) -> None:
    data = {"timeUnixNano": nanoseconds(TS), "attributes": ALICE, **value}
    assert values(parse(metric("kafka_server_produce_byte_rate", data))) == [(TS, 7.0)]


def test_a_push_of_a_client_is_read() -> None:
    start = nanoseconds(TS - 300)
    items = parse(
        metric(f"{PRODUCER}outgoing.byte.rate", point(12.0)),
        metric(
            f"{PRODUCER}outgoing.byte.total",
            point(3000.0, startTimeUnixNano=start),
            kind="sum",
            aggregationTemporality=1,
        ),
        metric(
            f"{PRODUCER}outgoing.byte.total",
            point(9000.0, startTimeUnixNano=start),
            kind="sum",
            aggregationTemporality=2,
        ),
        metric(f"{PRODUCER}produce.throttle.time.avg", point("NaN")),
        metric(f"{PRODUCER}produce.throttle.time.avg", point(0.25), unit="s"),
        metric(f"{PRODUCER}connection.creation.total", point(1.0), kind="sum", aggregationTemporality=1),
        metric("x", {}, {}, kind="histogram"),
        client_instance_id="i",
    )
    alice = series(user="alice", client_id="x", broker=None, instance="i")
    assert samples(items) == [
        Sample(alice, TS, 12.0, 60.0),
        Sample(alice, TS, 10.0, 300.0),
        Sample(alice._replace(attribute=Attribute.TOTAL), TS, 9000.0, 0.0),
        Sample(alice._replace(attribute=Attribute.THROTTLE_TIME), TS, 250.0, 60.0),
    ]
    assert dropped(items) == {DropReason.NAN: 1, DropReason.OTHER_METRIC: 3}


def test_documents_may_follow_one_another() -> None:
    lines = [dumps(document(metric("kafka_server_produce_byte_rate", point(n)))) for n in (1, 2)]
    assert values(parse_otlp("\n".join(lines), ORIGIN)) == [(TS, 1.0), (TS, 2.0)]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (metric("kafka_server_produce_byte_rate", point(-1)),
         "data point 1: the value is -1; a rate is never negative"),
        (metric("kafka_server_produce_byte_rate", point(timeUnixNano="x")),
         'data point 1: "x" is not a time in seconds since 1970'),
        (metric("kafka_server_produce_byte_rate", point(timeUnixNano="0")),
         "data point 1: it has no time; say when it came"),
        (metric(f"{PRODUCER}outgoing.byte.total", point(1), kind="sum", aggregationTemporality=1),
         "data point 1: it counts an interval, but the interval has no start before its end"),
        (metric("kafka_server_quota_byte_rate", point()),
         "data point 1: neither the name nor a label says of which quota it is; "
         "let the rules of the exporter keep the type of the MBean in a label quota_type, "
         "or name the label with --type-label"),
        ({"name": "a", "gauge": 7}, 'the document is not OTLP after data point 0: "not an object: 7"'),
        (metric("x", 7), 'the document is not OTLP after data point 0: "not an object: 7"'),
        (metric("x", {"attributes": 7}),
         'the document is not OTLP after data point 0: "not a list: 7"'),
    ],
)  # fmt: skip
def test_a_point_that_cannot_be_read_is_rejected(broken: Any, reason: str) -> None:
    assert reasons(parse(broken)) == [reason]


@pytest.mark.parametrize("other", [7, [], {"resourceSpans": []}, {"resourceMetrics": 7}])
def test_a_document_without_metrics_is_rejected(other: Any) -> None:
    assert reasons(parse_otlp(dumps(other), ORIGIN)) == [
        "line 1: not metrics of OpenTelemetry: it has no resourceMetrics"
    ]


def test_a_point_without_a_value_is_counted() -> None:
    data = {"timeUnixNano": nanoseconds(TS), "attributes": ALICE, "flags": 1}
    assert dropped(parse(metric("kafka_server_produce_byte_rate", data))) == {DropReason.MISSING: 1}


def test_a_point_without_a_time_has_the_time_at_which_it_came() -> None:
    data = {"asDouble": 1.0, "attributes": ALICE}
    assert values(parse(metric("kafka_server_produce_byte_rate", data), ts=TS)) == [(TS, 1.0)]


def test_fields_may_have_underscores() -> None:
    """Programs that keep the names of the protocol wrote documents of which nothing was read."""
    snake = {
        "resource_metrics": [
            {
                "resource": {"attributes": [{"key": "service.instance.id", "value": {"string_value": "b1"}}]},
                "scope_metrics": [
                    {
                        "metrics": [
                            {
                                "name": "kafka_server_produce_byte_rate",
                                "gauge": {
                                    "data_points": [
                                        {
                                            "as_double": 5.5,
                                            "time_unix_nano": nanoseconds(TS),
                                            "attributes": [{"key": "user", "value": {"string_value": "alice"}}],
                                        }
                                    ]
                                },
                            }
                        ]
                    }
                ],
            }
        ]
    }
    (sample,) = samples(parse_otlp(dumps(snake), ORIGIN))
    assert (sample.series, sample.ts, sample.value) == (series(user="alice", broker="b1"), TS, 5.5)


def test_a_point_without_a_recorded_value_is_counted() -> None:
    """A series that had ended was read as one of zeros."""
    items = parse(metric("kafka_server_produce_byte_rate", point(0, flags=1), point(1, flags=2)))
    assert dropped(items) == {DropReason.MISSING: 1}
    assert values(items) == [(TS, 1.0)]


@pytest.mark.parametrize(("unit", "factor"), [("By/s", 1), ("KiBy/s", 1024), ("MBy/s", 1e6), ("", 1), ("{x}", 1)])
def test_a_rate_is_in_the_unit_beside_it(unit: str, factor: float) -> None:
    items = parse(metric("kafka_server_produce_byte_rate", point(2), unit=unit))
    assert values(items) == [(TS, 2 * factor)]
