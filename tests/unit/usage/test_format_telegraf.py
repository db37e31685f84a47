"""Metrics of Telegraf."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest

from quotaform.core.usage.format.recording_format import detect_format
from quotaform.core.usage.format.telegraf import parse_telegraf
from quotaform.core.usage.sample.sample import DropReason, Item
from quotaform.core.usage.sample.series import Attribute

from .recorded import ORIGIN, TS, dropped, reasons, samples, series, values

NANOSECONDS = int(TS) * 10**9
TAGS = {"client-id": "x", "type": "Produce", "jolokia_agent_url": "http://b1:8778/jolokia", "host": "t"}
METRIC = {"name": "kafka_client", "tags": TAGS, "fields": {"byte-rate": 1.5, "throttle-time": 7}, "timestamp": TS}


def parse(text: str, ts: float | None = None) -> list[Item]:
    assert detect_format(text.encode()) == "telegraf"
    return list(parse_telegraf(text, ORIGIN, ts))


@pytest.mark.parametrize(
    "text",
    [
        "kafka_client,client-id=x,host=t,jolokia_agent_url=http://b1:8778/jolokia,type=Produce "
        f"byte-rate=1.5,throttle-time=7i {NANOSECONDS}",
        dumps(METRIC),
        dumps({"metrics": [METRIC]}),
        dumps([METRIC]),
        dumps({**METRIC, "timestamp": TS * 1000}),
    ],
)
def test_fields_are_metrics_and_tags_are_labels(text: str) -> None:
    found = samples(parse(text))
    rate = series(client_id="x", broker="b1:8778")
    assert [(each.series, each.ts, each.value) for each in found] == [
        (rate, TS, 1.5),
        (rate._replace(attribute=Attribute.THROTTLE_TIME), TS, 7.0),
    ]


@pytest.mark.parametrize(
    ("tag", "client_id"),
    [
        (r"a\,b\=c\ d", "a,b=c d"),
        (r'"a:b"', "a:b"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ("%2A", "%2A"),
        ("a=b", "a=b"),
    ],
)
def test_names_lose_the_backslashes_of_the_line_protocol(tag: str, client_id: str) -> None:
    items = parse(f"kafka_client,client-id={tag},type=Fetch byte-rate=1 {NANOSECONDS}\n")
    assert [item.series.client_id for item in samples(items)] == [client_id]


def test_each_line_is_read_on_its_own_and_each_field_is_counted() -> None:
    text = (
        "# comment\n"
        f"kafka_user,user=CN\\=a,type=Fetch byte-rate=1 {NANOSECONDS}\r\n"
        f'kafka_user,user=b,type=Fetch tokens=1i,note="a, b=c",byte-rate=2 {NANOSECONDS}\n'
        f"cpu,host=t usage=1,idle=2 {NANOSECONDS}\n"
        f"kafka_user,user=b,type=Fetch byte-rate=-1 {NANOSECONDS}\n"
        "kafka_user,user=c,type=Fetch byte-\n"
        "kafka_user,user=d,type=Fetch byte-rate=3\n"
    )
    items = parse(text)
    assert values(items) == [(TS, 1.0), (TS, 2.0)]
    assert samples(items)[0].series.user == "CN=a"
    assert dropped(items) == {DropReason.OTHER_ATTRIBUTE: 1, DropReason.OTHER_METRIC: 3}
    assert reasons(items) == [
        "line 5: the value is -1; a rate is never negative",
        "line 6: not line protocol of InfluxDB, or cut",
        "line 7: it has no time; say when it was read",
    ]
    assert values(parse(text, TS + 5))[-1] == (TS + 5, 3.0)


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ({"name": "kafka_client", "tags": TAGS, "fields": 7}, "not a metric of Telegraf: it has no fields"),
        ({"name": 7, "tags": TAGS, "fields": {}}, 'its name is "7", or a tag is no text'),
        ({**METRIC, "tags": {"type": 7}}, "or a tag is no text"),
        ({**METRIC, "fields": {"byte-rate": "much"}}, '"much" is not a number'),
        ({**METRIC, "fields": {"byte-rate": 1}, "timestamp": "soon"}, '"soon" is not a time'),
    ],
)
def test_what_is_no_metric_is_rejected(metric: Any, reason: str) -> None:
    (found,) = reasons(parse_telegraf(dumps({"metrics": [metric]}), ORIGIN))
    assert found.startswith("line 1, metric 1: ")
    assert reason in found
