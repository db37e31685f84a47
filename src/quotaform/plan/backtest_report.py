"""Backtests in a plan and in a comment, and the words in which all reports say what they found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.model.moment import spell_second
from quotaform.model.text import inert
from quotaform.plan.backtest import BucketBacktest, Buckets, ClusterBacktest, Estimate
from quotaform.report.report import Column, ColumnKind, Section, Table
from quotaform.report.text import counted, short_limit_text, span_text

TITLE: Final = "Backtest"
_COLUMNS: Final = (
    Column("bucket", ColumnKind.NAME), Column("key", ColumnKind.NAME), "limit", "backtest",
    Column("when", ColumnKind.DETAIL), Column("details", ColumnKind.DETAIL),
)  # fmt: skip


def backtest_section(found: ClusterBacktest | None) -> Iterator[Section]:
    """Yield the backtest of a plan, with the buckets that its changes throttle; nothing without one."""
    if found is None:
        return
    rows = tuple(
        (bucket_text(row), row.key, limits_text(row), throttled_text(row), when_text(row), detail_text(row))
        for row in found.changed.rows
    )
    left = found.changed.affected - len(rows)
    more = f"and {left:,} more (list: quotaform usage backtest)" if left > 0 else ""
    yield Section(
        Table("Changed limits that would throttle", _COLUMNS, rows, more, line="{}  {} {}: {}", is_folded=True),
        sentences=(f"{TITLE}: {total_text(found)}", f"usage {inert(found.usage)}, {recorded_text(found)}"),
        notes=tuple(note_lines(found)),
    )


def recorded_text(found: ClusterBacktest) -> str:
    """Return what was recorded of a cluster."""
    if found.first is None or found.last is None:
        return "nothing recorded of this cluster"
    return f"{counted(found.series, 'series', 'series')} from {spell_second(found.first)} to {spell_second(found.last)}"


def total_text(found: ClusterBacktest) -> str:
    """Return the result of a backtest, in a sentence."""
    if found.first is None:
        return "No usage of this cluster is recorded, so there is no backtest."
    changed, others = found.changed, found.unchanged
    text = f"{counted(changed.buckets, 'bucket')} with changed limits: {_throttled_text(changed)}"
    return f"{text}; {counted(others.buckets, 'other bucket')}: {_throttled_text(others)}."


def _throttled_text(counts: Buckets) -> str:
    text = f"{counts.throttled:,} would have been throttled"
    if counts.possible:
        text += f" (and {counts.possible:,} possibly)"
    return f"{text}, {counts.recorded:,} were in the recording"


def note_lines(found: ClusterBacktest) -> Iterator[str]:
    """Yield what the recording cannot show."""
    hidden = found.changed.hidden + found.unchanged.hidden
    if hidden:
        verb, whose, bound = "was", "its", "its prediction is a lower bound"
        if hidden > 1:
            verb, whose, bound = "were", "their", "their predictions are lower bounds"
        yield (
            f"{counted(hidden, 'bucket')} {verb} throttled in the recording, which hid part of {whose} demand: {bound}."
        )
    coarse = found.changed.coarse + found.unchanged.coarse
    if coarse:
        yield (
            f"{counted(coarse, 'bucket')} recorded too coarsely: the plan splits what brokers measured as one bucket, "
            "or clients measured all brokers together. The upper bound assumes that one part or broker has all of the "
            "traffic."
        )
    if found.unlimited:
        yield f"{counted(found.unlimited, 'series', 'series')} without a limit."


def bucket_text(row: BucketBacktest) -> str:
    """Return the bucket and its broker."""
    return f"{inert(row.bucket)}{'' if row.broker is None else f' on broker {inert(row.broker)}'}"


def limits_text(row: BucketBacktest) -> str:
    """Return the limit before and after."""
    after = short_limit_text(row.key, row.limit)
    before = short_limit_text(row.key, row.before)
    return f"{before} -> {after}" if before != after else after


def throttled_text(row: BucketBacktest) -> str:
    """Return for how long a bucket would have been throttled, and how long it was."""
    if row.is_coarse and row.throttled_s.high > 0:
        text = f"recorded too coarsely, throttled for at most {span_text(row.throttled_s.high)}"
    elif row.throttled_s.high <= 0:
        text = "not throttled"
    else:
        text = f"throttled for {estimate_text(row.throttled_s)}"
    if not row.recorded_throttled_s:
        return text
    return f"{text}; was throttled for {span_text(row.recorded_throttled_s)} in the recording"


def estimate_text(found: Estimate) -> str:
    """Return an estimate, with its bounds if they differ from it."""
    value = 0.0 if found.value is None else found.value
    shown = span_text(value) if value > 0 else "0s"
    low, high = (span_text(each) if each > 0 else "0s" for each in (found.low, found.high))
    return shown if low == shown == high else f"{shown} ({low} to {high})"


def when_text(row: BucketBacktest) -> str:
    """Return when, and how long at a time."""
    parts = []
    if row.first is not None and row.last is not None:
        parts.append(f"from {spell_second(row.first)} to {spell_second(row.last)}")
    if row.longest_s:
        parts.append(f"longest {span_text(row.longest_s)}")
    if row.delay_s.high > 0 and not row.is_coarse:
        worst = "" if row.worst_at is None else f" at {spell_second(row.worst_at)}"
        parts.append(f"longest delay {estimate_text(row.delay_s)}{worst}")
    return ", ".join(parts)


def detail_text(row: BucketBacktest) -> str:
    """Return how much over the limit, and what the numbers rest on."""
    parts = []
    if row.backlog_s:
        parts.append(f"backlog of {span_text(row.backlog_s)} at the end")
    if row.refused:
        parts.append(f"{row.refused:,.0f} connections refused")
    if row.over is not None:
        parts.append(f"peak rate {row.over * 100:,.0f}% of the limit")
    if row.entity is not None and row.entity != row.bucket:
        parts.append(f"limit set by {inert(row.entity)}")
    if row.hidden_s:
        parts.append(f"demand hidden for {span_text(row.hidden_s)}")
    parts.append(f"{span_text(row.recorded_s)} recorded")
    return ", ".join(parts)
