"""What clients with the same names measured themselves is added up as a slow oracle says, time by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan, nan
from typing import Any, NamedTuple

import numpy
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.usage.bucket.rows import BucketRows, bucket_rows
from quotaform.usage.sample import LONGEST_STEP_S

SECOND = 1_000_000


class Row(NamedTuple):
    """A sample; an instance of 0 is that of a series without one."""

    at: int
    member: int
    instance: int
    rate: float
    window_s: float
    throttle_ms: float


rows_of = st.lists(
    st.builds(
        Row,
        at=st.one_of(st.integers(0, 12), st.integers(0, 40).map(lambda each: each * 60), st.integers(590, 1300)),
        member=st.integers(1, 2),
        instance=st.integers(0, 3),
        rate=st.sampled_from([nan, 0.0, 1.0, 2.5, 4.0, 1024.0]),
        window_s=st.sampled_from([nan, 1.0, 11.5, 60.0, 300.0, 700.0, 1e12]),
        throttle_ms=st.sampled_from([nan, nan, 30.0, 40.0]),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: (row.at, row.member, row.instance),
)


def summed(rows: Sequence[Row]) -> BucketRows:
    columns = list(zip(*rows, strict=True))
    series = [instance << 32 | member for member, instance in zip(columns[1], columns[2], strict=True)]
    numbers = (numpy.array(column, dtype=float) for column in columns[3:])
    names = ("at", "series_id", "rate", "window_s", "throttle_ms")
    return bucket_rows(dict(zip(names, (numpy.array(columns[0]) * SECOND, numpy.array(series), *numbers), strict=True)))


def standing_for(rows: Sequence[Row], at: int) -> tuple[Row, Row | None] | None:
    """The first sample of a series at or after a time, if it stands for it; and the one before it."""
    later = [place for place, row in enumerate(rows) if row.at >= at]
    if not later:
        return None
    row = rows[later[0]]
    before = rows[later[0] - 1] if later[0] else None
    window = QUOTA_WINDOW_S if isnan(row.window_s) else row.window_s
    if row.at == at or (before is not None and row.at - before.at <= LONGEST_STEP_S) or at > row.at - window:
        return row, before
    return None


def expected(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What is used at each time, by loops."""
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows):
        series.setdefault((row.member, row.instance), []).append(row)
    found: list[dict[str, Any]] = []
    for at in sorted({row.at for row in rows}):
        parts: dict[int, dict[int, float]] = {}
        highs: dict[int, dict[int, float]] = {}
        windows, throttle_times, is_new = [], [], False
        for (member, instance), own in series.items():
            rated = standing_for([row for row in own if not isnan(row.rate)], at)
            if rated is not None:
                row, before = rated
                parts.setdefault(member, {})[instance] = row.rate
                window = QUOTA_WINDOW_S if isnan(row.window_s) else min(row.window_s, 1e9)
                windows.append(at - row.at + window)
                is_covered = bool(found) and row.at - window <= found[-1]["at"]
                is_near = before is not None and row.at - before.at <= LONGEST_STEP_S
                rates = [row.rate, before.rate] if before is not None and is_near and not is_covered else [row.rate]
                highs.setdefault(member, {})[instance] = max(rates)
            throttled = standing_for(own, at)
            if throttled is not None and not isnan(throttled[0].throttle_ms):
                row, before = throttled
                throttle_times.append(row.throttle_ms)
                is_new |= before is None or before.throttle_ms != row.throttle_ms
        of_members = {member: _of_member(own) for member, own in parts.items()}
        found.append(
            {
                "at": at,
                "rate": sum(of_members.values()) if of_members else None,
                "rate_high": sum(map(_of_member, highs.values())) if highs else None,
                "window_s": max(0.0, min(windows)) if windows else None,
                "throttle_ms": max(throttle_times, default=None),
                "is_new": is_new,
                "members": of_members,
            }
        )
    return found


def _of_member(rates: Mapping[int, float]) -> float:
    return max(rates.get(0, 0.0), sum(rate for instance, rate in rates.items() if instance))


@given(rows_of)
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(600, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 1.0, 60.0, nan), Row(300, 1, 2, 1.0, 60.0, nan), Row(601, 1, 1, 1.0, 60.0, 30.0)])
@example([Row(0, 1, 1, 9.0, 60.0, nan), Row(240, 1, 2, 1.0, 60.0, nan), Row(300, 1, 1, 1.0, 60.0, nan)])
def test_the_sum_is_that_of_the_oracle(rows: list[Row]) -> None:
    assume(any(row.instance for row in rows) and len({row[1:3] for row in rows}) > 1)
    found, wanted = summed(rows), expected(rows)
    assert found.rate_high is not None
    assert (found.at // SECOND).tolist() == [each["at"] for each in wanted]
    for name in ("rate", "rate_high", "window_s", "throttle_ms"):
        values = [None if isnan(value) else value for value in getattr(found, name).tolist()]
        assert values == pytest.approx([each[name] for each in wanted]), name
    assert found.is_newly_throttled.tolist() == [each["is_new"] for each in wanted]
    members = sorted({row.member for row in rows})
    assert found.members.tolist() == members
    totals = [sum(each["members"].get(member, 0.0) for each in wanted) for member in members]
    assert found.totals.tolist() == pytest.approx(totals)


@given(rows_of)
def test_each_second_of_a_client_counts_once(rows: list[Row]) -> None:
    """Bytes are kept: without gaps, the sum over steps is the sum over each client's own steps."""
    own = [
        row._replace(at=row.at % 13, rate=0.0 if isnan(row.rate) else row.rate, instance=row.instance or 1)
        for row in rows
    ]
    own = list({(row.at, row.member, row.instance): row for row in own}.values())
    # Each client has a sample at the beginning.
    own = [row for row in own if row.at] + [
        Row(0, member, instance, 0.0, 11.5, nan) for member, instance in {(row.member, row.instance) for row in own}
    ]
    found = summed(own)
    whole = float((found.rate[1:] * numpy.diff(found.at)).sum()) / SECOND
    series: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(own):
        series.setdefault((row.member, row.instance), []).append(row)
    wanted = sum((row.at - before.at) * row.rate for each in series.values() for before, row in pairwise(each))
    assert whole == pytest.approx(wanted)
