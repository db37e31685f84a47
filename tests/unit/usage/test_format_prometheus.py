"""Answers of Prometheus' HTTP API."""

from __future__ import annotations

from json import dumps
from typing import Any

import pytest

from quotaform.core.usage.format.prometheus import parse_prometheus
from quotaform.core.usage.sample.sample import DropReason, Item, Rejected, Sample

from .recorded import ORIGIN, TS, dropped, reasons, series, values

LABELS = {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": "alice"}
SERIES = {"metric": LABELS, "values": [[TS, "1.5"], [TS + 60, "2"]]}


def parse(document: Any) -> list[Item]:
    return list(parse_prometheus(dumps(document), ORIGIN))


@pytest.mark.parametrize(
    "document",
    [
        {"status": "success", "data": {"resultType": "matrix", "result": [SERIES]}},
        {"resultType": "matrix", "result": [SERIES]},
        {"result": [SERIES]},
        [SERIES],
        SERIES,
    ],
)
def test_every_part_of_an_answer_is_a_document(document: Any) -> None:
    assert parse(document) == [
        Sample(series(user="alice"), TS, 1.5, 11.5),
        Sample(series(user="alice"), TS + 60, 2.0, 11.5),
    ]


def test_an_instant_query_has_one_value_per_series() -> None:
    answer = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": LABELS, "value": [TS, "3"]}]}}
    assert values(parse(answer)) == [(TS, 3.0)]


def test_answers_may_follow_one_another_and_a_broken_one_does_not_hide_the_next() -> None:
    lines = [dumps([SERIES]), dumps([SERIES])[:-5], dumps([SERIES])]
    items = list(parse_prometheus("\n".join(lines).encode(), ORIGIN))
    assert len(values(items)) == 4
    assert [(item.position, item.reason[:6]) for item in items if isinstance(item, Rejected)] == [(2, "line 2")]


def test_values_that_are_no_rates_are_counted_or_rejected() -> None:
    pairs = [[TS, "NaN"], [TS, "-1"], [TS, "+Inf"], [TS, "x"], [TS, ""], ["x", "1"], [TS * 1000, "1"], [TS], 7, [TS, 5]]
    items = parse([{"metric": LABELS, "values": pairs}])
    assert values(items) == [(TS, 5.0)]
    assert dropped(items) == {DropReason.NAN: 1, DropReason.MISSING: 1}
    assert reasons(items) == [
        "series 1, sample 2: the value is -1; a rate is never negative",
        "series 1, sample 3: the value is infinite; a rate never is",
        'series 1, sample 4: "x" is not a number',
        'series 1, sample 6: "x" is not a time in seconds since 1970',
        'series 1, sample 7: "1763676256000.0" is not a time in seconds since 1970',
        "series 1, sample 8: not a pair of time and value",
        "series 1, sample 9: not a pair of time and value",
    ]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"status": "error", "error": "timed out"}, 'line 1: Prometheus answered with an error: "timed out"'),
        ({"resultType": "scalar", "result": [TS, "1"]}, "line 1: the result is a scalar, not series; query a metric"),
        ({"a": 1}, "line 1: not an answer of Prometheus: it has no result"),
        (7, "line 1: not an answer of Prometheus: it has no result"),
        ([7], "series 1: no series: it has no labels in metric"),
        ([{"metric": {"user": 7}}], "series 1: no series: it has no labels in metric"),
        ([{"metric": LABELS, "values": 7}], "series 1: values is not a list"),
        ([{**SERIES, "metric": {"user": "alice"}}],
         "series 1 of 2 samples: it has no name, as a function in a query takes it away; query the metric itself"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_one_rejected_record(document: Any, reason: str) -> None:
    assert reasons(parse(document)) == [reason]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x1f\x8b\x08", "the document is compressed by gzip; its name has to end in .gz"),
        (b"[" * 100_000, "line 1: the document is nested too deeply"),
        (b'[{"metric": {"a": "b', "line 1, byte 18: not JSON, or cut: a string has no closing quotation mark"),
        (b"[1" + b"0" * 5000 + b"]", "line 1, byte 0: not JSON, or cut: a number is too long"),
    ],
)
def test_a_broken_document_is_one_rejected_record(data: bytes, reason: str) -> None:
    assert reasons(parse_prometheus(data, ORIGIN)) == [reason]


