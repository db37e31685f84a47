"""What is drawn of headroom."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quotaform.app.picture import PICTURES
from quotaform.core.usage.chart.chart import HeadroomPart
from quotaform.core.usage.headroom import BucketUse, Headroom, HeadroomStatus
from quotaform.views.usage.headroom_chart import headroom_chart
from tests.builder import PRODUCER, REQUEST

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=7)
USE = BucketUse(
    cluster="prod",
    broker="1",
    key=PRODUCER,
    bucket="user=alice",
    entity="user=alice",
    limit=1048576.0,
    status=HeadroomStatus.THROTTLED,
    samples=100,
    first=START,
    last=END,
    p50=1000.0,
    p95=500_000.0,
    p99=1_000_000.0,
    maximum=1_048_576.0,
    used_ratio=0.95,
    recorded_s=6000.0,
    throttled_s=60.0,
    throttle_ms_max=10.0,
    members=1,
    top_member="user=alice",
    top_member_share=1.0,
    is_coarse=False,
)


def headroom(*rows: BucketUse) -> Headroom:
    """The headroom of buckets."""
    return Headroom(
        usage="usage",
        first=START,
        last=END,
        samples=100,
        counts={HeadroomStatus.THROTTLED: len(rows), HeadroomStatus.UNLIMITED: 3},
        buckets=rows,
        noisy=(),
        noisy_total=0,
        unused=(),
        unused_total=0,
        coarse=0,
        unrecorded=(),
        unknown=(),
    )


def test_a_bucket_is_drawn_once_as_on_the_broker_where_it_is_closest() -> None:
    other = replace(USE, broker="2", p99=100.0, throttled_s=120.0)
    coarse = replace(USE, bucket="user=bob", key=REQUEST, limit=200.0, p50=1.0, p95=2.0, p99=3.0, is_coarse=True)
    idle = replace(USE, bucket="user=idle", p50=None, p95=None, p99=None, maximum=None)
    blocked = replace(USE, bucket="user=blocked", limit=0.0)
    chart = headroom_chart(headroom(other, USE, coarse, idle, blocked))
    first, second = chart.parts
    assert isinstance(first, HeadroomPart)
    assert isinstance(second, HeadroomPart)
    (alice,) = first.rows
    assert (alice.bucket.broker, alice.brokers, alice.throttled_s) == ("1", 2, 120.0)
    assert second.key == REQUEST
    assert chart.notes == (
        "2 buckets are drawn, each as on the broker where it is closest to its limit; 8 were recorded, counted on each "
        "broker.",
        "2 of them have no rates, or a limit of 0, and are left out.",
        "A ≤ marks a bucket that the recording is too coarse for: it used at most this.",
    )
    page = PICTURES["html"](chart).decode()
    assert "1 (the closest of 2)" in page
    assert "≤ 1.5%" in page


def test_nothing_with_a_limit_is_said() -> None:
    chart = headroom_chart(headroom())
    assert chart.parts == ()
    assert chart.nothing.startswith("Nothing that was recorded has a limit")
