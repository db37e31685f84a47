"""Headroom, backtests and recommendations agree on when requests were newly throttled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy
import pytest

from quotaform.model.quota_key import Enforcement
from quotaform.usage.bucket.bucket import RECORDED_LIMIT, BucketRows, RecordedBucket, SeriesBucket, bucket_rows
from quotaform.usage.headroom.run import _use
from quotaform.usage.recommend.demand import demand_of
from quotaform.usage.replay.replay import replay
from quotaform.usage.replay.run import _slots

NAN = float("nan")
START = 1_795_132_800
STEP_S = 30.0


def rows_of(samples: Sequence[tuple[int, int, float, float]], limits: Sequence[float] = (100.0, 100.0)) -> BucketRows:
    """Samples of one bucket: step, series, rate and throttle time; every 30 s, with a limit per series."""
    step, series, rate, throttle = (numpy.array(each) for each in zip(*samples, strict=True))
    limit = numpy.array(limits)[series]
    return bucket_rows(
        {
            "series_id": series,
            "at": (START + step * int(STEP_S)) * 1_000_000,
            "rate": rate.astype(float),
            "window_s": numpy.full(len(step), STEP_S),
            "throttle_ms": throttle.astype(float),
            RECORDED_LIMIT: limit,
        }
    )


def bucket_of(rows: BucketRows) -> RecordedBucket:
    """A bucket with such rows, of one or two series."""
    series = SeriesBucket("b", 100.0, "User", "b", False, "b", 100.0, 100.0, "b")
    return RecordedBucket("lab", "1", "new_key", "b", [series, series], rows)


@pytest.mark.parametrize(
    ("samples", "limits", "expected"),
    [
        # An average that stays is an old one.
        ([(0, 0, 50, NAN), (1, 0, 50, 200), (2, 0, 50, 200), (3, 0, 50, 300), (4, 0, 50, 300)], (100.0,), 2),
        # But it counts while the rate is at the limit.
        ([(0, 0, 50, NAN), (1, 0, 95, 200), (2, 0, 95, 200), (3, 0, 94, 200), (4, 0, 95, NAN)], (100.0,), 2),
        # A change of any series counts, also below the largest average; the end of the throttling of one does not.
        (
            [
                (step, series, 10, average if series else 900)
                for step, average in enumerate((NAN, 200, 300, 300))
                for series in (0, 1)
            ]
            + [(4, 0, 10, NAN), (4, 1, 10, 300)],
            (100.0, 100.0),
            3,
        ),
        # The rates of all series share the limit, unless each has its own.
        ([(step, series, 50, 200 if series else NAN) for step in range(3) for series in (0, 1)], (100.0, 100.0), 3),
        ([(step, series, 50, 200) for step in range(3) for series in (0, 1)], (60.0, 70.0), 1),
        ([(step, series, 50, 200) for step in range(3) for series in (0, 1)], (50.0, 70.0), 3),
        # Without a limit only changes count.
        ([(step, 0, 50, 200) for step in range(3)], (NAN,), 1),
    ],
)
def test_headroom_backtest_and_recommend_agree_on_how_often_requests_were_newly_throttled(
    samples: list[tuple[int, int, float, float]], limits: Sequence[float], expected: int
) -> None:
    rows = rows_of(samples, limits)
    used = demand_of(bucket_of(rows), 99.0, 0)
    assert (_use(bucket_of(rows))["throttled_s"], used.throttled) == (expected * STEP_S, expected)
    assert numpy.count_nonzero(rows.is_newly_throttled) == expected


def test_times_without_a_rate_are_no_samples_of_a_recommendation() -> None:
    bucket = bucket_of(rows_of([(0, 0, 50, 100), (1, 0, NAN, 200), (2, 0, NAN, 300), (3, 0, 50, 300), (4, 0, 50, 400)]))
    assert (_use(bucket)["throttled_s"], demand_of(bucket, 99.0, 0).throttled) == (4 * STEP_S, 2)


def test_a_window_that_is_longer_than_there_are_times_is_no_error() -> None:
    """A row of some other program with such a number ended the recommendation of all clusters."""
    columns = {"at": numpy.array([0]), "series_id": numpy.array([0]), "window_s": numpy.array([1e300])}
    nothing = numpy.array([NAN])
    rows = bucket_rows({**columns, "rate": numpy.array([1.0]), "throttle_ms": nothing, RECORDED_LIMIT: nothing})
    assert demand_of(bucket_of(rows), 99.0, 0).begin == datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1e9)


def test_slots_of_a_page_have_the_highest_of_each_and_from_when_to_when_requests_waited() -> None:
    samples = [(step, 0, 150.0 * (step % 7 < 3), step % 5 or NAN) for step in range(40)]
    rows = rows_of(samples)
    replayed = replay(rows.at, rows.rate, rows.window_s, 100.0, Enforcement())
    bucket = bucket_of(rows)
    found = _slots(120, {tuple(bucket.place.values())}, bucket)
    assert found is not None
    slots = rows.at // 120_000_000
    assert found["at"].tolist() == [rows.at[slots == slot].max() for slot in numpy.unique(slots)]
    for place, slot in enumerate(numpy.unique(slots)):
        own = slots == slot
        assert (found["rate"][place], found["throttle_ms"][place]) == (
            rows.rate[own].max(),
            numpy.nanmax(rows.throttle_ms[own]),
        )
        for name in ("", "_high"):
            waited = rows.at[own & (replayed.waits[name].waited > 0)]
            span = [found[f"{end}{name}"][place] for end in ("start", "end")]
            assert numpy.isnan(span).all() if not len(waited) else span == [waited[0] - STEP_S * 1e6, waited[-1]]
