"""Laws of `usage ingest`: what is fast reads and merges what the slow definition does, and nothing is lost."""

from __future__ import annotations

import json
import re
from collections import Counter
from io import BytesIO
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy
import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from quotaform.usage.format.prometheus import parse_element
from quotaform.usage.format.table import TableMapping, parse_rows
from quotaform.usage.ingest import document as part_module
from quotaform.usage.ingest.document import Part, add_element, elements, lines
from quotaform.usage.ingest.rows import ParsedRows, _merged
from quotaform.usage.ingest.table_rows import Reader, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Dropped, DropReason, Rejected, Sample, Series, merge

PIECES = (b'{"metric":{"a":"b"}}', b",", b"x\n", b'{"metric" : {1', b"{", b'{"met', b'{"metric":"a"')
SERIES = Series("prod", "1", "producer_byte_rate", "alice", None, None, Attribute.RATE)
NAMES = ("alice", "bob")

samples = st.builds(
    lambda name, attribute, ts, value, window: Sample(
        SERIES._replace(user=name, attribute=attribute), float(ts), float(value), float(window)
    ),
    st.sampled_from(NAMES),
    st.sampled_from(list(Attribute)),
    st.integers(1, 6),
    st.integers(0, 3),
    st.just(10),
)
numbers = st.one_of(
    st.floats(0, 1e9).map(str),
    st.integers(0, 10**12).map(str),
    st.sampled_from(["NaN", "+Inf", "-1", "1e3", "0", "-0", "", "1_0", "0x1", "1 2", "x", "1.5e-7"]),
)


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.lists(st.integers(0, 100), max_size=3), st.integers(1, 9))
def test_every_part_of_a_file_is_in_one_range(pieces: list[bytes], cuts: list[int], block: int) -> None:
    data = b"".join(pieces)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found_elements: list[Part] = []
    found_lines: list[Part] = []
    with mock.patch.object(part_module, "_BLOCK", block), mock.patch.object(part_module, "_LONGEST_START", 16):
        for start, end in pairwise(places):
            found_elements += elements(BytesIO(data[start:]).read, start, end)
            found_lines += lines(BytesIO(data[max(0, start - 1) :]).read, start, end)
    begins = [match.start() for match in re.finditer(rb'\{"metric" ?: ?\{', data)]
    bounds = sorted({0, *begins, len(data)})
    assert [each.data for each in found_elements] == [data[one:two] for one, two in pairwise(bounds)]
    assert [each.position for each in found_elements if not each.is_head] == begins
    assert [each.is_last for each in found_elements] == [False] * (len(found_elements) - 1) + [True] * bool(data)
    assert [each.data for each in found_lines] == data.splitlines(keepends=True)
    assert all(data[each.position :].startswith(each.data) for each in found_elements + found_lines)


@given(st.lists(samples, max_size=12), st.integers(1, 3))
def test_samples_of_a_file_are_merged_series_by_series(found: list[Sample], size: int) -> None:
    rows, dropped = [], Counter[str]()
    for name in NAMES:
        of_name, left_out = merge(each for each in found if each.series.user == name)
        rows += [(name, *row) for row in of_name]
        dropped.update({each.reason.value: each.samples for each in left_out})
    parsed = ParsedRows()
    parsed.add_items(found, "f")
    parts = [row for batch in parsed.rest() for row in batch.to_pylist() if row["ts"]]
    parts.sort(key=lambda row: row["user"])
    batches = [pyarrow.RecordBatch.from_pylist(parts[at : at + size]) for at in range(0, len(parts), size)]
    merged = [row for batch in _merged(iter(batches)) for row in batch.to_pylist()]
    points = [(row["user"], point) for row in merged if row["points"] for point in row["points"]]
    assert [
        (name, each["ts"] / 1_000_000, each["window_s"], each["rate"], each["throttle_ms"]) for name, each in points
    ] == rows
    assert {row["dropped"]: row["samples"] for row in merged if row["dropped"]} == dropped


