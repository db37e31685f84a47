"""The report of backtests; what a plan and a comment show of them is in `quotaform.plan.backtest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeAlias

from quotaform.model.entity import spell_name
from quotaform.model.text import inert, listed, option_of
from quotaform.plan.backtest import (
    Backtest,
    BucketBacktest,
    Buckets,
    detail_text,
    note_lines,
    recorded_text,
    throttled_text,
    total_text,
    when_text,
)
from quotaform.report.report import (
    Bar,
    Cell,
    Column,
    ColumnKind,
    Columns,
    Plot,
    PlotLimit,
    Report,
    Section,
    Span,
    Table,
    curve_of,
)
from quotaform.usage.bucket.bucket import moment_of
from quotaform.usage.cells import BUCKET_COLUMNS, bucket_cells, limit_cell, span_cell

_COLUMNS: Final[Columns] = (
    *BUCKET_COLUMNS, "limit before", "limit after", "result", Column("throttled", ColumnKind.PAGE), "chart",
    *(Column(name, ColumnKind.PAGE) for name in ("lower bound", "upper bound", "longest wait", "recorded")),
    *(Column(name, ColumnKind.DETAIL) for name in ("when", "details")),
)  # fmt: skip
_MOST_NAMES: Final = 5


DrawnBucket: TypeAlias = tuple[str, BucketBacktest]
"""A cluster, and one of its buckets."""


def backtest_report(found: Backtest, replays: Mapping[DrawnBucket, Sequence[Plot]] | None = None) -> Report:
    """Return what plans would have throttled.

    `replays`: what would have happened to `drawn_buckets` over time, for a page.
    """
    plots = {} if replays is None else replays
    sections, about, notes = [], [], []
    for each in found.clusters:
        name = spell_name(each.cluster)
        for title, buckets in (("changed by the plan", each.changed), ("not changed by the plan", each.unchanged)):
            if buckets.rows:
                own = [plots[of] for of in plots if of[0] == each.cluster and of[1] in buckets.rows]
                table = backtest_table(each.cluster, f"Limits {title} of {name}", buckets)
                sections.append(Section(table, tuple(chain.from_iterable(own))))
        about.append(
            f"Usage {inert(each.usage)}, cluster {name}, plan {each.plan_id.removeprefix('sha256:')[:8]}: "
            f"{recorded_text(each)}"
        )
        notes += [f"{name}: {text}" for text in (total_text(each), *note_lines(each))]
    if found.unknown:
        names = listed([spell_name(name) if name else "rows without a cluster" for name in found.unknown], _MOST_NAMES)
        notes.append(f"Recorded, but not backtested: {names}.")
    return Report(
        title="Backtest of quotas",
        about=tuple(about),
        sections=tuple(sections),
        nothing="No bucket would have been throttled, and none was.",
        notes=tuple(notes),
    )


def backtest_table(cluster: str, caption: str, found: Buckets, *, is_folded: bool = False) -> Table:
    """Return the time throttled of buckets."""
    longest = max((max(row.throttled_s.high, row.recorded_throttled_s) for row in found.rows), default=0.0) or 1.0
    rows = tuple(_row(cluster, row, longest) for row in found.rows)
    hint = f"More: usage backtest with {option_of('top')}; all of them: {option_of('out')} parquet=DIR."
    return Table(caption, _COLUMNS, rows, total=found.affected, hint=hint, is_folded=is_folded)


def _row(cluster: str, row: BucketBacktest, longest: float) -> tuple[Cell, ...]:
    time, mark = row.throttled_s, row.recorded_throttled_s
    value = time.value or 0.0
    bar = Bar(value=value, scale=longest, low=time.low, high=time.high, mark=mark, is_severe=bool(value))
    return (
        *bucket_cells(row.bucket, cluster, row.broker, row.key),
        *(limit_cell(row.key, limit) for limit in (row.before_limit, row.limit)),
        *(throttled_text(row), span_cell(time.value), bar),
        *(span_cell(each) for each in (time.low, time.high, row.delay_s_max.value, row.recorded_throttled_s)),
        *(when_text(row), detail_text(row)),
    )


def drawn_buckets(found: Backtest) -> list[DrawnBucket]:
    """Return the six buckets that are drawn over time, those that the plan changes first: who would wait longest.

    A bucket is drawn once, as on the broker where it would wait longest. Without a limit there is nothing to see, and
    of a recording that is too coarse nothing is known.
    """
    every = [
        ((not is_changed, -(row.throttled_s.value or 0.0), -row.throttled_s.high, -row.recorded_throttled_s), each, row)
        for each in found.clusters
        for is_changed, buckets in ((True, each.changed), (False, each.unchanged))
        for row in buckets.rows
        if row.limit is not None and not row.is_coarse
    ]
    drawn: dict[tuple[str, str, str], DrawnBucket] = {}
    for _, each, row in sorted(every, key=itemgetter(0)):
        drawn.setdefault((each.cluster, row.key, row.bucket), (each.cluster, row))
    return list(drawn.values())[:6]


def replay_plots(
    cluster: str, row: BucketBacktest, slots: Sequence[Mapping[str, Any]], step_s: float
) -> Iterator[Plot]:
    """Yield the rate of a bucket with its limits over time, and the throttle time that was recorded.

    `slots`: rows of `quotaform.usage.replay.run.SLOTS`, in order. `step_s`: how long a slot is, in seconds.
    """
    if not slots:
        return
    name, where, broker, key = bucket_cells(row.bucket, cluster, row.broker, row.key)
    of = f"{name}, {key}, cluster {where}, broker {broker}"
    at = [moment_of(slot["at"]) for slot in slots]
    rate = curve_of([(time, slot["rate"]) for time, slot in zip(at, slots, strict=True)], step_s)

    def waits(start: str, end: str) -> tuple[Span, ...]:
        spans = [Span(moment_of(slot[start]), moment_of(slot[end])) for slot in slots if slot[start] is not None]
        return joined(spans, timedelta(seconds=rate.step_s))

    severe = ("would throttle", waits("start", "end"))
    possible = ("may throttle", waits("start_high", "end_high"))
    values = (("limit after", row.limit), ("limit before", row.before_limit))
    limits = tuple(PlotLimit(name, value) for name, value in values if value is not None)
    yield Plot(
        caption=of, key=key, curve=rate, limits=limits, severe=severe, possible=possible, start=at[0], end=at[-1]
    )
    throttled = [(time, slot["throttle_ms"]) for time, slot in zip(at, slots, strict=True)]
    if recorded := [each for each in throttled if each[1] is not None]:
        curve = curve_of(recorded, step_s)
        yield Plot(caption=f"{of}: recorded", key=None, name="throttle time", curve=curve, start=at[0], end=at[-1])


def joined(spans: Sequence[Span], gap: timedelta) -> tuple[Span, ...]:
    """Return spans with those as one between which there is less than a step: what is between slots is not known."""
    found: list[Span] = []
    for span in spans:
        if found and span.start - found[-1].end < gap:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)
