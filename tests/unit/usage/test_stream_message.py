"""One record of a topic, parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from quotaform.usage.format import FORMATS
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import DropReason, Item
from quotaform.usage.stream.message import Message, parse_message

AT = 1_790_000_000_123_456
RATE = 'kafka_server_quota_byte_rate{quota_type="Produce",user="a%3Db"} 5'
TIME = 'kafka_server_quota_throttle_time{quota_type="Produce",user="a%3Db"} 7'


def parse(*lines: str, at: int = AT) -> Message:
    return parse_message("\n".join(lines).encode(), at, "exposition", Origin("prod", "b1"))


def dropped(message: Message) -> dict[DropReason, int]:
    return {reason: count for reason, count in zip(DropReason, message.dropped, strict=True) if count}


def test_rate_and_throttle_time_are_a_row_of_two_samples_at_the_time_of_the_record() -> None:
    message = parse(RATE, TIME)
    assert message.rows == [(AT, 11.5, "prod", "b1", "producer_byte_rate", "a=b", None, None, 5.0, 7.0, None)]
    assert (message.samples, message.newest, dropped(message)) == (2, AT, {})


def test_two_clients_of_one_name_are_two_rows_of_one_time() -> None:
    names = ("h1", "h2", "h2")
    message = parse(
        *(f'kafka_producer_outgoing_byte_rate{{client_id="app",client_instance_id="{name}"}} 5' for name in names)
    )
    assert [(row[3], row[8], row[10]) for row in message.rows] == [(None, 5.0, "h1"), (None, 5.0, "h2")]
    assert (message.samples, dropped(message)) == (2, {DropReason.DUPLICATE: 1})


def test_one_line_of_each_kind_is_counted_once() -> None:
    message = parse(RATE, RATE, TIME.replace(" 7", " NaN"), "other 1", "{", TIME)
    assert message.samples == 2
    assert dropped(message) == {DropReason.NAN: 1, DropReason.OTHER_METRIC: 1, DropReason.DUPLICATE: 1}
    [(reason, record)] = message.rejected
    assert reason.startswith("line 5: ")
    assert record == "{"


def test_a_page_without_times_says_another_thing_at_another_time() -> None:
    assert parse(RATE).message_id == parse(RATE).message_id
    assert parse(RATE).message_id != parse(RATE, at=AT + 1).message_id


def test_a_page_with_times_says_the_same_whenever_it_is_sent() -> None:
    timed = f"{RATE} 1790000000500"
    assert parse(timed).message_id == parse(timed, at=AT + 1).message_id
    assert parse(timed).newest == 1_790_000_000_500_000


def test_a_record_without_a_value_is_one_that_cannot_be_read() -> None:
    message = parse_message(None, AT, "exposition", Origin())
    assert message.rejected == [("the record has no value", "")]
    assert (message.rows, message.newest) == ([], None)


def test_samples_without_a_cluster_are_one_record_with_the_remedy() -> None:
    message = parse_message(f"{RATE}\n{TIME}".encode(), AT, "exposition", Origin())
    [(reason, record)] = message.rejected
    assert reason.startswith("2 samples: no label of the metrics names the cluster; give --cluster NAME")
    assert record.startswith("kafka_server_quota_byte_rate")
    assert (message.rows, message.samples) == ([], 0)


def test_a_mistake_of_a_parser_does_not_stop_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[Item]:
        raise KeyError("secret")

    monkeypatch.setitem(cast("dict[str, object]", FORMATS), "exposition", fails)
    assert parse(RATE).rejected == [("internal error: KeyError; please report it with the record", RATE)]


def test_names_that_utf_8_cannot_hold_are_escaped() -> None:
    value = b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "\\ud800"}]}]}], "\\ud800": "'
    [(reason, record)] = parse_message(value, AT, "otlp", Origin("prod")).rejected
    assert f"{reason}{record}".encode()


def test_bytes_that_are_no_text_are_one_record_that_cannot_be_read() -> None:
    [(_, record)] = parse_message(b"\xff\xfe" * 1000, AT, "prometheus", Origin()).rejected
    assert len(record) <= 200