@given(
    st.lists(st.tuples(st.integers(1_700_000_000, 1_800_000_000) | st.just(-1), numbers), max_size=5),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.sampled_from([",", " ,\n", "", "]}}", ",,"]),
)
def test_an_element_is_read_as_the_definition_reads_it(
    values: list[tuple[int, str]], indent: int | None, is_last: bool, behind: str
) -> None:
    labels = {"__name__": "kafka_server_quota_byte_rate", "quota_type": "Produce", "user": 'a"},"values":[', "x": "]]}"}
    element = {"metric": labels, "values": [[ts, value] for ts, value in values]}
    data = (json.dumps(element, indent=indent) + behind).encode()
    expected = list(parse_element(element, Origin("prod"), 1))
    rows = ParsedRows()
    add_element(Part(7, data, is_last=is_last), Origin("prod"), rows, "f", head=None)
    found = [row for batch in rows.rest() for row in batch.to_pylist()]
    assert [
        (ts / 1e6, value)
        for row in found
        if row["ts"]
        for ts, value in zip(
            numpy.frombuffer(row["ts"], numpy.int64), numpy.frombuffer(row["value"], numpy.float64), strict=True
        )
    ] == [(each.ts, each.value) for each in expected if isinstance(each, Sample)]
    assert {row["dropped"]: row["samples"] for row in found if row["dropped"]} == {
        each.reason.value: each.samples for each in expected if isinstance(each, Dropped)
    }
    reasons = [row["reason"].removeprefix("series at byte 7") for row in found if row["reason"]]
    assert reasons == [each.reason.removeprefix("series 1") for each in expected if isinstance(each, Rejected)]


MAPPING = TableMapping(columns={"ts": "t", "metric": "name", "value": "v"}, labels={"user": "user"})
READER = Reader("a table", MAPPING, Origin("prod"), ("name", "user"), ("value",), "row")
table_rows = st.lists(
    st.tuples(
        st.sampled_from(["kafka_server_produce_byte_rate", "kafka_server_produce_throttle_time", "up"]),
        st.sampled_from(["a", "%2A", None]),
        st.integers(1_700_000_000, 1_700_000_003) | st.none(),
        st.sampled_from([0.0, 1.5, float("nan"), -1.0, float("inf"), None]),
    ),
    max_size=12,
)


@given(st.lists(table_rows, max_size=3))
def test_rows_of_a_table_are_read_as_the_definition_reads_them(batches: list[list[Any]]) -> None:
    """The columns are those that Spark computes of a table."""
    cells = [dict(zip(("name", "user", "t", "v"), row, strict=True)) for batch in batches for row in batch]
    expected = Counter[Any]()
    for item in parse_rows(cells, MAPPING, Origin("prod")):
        if isinstance(item, Sample):
            expected[item.series, item.ts, item.value] += 1
        else:
            expected[item.reason if isinstance(item, Dropped) else "rejected"] += getattr(item, "samples", 1)
    found = Counter[Any]()
    for batch in parsed_batches(READER, iter([as_spark_has_it(rows) for rows in batches])):
        for row in batch.to_pylist():
            if row["ts"]:
                series = Series(*(row[name] for name in Series._fields))
                times = numpy.frombuffer(row["ts"], numpy.int64) / 1e6
                for ts, value in zip(times, numpy.frombuffer(row["value"], numpy.float64), strict=True):
                    found[series, ts, value] += 1
            elif row["dropped"]:
                found[DropReason(row["dropped"])] += row["samples"]
            elif row["reason"]:
                found["rejected"] += row["samples"]
    assert found == expected


def as_spark_has_it(rows: list[Any]) -> pyarrow.RecordBatch:
    """Return rows as `parsed_table` selects them."""
    odd = [value is not None and (value < 0 or value == float("inf")) for *_, value in rows]
    return pyarrow.record_batch(
        {
            "name_0": pyarrow.array([row[0] for row in rows], "string"),
            "name_1": pyarrow.array([row[1] for row in rows], "string"),
            "seconds": pyarrow.array([row[2] for row in rows], "double"),
            "odd_ts": pyarrow.nulls(len(rows), "string"),
            "value": pyarrow.array([row[3] for row in rows], "double"),
            "odd_value": pyarrow.array(
                [str(row[3]) if is_odd else None for row, is_odd in zip(rows, odd, strict=True)], "string"
            ),
            "file": pyarrow.nulls(len(rows), "string"),
            "position": pyarrow.nulls(len(rows), "int64"),
            "is_odd": pyarrow.array([is_odd or row[2] is None for row, is_odd in zip(rows, odd, strict=True)], "bool"),
        }
    )
