"""Backtests as people and programs read them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from quotaform.core.usage.backtest import (
    MOST_IN_PLAN,
    Backtest,
    BucketBacktest,
    BucketCounts,
    ClusterBacktest,
    Estimate,
)
from quotaform.document.usage_backtest import dump_cluster_backtest, load_cluster_backtest
from quotaform.model.quota_key import CONNECTION_CREATION_RATE, PRODUCER_BYTE_RATE
from quotaform.views.usage.backtest_markdown import render_backtest_markdown
from quotaform.views.usage.backtest_text import plan_lines, render_backtest

AT = datetime(2026, 10, 1, 9, 30, tzinfo=UTC)
NONE = Estimate(value=0.0, low=0.0, high=0.0)
BUCKET = BucketBacktest(
    cluster="prod",
    broker="1",
    key=PRODUCER_BYTE_RATE.name,
    bucket="user=alice",
    limit=4.0 * 2**20,
    entity="user=<default>",
    before=10.0 * 2**20,
    is_changed=True,
    samples=60,
    recorded_s=3600.0,
    throttled_s=Estimate(value=90.0, low=30.0, high=100.5),
    first=AT,
    last=AT,
    longest_s=90.0,
    delay_s=Estimate(value=12.0, low=12.0, high=12.0),
    worst_at=AT,
    backlog_s=2.5,
    over=1.25,
    refused=None,
    recorded_throttled_s=0.0,
    recorded_delay_ms=None,
    hidden_s=0.0,
    is_coarse=False,
)
CLUSTER = ClusterBacktest(
    usage="usage",
    cluster="prod",
    plan_id="sha256:0",
    first=AT,
    last=AT,
    series=7,
    unlimited=1,
    changed=BucketCounts(buckets=1, throttled=1, affected=1),
    unchanged=BucketCounts(buckets=5, throttled=1, possible=1, recorded=1, affected=2),
    rows=(BUCKET,),
    others=(replace(BUCKET, is_changed=False, before=BUCKET.limit, recorded_throttled_s=30.0, hidden_s=60.0),),
)


def test_what_a_plan_file_says_of_a_backtest_reads_back() -> None:
    assert load_cluster_backtest(dump_cluster_backtest(CLUSTER)) == CLUSTER


def test_bounds_are_shown_where_they_differ_from_the_estimate() -> None:
    [line] = [line for line in plan_lines(CLUSTER) if "user=alice" in line]
    assert line.endswith("10 MiB/s -> 4 MiB/s: throttled for 1m 30s (30s to 1m 40s)")
    text = render_backtest(Backtest(usage="usage", clusters=(CLUSTER,)))
    assert "longest delay 12s at 2026-10-01T09:30:00Z" in text
    assert "4 MiB/s: throttled for 1m 30s (30s to 1m 40s); was throttled for 30s in the recording" in text
    assert (
        "1 bucket with changed limits: 1 would have been throttled, 0 were in the recording; 5 other buckets: 1 would"
        in text
    )


def test_what_cannot_be_told_apart_has_no_number_of_its_own() -> None:
    coarse = replace(BUCKET, is_coarse=True, throttled_s=Estimate(value=None, low=0.0, high=60.0))
    found = replace(CLUSTER, rows=(coarse,), changed=replace(CLUSTER.changed, coarse=1))
    text = "\n".join(plan_lines(found))
    assert "recorded too coarsely, throttled for at most 1m" in text
    assert "1 bucket recorded too coarsely: the plan splits what brokers measured as one bucket, or" in text


def test_refused_connections_are_counted() -> None:
    connections = replace(BUCKET, key=CONNECTION_CREATION_RATE.name, bucket="ip=10.0.0.7", refused=1234.0, limit=10.0)
    text = render_backtest(Backtest(usage="usage", clusters=(replace(CLUSTER, rows=(connections,)),)))
    assert "1,234 connections refused" in text


def test_a_cluster_without_a_recording_is_no_cluster_without_throttling() -> None:
    empty = replace(CLUSTER, first=None, last=None, series=0, changed=BucketCounts(), unchanged=BucketCounts())
    [first, *_] = plan_lines(empty)
    assert first == "Backtest: No usage of this cluster is recorded, so there is no backtest."


def test_names_of_a_recording_cannot_break_out() -> None:
    hostile = "a\x1b[31m|`<b>"
    foreign = replace(BUCKET, bucket=f"user={hostile}", broker=hostile)
    result = Backtest(usage=hostile, clusters=(replace(CLUSTER, rows=(foreign,)),), unknown=(hostile, ""))
    assert "\x1b" not in render_backtest(result)
    markdown = "".join(render_backtest_markdown(result))
    assert "\x1b" not in markdown
    [row, _] = [line for line in markdown.splitlines() if "user=a" in line]
    assert row.replace("\\|", "").count("|") == 7
    assert "rows without a cluster" in markdown


def test_a_plan_says_how_many_affected_buckets_it_leaves_out() -> None:
    rows = tuple(replace(BUCKET, bucket=f"user=u{number}") for number in range(MOST_IN_PLAN))
    found = replace(CLUSTER, changed=BucketCounts(buckets=300, throttled=120, possible=30, affected=200), rows=rows)
    lines = list(plan_lines(found))
    assert sum("user=u" in line for line in lines) == MOST_IN_PLAN
    assert f"    and {200 - MOST_IN_PLAN} more (list: quotaform usage backtest)" in lines
    whole = replace(found, changed=replace(found.changed, affected=MOST_IN_PLAN))
    assert not [line for line in plan_lines(whole) if " more (list" in line]


def test_buckets_that_were_only_throttled_in_the_recording_do_not_vanish_without_a_note() -> None:
    row = replace(BUCKET, throttled_s=NONE, first=None, last=None, longest_s=None, recorded_throttled_s=30.0)
    found = replace(CLUSTER, changed=BucketCounts(buckets=3, recorded=2, affected=2), rows=(row,))
    text = render_backtest(Backtest(usage="usage", clusters=(found,)))
    assert "  showing the first 1 of 2 (more: --top, or all: --out parquet=DIR)" in text
    whole = replace(found, rows=(row, row))
    assert "showing the first 2" not in render_backtest(Backtest(usage="usage", clusters=(whole,)))


def test_a_backtest_of_an_earlier_version_reads_back() -> None:
    document = dump_cluster_backtest(CLUSTER)
    for kind in ("changed", "unchanged"):
        del document[kind]["affected"]
    document["changed"]["recorded"] = 4
    found = load_cluster_backtest(document)
    # No fewer than what it counted in another way.
    assert (found.changed.affected, found.unchanged.affected) == (4, 2)
