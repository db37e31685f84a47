"""What is drawn of backtests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quotaform.app.picture import PICTURES
from quotaform.core.usage.backtest import Backtest, BucketBacktest, BucketCounts, ClusterBacktest, Estimate
from quotaform.core.usage.chart.chart import BacktestPart, ReplayPart, ReplaySlot, Span
from quotaform.views.usage.backtest_chart import MOST_REPLAYS, backtest_chart, bucket_of, drawn_buckets
from tests.builder import PRODUCER

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=7)
TESTED = BucketBacktest(
    cluster="prod",
    broker="1",
    key=PRODUCER,
    bucket="user=alice",
    limit=524288.0,
    entity="user=alice",
    before=1048576.0,
    is_changed=True,
    samples=100,
    recorded_s=6000.0,
    throttled_s=Estimate(value=600.0, low=300.0, high=1200.0),
    first=START,
    last=START + timedelta(hours=1),
    longest_s=300.0,
    backlog_s=5.0,
    delay_s=Estimate(value=4.0, low=1.0, high=9.0),
    worst_at=START,
    over=1.5,
    refused=None,
    recorded_throttled_s=30.0,
    recorded_delay_ms=12.0,
    hidden_s=0.0,
    is_coarse=False,
)


def backtest(*rows: BucketBacktest) -> Backtest:
    """The backtest of a plan."""
    tested = ClusterBacktest(
        usage="usage",
        cluster="prod",
        plan_id="sha256:41c84b9e00",
        first=START,
        last=END,
        series=4,
        unlimited=0,
        changed=BucketCounts(buckets=len(rows), throttled=len(rows), recorded=1, hidden=1),
        unchanged=BucketCounts(),
        rows=rows,
    )
    return Backtest(usage="usage", clusters=(tested,))


@pytest.mark.slow
def test_the_worst_buckets_that_the_plan_changes_are_drawn_over_time() -> None:
    others = [
        replace(
            TESTED, bucket=f"user=other-{index}", throttled_s=Estimate(value=float(index), low=0.0, high=index * 2.0)
        )
        for index in range(1, 10)
    ]
    second = replace(TESTED, broker="2", throttled_s=Estimate(value=900.0, low=300.0, high=1200.0))
    coarse = replace(
        TESTED, bucket="user=coarse", is_coarse=True, throttled_s=Estimate(value=None, low=0.0, high=5000.0)
    )
    free = replace(TESTED, bucket="user=free", limit=None, throttled_s=Estimate(value=0.0, low=0.0, high=0.0))
    found = backtest(TESTED, second, coarse, free, *others)
    drawn = drawn_buckets(found)
    assert [(row.bucket, row.broker) for row in drawn[:2]] == [("user=alice", "2"), ("user=other-9", "1")]
    assert len(drawn) == MOST_REPLAYS
    slots = tuple(
        ReplaySlot(
            at=START + timedelta(minutes=minute),
            rate=minute * 1e5,
            waits=Span(START + timedelta(minutes=minute - 1), START + timedelta(minutes=minute))
            if minute > 5
            else None,
        )
        for minute in range(10)
    )
    chart = backtest_chart(found, {bucket_of(row): slots for row in drawn[:2]}, 1.0)
    total, *replays = chart.parts
    assert isinstance(total, BacktestPart)
    assert len(total.rows) == 13
    assert [part.row.bucket for part in replays if isinstance(part, ReplayPart)] == [
        bucket_of(row) for row in drawn[:2]
    ]
    assert chart.about == ("Usage usage, cluster prod: 2026-11-01 00:00 to 2026-11-08 00:00 UTC, plan 41c84b9e",)
    assert "lower bound" in chart.notes[1]
    page = PICTURES["html"](chart).decode()
    assert "unknown" in page
    assert "<td" in page


def test_a_plan_that_throttles_nobody_says_so() -> None:
    chart = backtest_chart(backtest(), {}, 1.0)
    assert chart.parts == ()
    assert "Nobody would have been throttled" in PICTURES["svg"](chart).decode()
