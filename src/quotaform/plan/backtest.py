"""What a plan would have throttled, by a recording of usage, as records and in words; `quotaform.usage.replay.run`
computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import field

from quotaform.model.moment import spell_second
from quotaform.model.records.record import ClusterName, Count, Moment, QuotaKeyName, Record, about
from quotaform.model.text import inert
from quotaform.report.report import Column, ColumnKind, Section, Table
from quotaform.report.text import counted, short_limit_text, span_text

MOST_IN_PLAN: Final = 10
"""How many buckets of each kind a plan holds and prints; `quotaform usage backtest` has all of them."""


class Estimate(Record):
    """A number, and what it may be at least and at most."""

    value: Annotated[float | None, about("The estimate; null if there are only bounds.")] = field(name="estimate")
    low: Annotated[float, about("The lower bound.")]
    high: Annotated[float, about("The upper bound.")]


class BucketBacktest(Record):
    """What would have happened to a bucket on a broker."""

    broker: Annotated[str | None, about("The broker; null if the limit is one of the cluster.")]
    key: QuotaKeyName
    bucket: Annotated[str, about("The address of the bucket.")]
    limit: Annotated[float | None, about("The limit under the plan, or null.")]
    entity_key: Annotated[str | None, about("The address of the entity whose value the limit is, or null.")] = field(
        name="entity"
    )
    before_limit: Annotated[float | None, about("The limit without the plan, or null.")] = field(name="before")
    samples: Annotated[Count, about("How many times with a rate were recorded.")]
    recorded_s: Annotated[float, about("For how many seconds they stand.")]
    throttled_s: Annotated[Estimate, about("Seconds in which requests would have waited.")]
    first_throttled: Annotated[Moment | None, about("The first time at which they would have waited, or null.")]
    last_throttled: Annotated[Moment | None, about("The last time, or null.")]
    longest_s: Annotated[float | None, about("The longest time without an end, in seconds; null if there is none.")]
    delay_s_max: Annotated[Estimate, about("The longest wait, in seconds.")]
    worst_at: Annotated[Moment | None, about("When that was, or null.")]
    backlog_s: Annotated[
        float | None, about("Seconds after the recording until nothing waits any more, if nothing else comes, or null.")
    ]
    over_max: Annotated[float | None, about("The highest rate / limit; null without a limit.")]
    refused: Annotated[float | None, about("Connections that would have been refused; null for other keys.")]
    recorded_throttled_s: Annotated[float, about("Seconds in which requests were throttled really.")]
    recorded_throttle_ms_max: Annotated[float | None, about("The largest average delay then, in ms, or null.")]
    hidden_s: Annotated[float, about("Seconds in which throttling hid a part of the demand.")]
    is_coarse: Annotated[bool, about("Whether the recording cannot tell which part of it is of the bucket.")] = field(
        name="coarse"
    )


class Buckets(Record):
    """The buckets whose limit the plan changes, or the others; each is counted per broker."""

    buckets: Annotated[Count, about("All of them.")] = 0
    throttled: Annotated[Count, about("Those in which requests would have waited.")] = 0
    possible: Annotated[Count, about("Those in which only the upper bound says so.")] = 0
    recorded: Annotated[Count, about("Those in which requests were throttled really.")] = 0
    hidden: Annotated[Count, about("Those of which throttling hid a part of the demand.")] = 0
    coarse: Annotated[
        Count, about("Those of which the recording cannot tell which part is theirs, unless none of it waits.")
    ] = 0
    affected: Annotated[Count, about("Those in which requests would or may have waited, or did wait.")] = 0
    rows: Annotated[
        tuple[BucketBacktest, ...],
        about(f"The first of the affected, by how long they would have waited; in a plan at most {MOST_IN_PLAN}."),
    ] = ()


class ClusterBacktest(Record):
    """What a plan would have throttled on a cluster, by recorded usage."""

    usage: Annotated[str, about("The usage table, as given.")]
    cluster: ClusterName
    plan_id: Annotated[str, about("The id of the plan.")]
    first: Annotated[Moment | None, about("The time of the first sample; null if nothing is recorded.")]
    last: Annotated[Moment | None, about("The time of the last sample; null if nothing is recorded.")]
    series: Annotated[Count, about("Recorded series.")]
    unlimited: Annotated[Count, about("Recorded series that nothing limits, neither before nor after.")]
    changed: Annotated[Buckets, about("The buckets whose limit the plan changes, or who shares it.")]
    unchanged: Annotated[Buckets, about("The other buckets.")]


class Backtest(Record, document="usage-backtest"):
    """The result of quotaform usage backtest."""

    usage: Annotated[str, about("The usage table, as given.")]
    clusters: Annotated[tuple[ClusterBacktest, ...], about("What the plan of each cluster would have throttled.")]
    unknown: Annotated[
        tuple[str, ...],
        about(
            "Clusters of which usage is recorded and that were not tested, at most 100; the empty name is that of rows "
            "without a cluster."
        ),
    ] = field(default=(), name="not_tested")


TITLE: Final = "Backtest"
_COLUMNS: Final = (
    Column("bucket", ColumnKind.NAME), Column("key", ColumnKind.NAME), "limit", "backtest",
    Column("when", ColumnKind.DETAIL), Column("details", ColumnKind.DETAIL),
)  # fmt: skip


def backtest_section(found: ClusterBacktest | None) -> Iterator[Section]:
    """Yield the backtest of a plan, with the buckets that its changes throttle; nothing without one."""
    if found is None:
        return
    rows = []
    for row in found.changed.rows:
        bucket = f"{inert(row.bucket)}{'' if row.broker is None else f' on broker {inert(row.broker)}'}"
        before, limits = short_limit_text(row.key, row.before_limit), short_limit_text(row.key, row.limit)
        if before != limits:
            limits = f"{before} -> {limits}"
        rows.append((bucket, row.key, limits, throttled_text(row), when_text(row), detail_text(row)))
    left = found.changed.affected - len(rows)
    more = f"and {left:,} more (list: quotaform usage backtest)" if left > 0 else ""
    yield Section(
        Table("Changed limits that would throttle", _COLUMNS, tuple(rows), more, line="{}  {} {}: {}", is_folded=True),
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
        yield (
            f"{counted(hidden, 'bucket')} throttled in the recording, which hid part of the demand: predictions are "
            "lower bounds."
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
    if row.first_throttled is not None and row.last_throttled is not None:
        parts.append(f"from {spell_second(row.first_throttled)} to {spell_second(row.last_throttled)}")
    if row.longest_s:
        parts.append(f"longest {span_text(row.longest_s)}")
    if row.delay_s_max.high > 0 and not row.is_coarse:
        worst = "" if row.worst_at is None else f" at {spell_second(row.worst_at)}"
        parts.append(f"longest delay {estimate_text(row.delay_s_max)}{worst}")
    return ", ".join(parts)


def detail_text(row: BucketBacktest) -> str:
    """Return how much over the limit, and what the numbers rest on."""
    parts = []
    if row.backlog_s:
        parts.append(f"backlog of {span_text(row.backlog_s)} at the end")
    if row.refused:
        parts.append(f"{row.refused:,.0f} connections refused")
    if row.over_max is not None:
        parts.append(f"peak rate {row.over_max * 100:,.0f}% of the limit")
    if row.entity_key is not None and row.entity_key != row.bucket:
        parts.append(f"limit set by {inert(row.entity_key)}")
    if row.hidden_s:
        parts.append(f"demand hidden for {span_text(row.hidden_s)}")
    parts.append(f"{span_text(row.recorded_s)} recorded")
    return ", ".join(parts)
