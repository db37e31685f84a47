"""The numbers of a part of a chart as a table."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.core.usage.chart.chart import (
    BacktestPart,
    Bucket,
    HeadroomPart,
    LimitPart,
    Part,
    ReplayPart,
    ThrottledTime,
)
from quotaform.core.usage.chart.label import key_heading, minute_text, rate_text, span_text, used_text, value_text
from quotaform.model.entity import spell_name
from quotaform.model.text import inert

MOST_TIMES = 50
"""How many times of throttling are listed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        caption: What it is about.
        columns: The names of the columns; those that begin with `#` are of numbers, with `@` of times.
        more: What is not in it, in a sentence.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""


_BUCKET = ("bucket", "cluster", "broker")


def chart_table(part: Part) -> Table:
    """Return the table of a part."""
    if isinstance(part, HeadroomPart):
        return _headroom_table(part)
    if isinstance(part, BacktestPart):
        return _backtest_table(part)
    if isinstance(part, ReplayPart):
        return _replay_table(part)
    return _limit_table(part)


def _bucket(bucket: Bucket, brokers: int = 1) -> tuple[str, str, str]:
    broker = "-" if bucket.broker is None else inert(bucket.broker)
    if brokers > 1:
        broker = f"{broker} (the closest of {brokers:,})"
    return inert(bucket.address), "-" if bucket.cluster is None else spell_name(bucket.cluster), broker


def _headroom_table(part: HeadroomPart) -> Table:
    name, about = key_heading(part.key)
    columns = (*_BUCKET, "#limit", "#p50", "#p95", "#p99", "#highest", "#p99 of the limit", "#throttled", "#recorded")
    rows = tuple(
        (
            *_bucket(row.bucket, row.brokers),
            value_text(part.key, row.limit),
            *(rate_text(part.key, each, row.limit) for each in (row.p50, row.p95, row.p99, row.max)),
            used_text(row, 1),
            span_text(row.throttled_s),
            span_text(row.recorded_s),
        )
        for row in part.rows
    )
    more = f"{part.left_out:,} more are further from their limits." if part.left_out else ""
    return Table(f"{name}: {about}" if about else name, columns, rows, more)


def _backtest_table(part: BacktestPart) -> Table:
    columns = (
        *_BUCKET, "key", "#limit before", "#limit after", "#throttled", "#lower bound", "#upper bound", "#longest wait",
        "#recorded", "#demand hidden", "@first", "@last",
    )  # fmt: skip
    more = f"{part.left_out:,} more would have been throttled for less time, or not at all." if part.left_out else ""
    return Table("Time throttled under the plan", columns, tuple(map(_throttled_row, part.rows)), more)


def _throttled_row(row: ThrottledTime) -> tuple[str, ...]:
    key = row.bucket.key
    return (
        *_bucket(row.bucket),
        inert(key),
        value_text(key, row.before_limit),
        value_text(key, row.limit),
        *(
            span_text(each) if each is not None else "unknown"
            for each in (row.throttled_s, row.low_s, row.high_s, row.delay_s, row.recorded_s, row.hidden_s)
        ),
        minute_text(row.first),
        minute_text(row.last),
    )


def _replay_table(part: ReplayPart) -> Table:
    bucket = part.row.bucket
    address, cluster, broker = _bucket(bucket)
    spans = part.throttled[:MOST_TIMES]
    left_out = len(part.throttled) - len(spans)
    return Table(
        f"{address}, {inert(bucket.key)}, cluster {cluster}, broker {broker}: when it would have been throttled",
        ("@from", "@to", "#for"),
        tuple(
            (minute_text(span.start), minute_text(span.end), span_text((span.end - span.start).total_seconds()))
            for span in spans
        ),
        f"{left_out:,} more times." if left_out else "" if spans else "Never.",
    )


def _limit_table(part: LimitPart) -> Table:
    return Table(
        f"{inert(part.address)}, {inert(part.key)}, cluster {spell_name(part.cluster)}",
        ("#limit", "@from", "@to", "set by"),
        tuple(
            (
                value_text(part.key, limit.value),
                minute_text(limit.start),
                "now" if limit.end is None else minute_text(limit.end),
                inert(limit.changed_by) if limit.changed_by else "-",
            )
            for limit in part.limits
        ),
    )
