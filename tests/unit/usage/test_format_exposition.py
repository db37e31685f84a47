"""Pages of metrics, as exporters serve them."""

from __future__ import annotations

import pytest

from quotaform.core.usage.format.exposition import parse_exposition
from quotaform.core.usage.sample.sample import DropReason, Item, Sample
from quotaform.core.usage.sample.series import Attribute

from .recorded import DATA, ORIGIN, TS, dropped, reasons, samples, series, values


def parse(text: str, ts: float | None = TS) -> list[Item]:
    return list(parse_exposition(text, ORIGIN, ts))


def test_a_page_of_a_real_broker_is_read() -> None:
    items = list(parse_exposition((DATA / "exposition.txt").read_bytes(), ORIGIN, TS))
    assert Sample(series(user="alice", client_id="x"), TS, 55300.99502487562, 11.5) in items
    tenant = series(user="CN=tenant a,O=Tenants", attribute=Attribute.THROTTLE_TIME)
    assert Sample(tenant, TS, 380.4035087719298, 11.5) in items
    assert len(samples(items)) == 10
    assert dropped(items) == {DropReason.OTHER_ATTRIBUTE: 5, DropReason.NAN: 6}
    assert reasons(items) == []


@pytest.mark.parametrize(
    ("text", "client_id"),
    [
        ("x", "x"),
        (r"a\\b", r"a\b"),
        (r"\"a, b} # 5\"", "a, b} # 5"),
        (r"\"a\\\"b\"", 'a"b'),
        ("{x} 7", "{x} 7"),
    ],
)
def test_the_value_of_a_label_is_unescaped_and_unquoted(text: str, client_id: str) -> None:
    items = parse(f'kafka_server_Fetch_byte_rate{{client_id="{text}",}} 1')
    assert [item.series.client_id for item in samples(items)] == [client_id]


@pytest.mark.parametrize(
    ("end", "ts"),
    [("", TS), (" 1763676000000", 1763676000.0), (" 1763676000.5", 1763676000.5), (' # {trace_id="x"} 1 2', TS)],
)
def test_a_line_may_have_its_own_time(end: str, ts: float) -> None:
    assert values(parse(f'kafka_server_Fetch_byte_rate{{user="a"}} 2.5{end}')) == [(ts, 2.5)]


def test_a_quoted_name_of_openmetrics_is_read() -> None:
    items = parse('{"kafka.server.produce.byte.rate",user="a"} 4\n# EOF\n')
    assert [item.series for item in samples(items)] == [series(user="a")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('kafka_server_Fetch_byte_rate{user="a"}', "line 2: not a metric with a value, or cut"),
        ('kafka_server_Fetch_byte_rate{user="a', "line 2: not a metric with a value, or cut"),
        ('kafka_server_Fetch_byte_rate{user="a"} x', 'line 2: "x" is not a number'),
        ('kafka_server_Fetch_byte_rate{user="a"} -3', "line 2: the value is -3; a rate is never negative"),
        ('kafka_server_Fetch_byte_rate{user="a" 5="b"} 1', "line 2: its labels can't be read"),
        ("<html>", "line 2: not a metric with a value, or cut"),
    ],
)
def test_a_line_that_cannot_be_read_is_rejected_alone(line: str, reason: str) -> None:
    items = parse(f'\n{line}\nkafka_server_Fetch_byte_rate{{user="b"}} 1\n')
    assert reasons(items) == [reason]
    assert values(items) == [(TS, 1.0)]


def test_a_page_without_times_needs_the_time_of_reading() -> None:
    items = parse('kafka_server_Fetch_byte_rate{user="b"} 1\njvm_threads 5', ts=None)
    assert reasons(items) == ["line 1: the page has no times; say when it was read"]
    assert dropped(items) == {DropReason.OTHER_METRIC: 1}


def test_the_same_names_on_another_cluster_are_another_series() -> None:
    line = 'kafka_server_Fetch_byte_rate{user="b"} 1'
    other = type(ORIGIN)("test", "2")
    assert [item.series[:2] for item in samples(parse_exposition(line, other, TS))] == [("test", "2")]
    assert [item.series[:2] for item in samples(parse(line))] == [("prod", "1")]


def test_a_dump_has_the_name_as_a_label() -> None:
    line = '{__name__="kafka_server_Fetch_byte_rate", instance="b1", user="a"} 4 1763676000000'
    items = parse(f"{line}\n", ts=None)
    assert [(item.series, item.ts) for item in samples(items)] == [
        (series("consumer_byte_rate", user="a", broker="b1"), 1763676000.0)
    ]
