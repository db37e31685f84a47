"""Laws of `usage ingest`: how samples are merged, and that columns of numbers are read as single rows are."""

from __future__ import annotations

from collections import Counter

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from quotaform.usage.format.table import TableMapping
from quotaform.usage.ingest.rows import TableReader, merged_batches, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Sample, Series, merge

SERIES = Series("prod", "1", "producer_byte_rate", "alice", None, None, Attribute.RATE)
NAMES = ("alice", "bob")

samples = st.builds(
    lambda name, attribute, ts, value: Sample(
        SERIES._replace(user=name, attribute=attribute), float(ts), float(value), 10.0
    ),
    st.sampled_from(NAMES),
    st.sampled_from(list(Attribute)),
    st.integers(1, 6),
    st.integers(0, 3),
)


@given(st.lists(samples, max_size=12), st.integers(1, 3))
def test_samples_of_a_file_are_merged_series_by_series(found: list[Sample], size: int) -> None:
    rows, dropped = [], Counter[str]()
    for name in NAMES:
        of_name, left_out = merge(each for each in found if each.series.user == name)
        rows += [(row.user, row.ts, row.window_s, row.rate, row.throttle_ms) for row in of_name]
        dropped.update({reason.name: count for reason, count in left_out.items()})
    parsed = [
        batch for at in range(0, len(found), size) for batch in parsed_batches(("f", s) for s in found[at : at + size])
    ]
    parts = pyarrow.Table.from_batches(parsed).sort_by("user") if parsed else None
    batches = parts.to_batches(max_chunksize=size) if parts else []
    merged = [row for batch in merged_batches(iter(batches)) for row in batch.to_pylist()]
    points = [row for row in merged if row["ts"]]
    assert [
        (row["user"], row["ts"].timestamp(), row["window_s"], row["rate"], row["throttle_ms"]) for row in points
    ] == rows
    assert sum(row["samples"] for row in merged) == len(found)
    assert {row["dropped"]: row["samples"] for row in merged if row["dropped"]} == dropped


numbers = st.one_of(st.none(), st.sampled_from([0.0, 1.5, 1.7e9, 1.7e12, 1.7e15, 1.7e18, 1e100, 1e308]), st.floats())
table = st.lists(
    st.tuples(
        numbers,
        st.sampled_from([None, "Produce", "Fetch", "connection_creation_rate", "tokens"]),
        st.sampled_from([None, "", "alice", "bob"]),
        st.sampled_from([None, "prod"]),
        numbers,
        numbers,
    ),
    min_size=1,
    max_size=8,
)
COLUMNS = ("ts", "key", "user", "cluster", "rate", "throttle_ms")


@given(table, st.sampled_from([1.0, 8.0, 1e30]))
def test_columns_of_numbers_are_read_as_rows_of_text_are(rows: list[tuple[object, ...]], factor: float) -> None:
    mapping = TableMapping(columns={name: name for name in COLUMNS}, factors={"rate": factor})
    found = []
    for is_text in (False, True):
        # A time that is text is read row by row.
        cells = [(None if ts is None else repr(ts) if is_text else ts, *others) for ts, *others in rows]
        kinds = ("string" if is_text else "double", "string", "string", "string", "double", "double")
        arrays = map(pyarrow.array, map(list, zip(*cells, strict=True)), kinds)
        place = {
            "quotaform file": pyarrow.nulls(len(rows), "string"),
            "quotaform position": pyarrow.array(range(len(rows))),
        }
        batch = pyarrow.record_batch(dict(zip(COLUMNS, arrays, strict=True)) | place)
        items = Counter[object]()
        for row in (
            row for each in TableReader("t", mapping, Origin(), "row").parsed(iter([batch])) for row in each.to_pylist()
        ):
            ts, value, dropped = row.pop("ts"), row.pop("value"), row["dropped"]
            if ts is not None:
                items.update((*row.values(), *sample) for sample in zip(ts, value, strict=True))
            elif dropped is not None:
                items[dropped] += row["samples"]
            else:
                items[row["position"], row["reason"].partition('"')[0]] += 1
        found.append(+items)
    assert found[0] == found[1]
