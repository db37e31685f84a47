"""Backtests in a plan and in a comment, and the words in which all reports say what they found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.model.moment import spell_second
from quotaform.model.text import inert
from quotaform.plan.backtest import MOST_IN_PLAN, BucketBacktest, Buckets, ClusterBacktest, Estimate
from quotaform.report.markdown import code, code_cell, details, table, words_cell
from quotaform.report.text import PLAIN, Style, counted, short_limit_text, span_text

TITLE: Final = "Backtest"
_MOST_NAMES: Final = 5


def backtest_lines(found: ClusterBacktest | None, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a plan about its backtest, and an empty one; none without one."""
    if found is None:
        return
    yield f"{style.paint(f'{TITLE}:', 'bold')} {total_text(found)}"
    yield f"    usage {inert(found.usage)}, {recorded_text(found)}"
    shown = found.changed.rows[:MOST_IN_PLAN]
    yield from (f"    {row_text(row)}" for row in shown)
    if (left := found.changed.affected - len(shown)) > 0:
        yield f"    and {left:,} more (list: quotaform usage backtest)"
    yield from (f"    {line}" for line in note_lines(found))
    yield ""


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


def row_text(row: BucketBacktest) -> str:
    """Return who, which limit, and for how long."""
    return f"{bucket_text(row)}  {row.key} {limits_text(row)}: {throttled_text(row)}"


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


_HEADER: Final = ("Bucket", "Quota", "Limit", "Backtest", "When", "Details")
_LONGEST_SOURCE: Final = 100


def backtest_section(found: ClusterBacktest | None) -> Iterator[str]:
    """Yield the section of a comment, with the buckets that its changes throttle."""
    if found is None:
        return
    yield from backtest_sentence(found)
    yield from _recorded(found)
    if found.changed.rows:
        yield details("Changed limits that would throttle", "".join(_table(found.changed.rows)))
        yield "\n"


def backtest_sentence(found: ClusterBacktest | None) -> Iterator[str]:
    """Yield that section in its shortest form."""
    if found is not None:
        yield f"**{TITLE}:** {total_text(found)}\n\n"


def _recorded(found: ClusterBacktest) -> Iterator[str]:
    yield f"Usage {code(found.usage, _LONGEST_SOURCE)}, {recorded_text(found)}.\n\n"
    for line in note_lines(found):
        yield f"- {line}\n"
    yield "\n"


def _table(rows: Sequence[BucketBacktest]) -> Iterator[str]:
    yield from table(_HEADER, map(_row, rows))


def _row(row: BucketBacktest) -> tuple[str, ...]:
    return (
        code_cell(bucket_text(row)),
        code_cell(row.key),
        words_cell(limits_text(row)),
        words_cell(throttled_text(row)),
        words_cell(when_text(row)),
        words_cell(detail_text(row)),
    )
