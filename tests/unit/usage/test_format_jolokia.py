"""Answers of Jolokia."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest

from quotaform.core.usage.format.jolokia import parse_jolokia
from quotaform.core.usage.sample.sample import DropReason, Item, Rejected, Sample
from quotaform.core.usage.sample.series import Attribute

from .recorded import ORIGIN, TS, dropped, reasons, samples, series, values

MBEAN = "kafka.server:type=Produce,user=CN%3Da"
RATE = {"byte-rate": 5.5}


def answer(value: Any, mbean: str = "kafka.server:type=Produce,*", **request: Any) -> dict[str, Any]:
    return {"request": {"type": "read", "mbean": mbean, **request}, "value": value, "timestamp": int(TS), "status": 200}


def parse(document: Any, ts: float | None = None) -> list[Item]:
    return list(parse_jolokia(dumps(document), ORIGIN, ts))


@pytest.mark.parametrize(
    "document",
    [
        answer({MBEAN: RATE}),
        answer({MBEAN: RATE}, attribute=["byte-rate"]),
        answer({MBEAN: 5.5}, attribute="byte-rate"),
        answer(RATE, mbean=MBEAN),
        answer(5.5, mbean=MBEAN, attribute="byte-rate"),
        answer("5.5", mbean=MBEAN, attribute="byte-rate"),
        [answer({MBEAN: RATE})],
        {"value": {MBEAN: RATE}, "timestamp": int(TS * 1000)},
    ],
)
def test_a_value_goes_by_the_request(document: Any) -> None:
    assert parse(document) == [Sample(series(user="CN=a"), TS, 5.5, 11.5)]


def test_a_bulk_read_and_polls_hold_many_answers() -> None:
    bulk = [answer({MBEAN: {**RATE, "throttle-time": 7}}), answer({MBEAN.replace("Produce", "Fetch"): RATE})]
    items = list(parse_jolokia("\n".join([dumps(bulk), dumps(bulk)]).encode(), ORIGIN))
    assert [item.series for item in samples(items)] == 2 * [
        series(user="CN=a"),
        series(user="CN=a", attribute=Attribute.THROTTLE_TIME),
        series("consumer_byte_rate", user="CN=a"),
    ]


@pytest.mark.parametrize("nothing", [None, "NaN"])
def test_nan_is_dropped_however_jolokia_writes_it(nothing: str | None) -> None:
    items = parse(answer({MBEAN: {"throttle-time": nothing, "queue-size": 1}}))
    assert dropped(items) == {DropReason.NAN: 1, DropReason.OTHER_ATTRIBUTE: 1}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"status": 403, "error": "java.lang.SecurityException : no"},
         'answer 1: Jolokia answered with status "403": "java.lang.SecurityException : no"'),
        ({"status": 400, "error": "java.lang.NumberFormatException"}, "answer 1: Jolokia answered with status "
         '"400": "java.lang.NumberFormatException"; this version of Jolokia cannot answer NaN: update it'),
        ({"request": {"type": "list"}, "value": {}, "status": 200}, 'answer 1: an answer to "list", not to read'),
        ({"status": 200}, "answer 1: not an answer of Jolokia: it has no value"),
        ({"value": 5, "status": 200}, "answer 1: the answer does not say which MBean was read"),
        (7, "answer 1: not an answer of Jolokia"),
        ({"value": {MBEAN: RATE}}, "answer 1: the answer has no time; say when it came"),
        ({"value": {MBEAN: RATE}, "timestamp": "x"}, 'answer 1: "x" is not a time in seconds since 1970'),
        (answer({MBEAN: {"byte-rate": {"a": 1}}}), 'answer 1: "byte-rate": an object is not a number'),
        (answer({MBEAN: {"byte-rate": -1}}), 'answer 1: "byte-rate": the value is -1; a rate is never negative'),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_rejected(document: Any, reason: str) -> None:
    assert reasons(parse(document)) == [reason]


@pytest.mark.parametrize(
    "error",
    [
        {"status": 404, "error_type": "javax.management.InstanceNotFoundException", "error": "No MBean"},
        {
            "status": 400,
            "error_type": "x",
            "error": "x : No matching attributes [a] found on MBeans [kafka.server:type=Fetch]",
        },
    ],
)
def test_a_pattern_without_mbeans_is_counted_as_a_missing_value(error: dict[str, Any]) -> None:
    assert dropped(parse([error, answer({MBEAN: RATE})])) == {DropReason.MISSING: 1}


def test_one_failed_read_does_not_hide_the_others_of_a_bulk_read() -> None:
    items = parse([{"status": 500, "error": "x"}, answer({MBEAN: RATE})])
    assert values(items) == [(TS, 5.5)]
    assert [item.position for item in items if isinstance(item, Rejected)] == [1]


def test_an_answer_without_a_time_has_the_time_at_which_it_came() -> None:
    assert values(parse({"value": {MBEAN: RATE}}, ts=TS)) == [(TS, 5.5)]


def test_a_pattern_of_which_there_is_no_mbean_is_counted() -> None:
    """Jolokia 1 answers with nothing, which was not counted at all."""
    assert dropped(parse(answer({}))) == {DropReason.MISSING: 1}
