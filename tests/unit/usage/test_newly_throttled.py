"""Headroom, backtests and recommendations agree on when requests were newly throttled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from quotaform.usage.bucket.rows import RECORDED_LIMIT, BucketRows
from quotaform.usage.headroom.run import _bucket_use
from quotaform.usage.recommend.spark import _used
from quotaform.usage.replay.spark import replayed

NAN = float("nan")
START = 1_795_132_800
STEP_S = 30.0


def rows_of(samples: Sequence[tuple[int, int, float, float]], limits: Sequence[float] = (100.0, 100.0)) -> BucketRows:
    """Samples of one bucket: step, series, rate and throttle time; every 30 s, with a limit per series."""
    step, series, rate, throttle = (numpy.array(each) for each in zip(*samples, strict=True))
    limit = numpy.array(limits)[series]
    return BucketRows(
        1,
        (START + step * int(STEP_S)) * 1_000_000,
        series,
        rate.astype(float),
        numpy.full(len(step), STEP_S),
        throttle.astype(float),
        {RECORDED_LIMIT: limit, "replayed_limit": limit, "key_number": numpy.ones(len(step))},
    )


def throttled(rows: BucketRows) -> tuple[int, int, int]:
    """At how many times requests were newly throttled: by headroom, backtest and recommend."""
    bucket = replayed(rows)
    assert bucket is not None
    used = _used(99.0, 0, rows)
    assert used["throttled"] <= used["samples"]
    return (
        round(_bucket_use(rows)["throttled_s"] / STEP_S),
        int(numpy.count_nonzero(bucket.is_newly_throttled)),
        int(used["throttled"]),
    )


def test_an_average_that_stays_is_an_old_one() -> None:
    rows = rows_of([(0, 0, 50, NAN), (1, 0, 50, 200), (2, 0, 50, 200), (3, 0, 50, 300), (4, 0, 50, 300)])
    assert throttled(rows) == (2, 2, 2)


def test_an_average_that_stays_counts_while_the_rate_is_at_the_limit() -> None:
    rows = rows_of([(0, 0, 50, NAN), (1, 0, 95, 200), (2, 0, 95, 200), (3, 0, 94, 200), (4, 0, 95, NAN)])
    assert throttled(rows) == (2, 2, 2)


def test_a_change_of_any_series_counts_also_below_the_largest_average() -> None:
    first = [(step, 0, 10.0, 900.0) for step in range(4)]
    second = [(0, 1, 10.0, NAN), (1, 1, 10.0, 200.0), (2, 1, 10.0, 300.0), (3, 1, 10.0, 300.0)]
    # The end of the throttling of one series is none of another.
    ended = [(4, 0, 10.0, NAN), (4, 1, 10.0, 300.0)]
    assert throttled(rows_of([*sorted(first + second), *ended])) == (3, 3, 3)


def test_the_rates_of_all_series_share_the_limit() -> None:
    both = [(step, series, 50.0, 200.0 if series else NAN) for step in range(3) for series in (0, 1)]
    assert throttled(rows_of(both)) == (3, 3, 3)


def test_series_with_limits_of_their_own_are_compared_with_these() -> None:
    both = [(step, series, 50.0, 200.0) for step in range(3) for series in (0, 1)]
    assert throttled(rows_of(both, (60.0, 70.0))) == (1, 1, 1)
    assert throttled(rows_of(both, (50.0, 70.0))) == (3, 3, 3)


def test_without_a_limit_only_changes_count() -> None:
    same = [(step, 0, 50.0, 200.0) for step in range(3)]
    assert throttled(rows_of(same, (NAN,))) == (1, 1, 1)


def test_times_without_a_rate_are_no_samples_of_a_recommendation() -> None:
    rows = rows_of([(0, 0, 50, 100), (1, 0, NAN, 200), (2, 0, NAN, 300), (3, 0, 50, 300), (4, 0, 50, 400)])
    assert throttled(rows) == (4, 2, 2)
