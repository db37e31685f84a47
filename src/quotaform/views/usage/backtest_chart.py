"""What a plan would have throttled as a chart: how long, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quotaform.core.usage.backtest import Backtest, BucketBacktest, ClusterBacktest
from quotaform.core.usage.chart.chart import (
    MOST_ROWS,
    BacktestPart,
    Bucket,
    Chart,
    Part,
    ReplaySlot,
    ThrottledTime,
    replay_part,
)
from quotaform.core.usage.chart.label import minute_text
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.views.usage.backtest_text import note_lines, total_text

MOST_REPLAYS: Final = 6
"""How many buckets are drawn over time."""


def drawn_buckets(found: Backtest) -> list[BucketBacktest]:
    """Return the buckets that are drawn over time, those that the plan changes first: who would wait longest.

    A bucket is drawn once, as on the broker where it would wait longest. Without a limit there is nothing to see, and
    of a recording that is too coarse nothing is known.
    """
    drawn: dict[tuple[str, str, str], BucketBacktest] = {}
    for rows in ([each.rows for each in found.clusters], [each.others for each in found.clusters]):
        for row in sorted((row for each in rows for row in each), key=_by_time):
            if row.limit is not None and not row.is_coarse:
                drawn.setdefault((row.cluster, row.key, row.bucket), row)
    return list(drawn.values())[:MOST_REPLAYS]


def _by_time(row: BucketBacktest) -> tuple[float, float, float]:
    return -(row.throttled_s.value or 0.0), -row.throttled_s.high, -row.recorded_throttled_s


def backtest_chart(found: Backtest, replays: Mapping[Bucket, tuple[ReplaySlot, ...]], step_s: float) -> Chart:
    """Return a chart of the time throttled of all buckets that are listed, and of some over time.

    `replays` is what would have happened to `drawn_buckets`. `step_s` is how long a slot of these is.
    """
    parts: list[Part] = []
    if rows := sorted((row for each in found.clusters for row in (*each.rows, *each.others)), key=_by_time):
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
        notes=tuple(_notes(found)),
    )


def bucket_of(row: BucketBacktest) -> Bucket:
    """Return the bucket of a row."""
    return Bucket(cluster=row.cluster, broker=row.broker, key=row.key, address=row.bucket)


def _throttled(row: BucketBacktest) -> ThrottledTime:
    return ThrottledTime(
        bucket=bucket_of(row),
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


def _notes(found: Backtest) -> list[str]:
    """Return what plans amount to, and what the recording cannot show."""
    notes = []
    for each in found.clusters:
        cluster = "" if len(found.clusters) == 1 else f"{spell_name(each.cluster)}: "
        notes += [f"{cluster}{text}" for text in (total_text(each), *note_lines(each))]
    return notes