def test_a_byte_that_is_not_utf8_spoils_one_series() -> None:
    other = {"metric": {**LABELS, "user": "BAD"}, "value": [TS, "1"]}
    items = list(parse_prometheus(dumps([other, SERIES]).encode().replace(b"BAD", b"\xff"), ORIGIN))
    assert reasons(items) == ["series 1 of 1 sample: a name is not UTF-8"]
    assert len(values(items)) == 2
    assert all(item.record.encode() for item in items if isinstance(item, Rejected))


def test_an_export_of_victoriametrics_has_lists_of_values_and_times() -> None:
    line = {"metric": LABELS, "values": [1.5, None, 2], "timestamps": [TS * 1000, TS * 1000 + 1, TS * 1000 + 60_000]}
    items = list(parse_prometheus(f"{dumps(line)}\n{dumps(line)}\n", ORIGIN))
    assert values(items) == 2 * [(TS, 1.5), (TS + 60, 2.0)]
    assert dropped(items) == {DropReason.NAN: 2}
    cut = {**line, "timestamps": [TS * 1000]}
    assert reasons(parse(cut)) == ["series 1: values and timestamps are not lists of one length, as there are 3 values"]


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "1e400", "NaN", "Infinity", "0", "253402300800000"])
def test_a_time_that_is_none_is_one_rejected_sample(number: str) -> None:
    """A time of 400 digits in an export of VictoriaMetrics ended a whole `usage ingest`."""
    export = dumps({"metric": LABELS, "values": [1, 2], "timestamps": [TS * 1000, TS * 1000 + 1]})
    items = list(parse_prometheus(export.replace(f"[{TS * 1000},", f"[{number},"), ORIGIN))
    assert len(values(items)) == 1
    (reason,) = reasons(items)
    assert reason.startswith("series 1, sample 1: ")
    assert reason.endswith(" is not a time in seconds since 1970")


@pytest.mark.parametrize("number", ["1e100", "9" * 101, "1e308"])
def test_a_value_beyond_all_use_is_rejected(number: str) -> None:
    """Rates and sums that follow from such values were infinite."""
    items = parse({**SERIES, "values": [[TS, number], [TS + 60, "1e99"]]})
    assert values(items) == [(TS + 60, 1e99)]
    (reason,) = reasons(items)
    assert reason.endswith("is not below the limit of 1e100")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"warnings": ["store x is down"]}, 'Prometheus warns that samples may be missing: "store x is down"'),
        ({"isPartial": True}, "the answer is partial, as some of the servers behind it did not answer"),
        ({"status": "error", "error": "timed out"},
         'Prometheus answered with an error, and a part of the series: "timed out"'),
    ],
)  # fmt: skip
def test_an_answer_that_may_not_be_whole_is_read_and_said_to_be_so(more: dict[str, Any], problem: str) -> None:
    """Warnings and partial answers were taken for whole ones."""
    items = parse({"status": "success", "data": {"resultType": "matrix", "result": [SERIES]}, "infos": ["x"], **more})
    assert values(items) == [(TS, 1.5), (TS + 60, 2.0)]
    (reason,) = reasons(items)
    assert problem in reason


@pytest.mark.parametrize(
    ("histograms", "count"), [({"histograms": [[TS, {}], [TS + 1, {}]]}, 2), ({"histogram": [TS, {}]}, 1)]
)
def test_histograms_are_counted(histograms: dict[str, Any], count: int) -> None:
    """Series of native histograms were not counted at all."""
    items = parse([{"metric": LABELS, **histograms}])
    assert dropped(items) == {DropReason.OTHER_METRIC: count}
    assert len(items) == 1
