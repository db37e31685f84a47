"""A law of `usage ingest`: tasks merge samples as the merge of one series does, however they are divided."""

from __future__ import annotations

from collections import Counter

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from quotaform.usage.ingest.rows import merged_batches, parsed_batches
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
        rows += [(name, *row) for row in of_name]
        dropped.update({each.reason.name: each.samples for each in left_out})
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
