"""The counts of a stream."""

from __future__ import annotations

import pytest

from quotaform.usage.ingest.ingest import StreamCounts
from quotaform.usage.sample import DropReason


def test_counts_of_batches_are_added_reason_by_reason() -> None:
    one = StreamCounts(batches=1, records=2, samples=9, written=5, dropped={DropReason.NAN: 3}, quarantined=1)
    other = StreamCounts(batches=1, samples=3, dropped={DropReason.NAN: 1, DropReason.LATE: 2}, late_records=1)
    both = one + other
    assert both == StreamCounts(
        batches=2,
        records=2,
        samples=12,
        written=5,
        dropped={DropReason.NAN: 4, DropReason.LATE: 2},
        quarantined=1,
        late_records=1,
    )
    both.require_sum()


def test_a_sample_that_is_lost_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="4 samples in, but 1 written, 2 dropped and 0 quarantined"):
        StreamCounts(samples=4, written=1, dropped={DropReason.NAN: 2}).require_sum()
