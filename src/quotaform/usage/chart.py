"""What pictures of headroom and of backtests show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited
from quotaform.plan.backtest import Backtest, BucketBacktest, ClusterBacktest
from quotaform.plan.backtest_report import note_lines, total_text
from quotaform.report.chart import (
    MOST_ROWS,
    BacktestPart,
    Bucket,
    Chart,
    HeadroomPart,
    Part,
    ReplaySlot,
    ThrottledTime,
    UsedLimit,
    headroom_parts,
    replay_part,
)
from quotaform.report.chart_text import minute_text
from quotaform.usage.headroom.headroom import BucketUse, Headroom


def headroom_chart(found: Headroom) -> Chart:
    """Return a chart of the buckets that are closest to their limits, a part per quota key."""
    used = [row for row in map(_used, found.buckets) if row is not None]
    parts = headroom_parts(used, MOST_ROWS)
    times = f"{minute_text(found.first)} to {minute_text(found.last)} UTC"
    return Chart(
        title="Headroom of client quotas",
        about=(f"Usage {inert(found.usage)}: {times}, {found.samples:,} samples",),
        parts=parts,
        nothing="Nothing that was recorded has a limit and a rate, so that there is nothing to draw.",
        notes=tuple(_headroom_notes(found, parts, len(used))),
    )


def _used(row: BucketUse) -> UsedLimit | None:
    """Return what is drawn of a bucket; `None` if it has no rates, or no limit above 0."""
    p50, p95, p99, maximum = row.p50, row.p95, row.p99, row.maximum
    limit = row.limit
    if limit is None or is_unlimited(QUOTA_KEYS.get(row.key), limit) or not limit > 0:
        return None
    if p50 is None or p95 is None or p99 is None or maximum is None:
        return None
    return UsedLimit(
        bucket=Bucket(cluster=row.cluster, broker=row.broker, key=row.key, address=row.bucket),
        limit=limit,
        p50=p50,
        p95=p95,
        p99=p99,
        max=maximum,
        throttled_s=row.throttled_s,
        recorded_s=row.recorded_s,
        is_coarse=row.is_coarse,
    )


def _headroom_notes(found: Headroom, parts: tuple[HeadroomPart, ...], used: int) -> list[str]:
    """Return what is not drawn, and what must be known of what is, in sentences."""
    notes = []
    drawn = sum(len(part.rows) for part in parts)
    if used < found.summary.total:
        notes.append(
            f"{drawn:,} buckets are drawn, each as on the broker where it is closest to its limit; "
            f"{found.summary.total:,} were recorded, counted on each broker."
        )
    if left_out := len(found.buckets) - used:
        notes.append(f"{left_out:,} of them have no rates, or a limit of 0, and are left out.")
    if any(row.is_coarse for part in parts for row in part.rows):
        notes.append("A ≤ marks a bucket that the recording is too coarse for: it used at most this.")
    return notes


MOST_REPLAYS: Final = 6
"""How many buckets are drawn over time."""


_Row = tuple[str, BucketBacktest]
"""A cluster, and one of its buckets."""


def drawn_buckets(found: Backtest) -> list[_Row]:
    """Return the buckets that are drawn over time, those that the plan changes first: who would wait longest.

    A bucket is drawn once, as on the broker where it would wait longest. Without a limit there is nothing to see, and
    of a recording that is too coarse nothing is known.
    """
    drawn: dict[tuple[str, str, str], _Row] = {}
    changed = [(each.cluster, row) for each in found.clusters for row in each.changed.rows]
    others = [(each.cluster, row) for each in found.clusters for row in each.unchanged.rows]
    for cluster, row in (*sorted(changed, key=_by_time), *sorted(others, key=_by_time)):
        if row.limit is not None and not row.is_coarse:
            drawn.setdefault((cluster, row.key, row.bucket), (cluster, row))
    return list(drawn.values())[:MOST_REPLAYS]


def _by_time(found: _Row) -> tuple[float, float, float]:
    row = found[1]
    return -(row.throttled_s.value or 0.0), -row.throttled_s.high, -row.recorded_throttled_s


def backtest_chart(found: Backtest, replays: Mapping[Bucket, tuple[ReplaySlot, ...]], step_s: float) -> Chart:
    """Return a chart of the time throttled of all buckets that are listed, and of some over time.

    `replays` is what would have happened to `drawn_buckets`. `step_s` is how long a slot of these is.
    """
    parts: list[Part] = []
    rows = [(each.cluster, row) for each in found.clusters for row in (*each.changed.rows, *each.unchanged.rows)]
    if rows := sorted(rows, key=_by_time):
        parts.append(BacktestPart(tuple(map(_throttled, rows[:MOST_ROWS])), max(0, len(rows) - MOST_ROWS)))
    parts += (
        replay_part(_throttled(row), slots, step_s)
        for row in drawn_buckets(found)
        if (slots := replays.get(bucket_of(row)))
    )
    return Chart(
        title="Backtest of quotas",
        about=tuple(_recorded(each, is_one=len(found.clusters) == 1) for each in found.clusters),
        parts=tuple(parts),
        nothing="Nobody would have been throttled, and nobody was.",
        notes=tuple(_backtest_notes(found)),
    )


def bucket_of(found: _Row) -> Bucket:
    """Return the bucket of a row."""
    cluster, row = found
    return Bucket(cluster=cluster, broker=row.broker, key=row.key, address=row.bucket)


def _throttled(found: _Row) -> ThrottledTime:
    row = found[1]
    return ThrottledTime(
        bucket=bucket_of(found),
        before_limit=row.before,
        limit=row.limit,
        throttled_s=row.throttled_s.value,
        low_s=row.throttled_s.low,
        high_s=row.throttled_s.high,
        recorded_s=row.recorded_throttled_s,
        delay_s=row.delay_s.value or 0.0,
        hidden_s=row.hidden_s,
        first=row.first,
        last=row.last,
    )


def _recorded(found: ClusterBacktest, *, is_one: bool) -> str:
    about = f"Usage {inert(found.usage)}, cluster {spell_name(found.cluster)}"
    if found.first is None:
        return f"{about}: nothing recorded"
    text = f"{about}: {minute_text(found.first)} to {minute_text(found.last)} UTC"
    return f"{text}, plan {found.plan_id.removeprefix('sha256:')[:8]}" if is_one else text


def _backtest_notes(found: Backtest) -> list[str]:
    """Return a summary of plans, and what the recording cannot show."""
    notes = []
    for each in found.clusters:
        cluster = "" if len(found.clusters) == 1 else f"{spell_name(each.cluster)}: "
        notes += [f"{cluster}{text}" for text in (total_text(each), *note_lines(each))]
    return notes
