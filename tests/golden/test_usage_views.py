"""Views of what is measured, as text, Markdown and JSON; and what is drawn of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace as changed

from quotaform.model.records.validator import explainer
from quotaform.plan.backtest import (
    BucketBacktest,
    Buckets,
    Estimate,
)
from quotaform.plan.backtest_report import backtest_lines
from quotaform.report.chart import BacktestPart, HeadroomPart, ReplayPart, ReplaySlot, Span
from quotaform.report.format import FORMATS, PICTURES, render, schema_builder
from quotaform.usage.chart import MOST_REPLAYS, backtest_chart, bucket_of, drawn_buckets, headroom_chart
from quotaform.usage.top.top import render_top
from tests.builder import REQUEST
from tests.golden import usage_example as example
from tests.golden.conftest import Golden

SUFFIXES = {"text": "txt", "json": "json", "markdown": "md"}
VIEWS: dict[str, tuple[str, Any]] = {
    "headroom": ("usage-headroom", example.HEADROOM),
    "headroom-far": ("usage-headroom", example.FAR),
    "headroom-nothing": ("usage-headroom", example.NO_HEADROOM),
    "backtest": ("usage-backtest", example.BACKTEST),
    "recommend": ("usage-recommend", example.RECOMMENDED),
    "recommend-several": ("usage-recommend", example.SEVERAL),
    "recommend-untested": ("usage-recommend", example.UNTESTED),
    "stream": ("usage-stream", example.STREAMED),
    "stream-nothing": ("usage-stream", example.NOT_STREAMED),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_measured_in_every_format(name: str, golden: Golden) -> None:
    subject, value = VIEWS[name]
    for kind in FORMATS[subject]:
        if kind in SUFFIXES:
            text = "".join(render(subject, kind, value))
            golden(f"usage-view-{name}.{SUFFIXES[kind]}", text)
            assert "\x1b" not in text
            if kind == "json":
                assert list(explainer(schema_builder(subject)).iter_errors(json.loads(text))) == []


def test_a_backtest_in_a_plan(golden: Golden) -> None:
    clusters = (example.CLUSTER, example.UNRECORDED)
    golden("usage-view-plan.txt", "".join(f"{line}\n" for each in clusters for line in backtest_lines(each)))
    buckets = example.CLUSTER.changed
    affected = changed(example.CLUSTER, changed=changed(buckets, affected=len(buckets.rows)))
    assert not [line for line in backtest_lines(affected) if " more (list" in line]


def test_the_worst_buckets_that_the_plan_changes_are_drawn_over_time() -> None:
    def throttled(row: BucketBacktest, seconds: float, **more: Any) -> BucketBacktest:
        return changed(row, throttled_s=Estimate(value=seconds, low=0.0, high=2 * seconds), **more)

    others = [throttled(example.BUCKET, float(index), bucket=f"user=other-{index}") for index in range(1, 10)]
    worst = throttled(example.BUCKET, 900.0, broker="2")
    rows = (
        throttled(example.BUCKET, 600.0),
        worst,
        example.COARSE,
        throttled(example.BUCKET, 0.0, limit=None),
        *others,
    )
    buckets = Buckets(throttled=len(rows), hidden=1, rows=rows)
    tested = changed(example.CLUSTER, changed=buckets, unchanged=Buckets())
    found = changed(example.BACKTEST, clusters=(tested,))
    drawn = drawn_buckets(found)
    assert [(row.bucket, row.broker) for _, row in drawn[:2]] == [("user=alice", "2"), ("user=other-9", "1")]
    assert len(drawn) == MOST_REPLAYS
    minutes = [example.FIRST + timedelta(minutes=number) for number in range(11)]
    slots = tuple(
        ReplaySlot(at=minutes[number], rate=number * 1e5, waits=Span(minutes[number - 1], minutes[number]))
        for number in range(6, 10)
    )
    chart = backtest_chart(found, {bucket_of(row): slots for row in drawn[:2]}, 1.0)
    total, *replays = chart.parts
    assert isinstance(total, BacktestPart)
    assert len(total.rows) == 13
    assert [part.row.bucket for part in replays if isinstance(part, ReplayPart)] == [
        bucket_of(row) for row in drawn[:2]
    ]
    assert "lower bound" in chart.notes[1]
    assert "unknown" in PICTURES["html"](chart).decode()
    nothing = backtest_chart(changed(found, clusters=(changed(tested, changed=Buckets()),)), {}, 1.0)
    assert nothing.parts == ()
    assert "Nobody would have been throttled" in PICTURES["svg"](nothing).decode()


def test_a_bucket_is_drawn_once_as_on_the_broker_where_it_is_closest() -> None:
    use = changed(example.USE, broker="1", limit=2.0**20, p50=1000.0, p95=500_000.0, p99=1e6, throttled_s=60.0)
    other = changed(use, broker="2", p99=100.0, throttled_s=120.0)
    coarse = changed(use, bucket="user=bob", key=REQUEST, limit=200.0, p50=1.0, p95=2.0, p99=3.0, is_coarse=True)
    idle = changed(use, bucket="user=idle", p50=None, p95=None, p99=None, maximum=None)
    blocked = changed(use, bucket="user=blocked", limit=0.0)
    rows = (other, use, coarse, idle, blocked)
    summary = changed(example.NO_HEADROOM.summary, throttled=len(rows))
    chart = headroom_chart(changed(example.NO_HEADROOM, summary=summary, buckets=rows))
    first, second = chart.parts
    assert isinstance(first, HeadroomPart)
    assert isinstance(second, HeadroomPart)
    (own,) = first.rows
    assert (own.bucket.broker, own.brokers, own.throttled_s) == ("1", 2, 120.0)
    assert second.key == REQUEST
    assert chart.notes == (
        "2 buckets are drawn, each as on the broker where it is closest to its limit; 9 were recorded, counted on each "
        "broker.",
        "2 of them have no rates, or a limit of 0, and are left out.",
        "A ≤ marks a bucket that the recording is too coarse for: it used at most this.",
    )
    page = PICTURES["html"](chart).decode()
    assert "1 (the closest of 2)" in page
    assert "≤ 1.5%" in page
    assert headroom_chart(example.NO_HEADROOM).parts == ()


def test_who_is_throttled(golden: Golden) -> None:
    hostile = example.row(2000.0, 9.0, user="a\x1b[2J\n::error::x", broker="\x1b]0;x")
    views = {
        "all of it": render_top(example.top(*example.ROWS, unread=True)),
        "all buckets": render_top(example.top(*example.ROWS), shows_all=True),
        "one bucket": render_top(example.top(*example.ROWS), limit=1),
        "a narrow terminal": render_top(example.top(*example.ROWS), width=60, height=9),
        "nothing measured": render_top(example.top()),
        "nobody close": render_top(example.top(example.row(1.0, user="a"))),
        # With a cluster that could not be read, all buckets were said to be below their limits.
        "no quotas": render_top(example.top(example.row(1.0, user="a"), quotas=None)),
        "throttled without quotas": render_top(example.top(example.row(1200.0, 900.0, user="alice"), quotas=None)),
        "a quota that was removed": render_top(example.top(example.row(1200.0, 900.0, user="x"), quotas={})),
        # That nobody could be measured is no zero.
        "nothing read": render_top(example.top(unread=True)),
        "hostile names": render_top(example.top(hostile, unread=True)),
    }
    assert all(line.isprintable() for text in views.values() for line in text.splitlines())
    golden("usage-view-top.txt", "\n".join(f"=== {name}\n{text}" for name, text in views.items()))
