"""What a plan would have throttled, on DataFrames: what was asked of each bucket, replayed.

`_low` and `_high` bound what is not known; docs/usage-backtest.md says what a recording cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from msgspec import Struct
from pyspark.sql import functions as f

from quotaform.model.quota_key import QUOTA_KEYS, Enforcement
from quotaform.plan.backtest import Backtest
from quotaform.report.report import MOST_POINTS, Plot, Span
from quotaform.resolve.spark import HeldQuotas
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.bucket import (
    Booleans,
    BucketRows,
    Floats,
    RecordedBucket,
    RecordedSeries,
    SeriesBucket,
    finite_limit,
    moment_of,
    starts_of,
)
from quotaform.usage.bucket.spark import Find, packed_usage, per_bucket, quota_buckets
from quotaform.usage.replay.replay import VARIANTS, DemandSeries, Replay, divided, replay
from quotaform.usage.replay.report import DrawnBucket, ReplaySlot, drawn_buckets, replay_plots
from quotaform.usage.table.schema import BACKTEST
from quotaform.usage.table.table import EVERY_CLUSTER, Clusters, PlainFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def replayable(
    usage: DataFrame,
    quotas: HeldQuotas,
    before: HeldQuotas,
    clusters: Clusters = EVERY_CLUSTER,
    files: PlainFiles | None = None,
) -> DataFrame:
    """Return `PACKED` with the buckets of series under quotas as they would be, and what limited the series before.

    A limit that no rate can exceed is none.
    """
    return packed_usage(usage, partial(_finite, quota_buckets(quotas, before)), clusters, files)


def _finite(find: Find, series: RecordedSeries) -> Iterator[SeriesBucket]:
    for found in find(series):
        yield found._replace(
            limit=finite_limit(series.key, found.limit),
            least_limit=finite_limit(series.key, found.least_limit),
            before_limit=finite_limit(series.key, found.before_limit),
        )


IS_LIMITED: Final = "least_limit IS NOT NULL OR before_limit IS NOT NULL"
"""Whether a limit holds for a series, before or after."""


class ReplayedBucket(Struct, frozen=True, eq=False):
    """What was recorded of a bucket on a broker, and what would have happened to it, by time."""

    demand: DemandSeries
    limit: float  # The limit; NaN if there is none
    enforcement: Enforcement
    replay: Replay
    throttle_ms: Floats  # The largest throttle time of the series; NaN without any
    is_newly_throttled: Booleans  # Whether requests were throttled since the time before


def replayed(rows: BucketRows, limit: float, enforcement: Enforcement) -> ReplayedBucket | None:
    """Return what would have happened to a bucket; `None` if no rate was recorded."""
    rated = ~numpy.isnan(rows.rate)
    if not rated.any():
        return None
    rate_high = None if rows.rate_high is None else rows.rate_high[rated]
    demand = DemandSeries(rows.at[rated], rows.rate[rated], rows.window_s[rated], rate_high)
    return ReplayedBucket(
        demand=demand,
        limit=limit,
        enforcement=enforcement,
        replay=replay(demand, limit, enforcement),
        throttle_ms=rows.throttle_ms[rated],
        is_newly_throttled=rows.is_newly_throttled[rated],
    )


def _replayed(bucket: RecordedBucket) -> ReplayedBucket | None:
    """Return what would have happened to a bucket; where parts cannot be told apart, by the least of their limits.

    No one waits longer than all of it would under that.
    """
    choose, name = (min, "least_limit") if _is_coarse(bucket) else (max, "limit")
    limit = _chosen(choose, (getattr(each, name) for each in bucket.series))
    known = QUOTA_KEYS.get(bucket.key)
    enforcement = Enforcement() if known is None else known.enforcement
    return replayed(bucket.rows, numpy.nan if limit is None else limit, enforcement)


def _is_coarse(bucket: RecordedBucket) -> bool:
    return bucket.is_sum or any(each.is_coarse for each in bucket.series)


def backtest(recording: DataFrame) -> DataFrame:
    """Return `BACKTEST` of all buckets that have a limit, before or after.

    `recording`: `replayable`, persisted.
    """
    return per_bucket(recording.where(IS_LIMITED), _tested, BACKTEST)


def _tested(bucket: RecordedBucket) -> dict[str, Any] | None:
    """Return the columns of `BACKTEST` of a bucket on a broker."""
    made, is_coarse = _replayed(bucket), _is_coarse(bucket)
    if made is None:
        return None
    found = _totals(made)
    if is_coarse:
        # Whether and how long a part waits is not known, unless not even all of it would.
        if found["throttled_s_high"] > 0:
            found |= {"throttled_s": None, "delay_s_max": None}
        found |= {"throttled_s_low": 0.0, "delay_s_max_low": 0.0}
        found |= dict.fromkeys(("first_throttled", "last_throttled", "worst_at", "backlog_s", "longest_s"))
    elif found["longest_s"] is not None:
        found["longest_s"] = min(found["longest_s"], found["throttled_s"])
    return {
        **bucket.place,
        **found,
        **{
            name: _chosen(max, (getattr(each, name) for each in bucket.series))
            for name in ("limit", "source", "before_limit")
        },
        "entity_key": _chosen(max, (each.entity for each in bucket.series)),
        "is_changed": any(_is_changed(each, bucket.is_sum) for each in bucket.series),
        "is_coarse": is_coarse,
    }


def _chosen(choose: Callable[..., Any], values: Iterable[Any]) -> Any:
    """Return the largest or the least of the values that there are; `None` without any."""
    return choose((value for value in values if value is not None), default=None)


def _is_changed(series: SeriesBucket, is_sum: bool) -> bool:
    """Whether a plan changes the limit of a series, or who shares it."""
    is_same = series.limit == series.before_limit and series.bucket == series.before_bucket
    # Two series of one bucket that had different limits: the plan changes what at least one of them had.
    is_split = (series.is_coarse or is_sum) and series.least_limit != series.before_limit
    return not is_same or is_split


def _totals(bucket: ReplayedBucket) -> dict[str, Any]:
    """Return the columns of `BACKTEST` that are computed of samples."""
    demand, replay = bucket.demand, bucket.replay
    step, estimate = replay.step_s, replay.waits[""]
    when = demand.at[estimate.waited > 0]
    found: dict[str, Any] = {
        "samples": len(demand.at),
        "recorded_s": step.sum(),
        "first_throttled": int(when[0]) if len(when) else None,
        "last_throttled": int(when[-1]) if len(when) else None,
        "longest_s": _most(replay.episode_s),
        "worst_at": int(when[estimate.delay[estimate.waited > 0].argmax()]) if len(when) else None,
        "backlog_s": _most(replay.backlog_s[-1:]),
        "over_max": _most(divided(demand.rate, bucket.limit)),
        "refused": None,
        "recorded_throttled_s": step[bucket.is_newly_throttled].sum(),
        "recorded_throttle_ms_max": _most(bucket.throttle_ms),
        "hidden_s": step[~numpy.isnan(bucket.throttle_ms)].sum(),
    }
    for variant in VARIANTS:
        wait = replay.waits[variant]
        found[f"throttled_s{variant}"] = wait.waited.sum()
        found[f"delay_s_max{variant}"] = _most(wait.delay[wait.waited > 0])
    if bucket.enforcement.is_refused:
        found["refused"] = numpy.fmax(0.0, (demand.rate - bucket.limit) * step).sum()
    return found


def _most(values: Floats) -> float | None:
    """Return the largest of values; `None` if there are none."""
    found = values[~numpy.isnan(values)]
    return float(found.max()) if len(found) else None


_SLOTS: Final = struct(
    "cluster broker key bucket string", "at long", "rate throttle_ms start end start_high end_high double"
)


def replays(recording: DataFrame, tested: Backtest) -> dict[DrawnBucket, tuple[Plot, ...]]:
    """Return what would have happened over time to the buckets of a backtest that are drawn.

    `recording`: `replayable`, persisted.
    """
    drawn = {(cluster, row.broker, row.key, row.bucket): (cluster, row) for cluster, row in drawn_buckets(tested)}
    if not drawn:
        return {}
    times = [time for each in tested.clusters for time in (each.first, each.last) if time is not None]
    step_s = ceil(((max(times) - min(times)).total_seconds() + 1) / MOST_POINTS)
    own = recording.where(IS_LIMITED).where(f.col("bucket").isin([row.bucket for _, row in drawn.values()]))
    slots: dict[tuple[Any, ...], list[ReplaySlot]] = {place: [] for place in drawn}
    for row in per_bucket(own, partial(_slots, step_s, {*drawn}), _SLOTS).orderBy("at").toArrow().to_pylist():
        waits, may_wait = (
            None if row[start] is None else Span(moment_of(row[start]), moment_of(row[end]))
            for start, end in (("start", "end"), ("start_high", "end_high"))
        )
        slots[row["cluster"], row["broker"], row["key"], row["bucket"]].append(
            ReplaySlot(
                at=moment_of(row["at"]),
                rate=row["rate"],
                throttle_ms=row["throttle_ms"],
                waits=waits,
                may_wait=may_wait,
            )
        )
    return {of: tuple(replay_plots(*of, slots[place], step_s)) for place, of in drawn.items()}


def _slots(step_s: int, drawn: Collection[tuple[Any, ...]], bucket: RecordedBucket) -> dict[str, Any] | None:
    """Return the columns of `_SLOTS` of a bucket, if it is drawn."""
    made = _replayed(bucket) if tuple(bucket.place.values()) in drawn else None
    if made is None:
        return None
    found = replay_slots(step_s, made)
    return {**found, **{name: [value] * len(found["at"]) for name, value in bucket.place.items()}}


def replay_slots(step_s: int, bucket: ReplayedBucket) -> dict[str, Any]:
    """Return the highest of each slot, and from when to when requests waited in it.

    `step_s`: how long a slot is.
    """
    at = bucket.demand.at
    starts = starts_of(at // (step_s * 1_000_000))
    found = {
        "at": numpy.maximum.reduceat(at, starts),
        "rate": numpy.maximum.reduceat(bucket.demand.rate, starts),
        "throttle_ms": numpy.fmax.reduceat(bucket.throttle_ms, starts),
    }
    for name in ("", "_high"):
        waited = bucket.replay.waits[name].waited > 0
        begin = numpy.where(waited, at - bucket.replay.step_s * 1e6, numpy.nan)
        found[f"start{name}"] = numpy.fmin.reduceat(begin, starts)
        found[f"end{name}"] = numpy.fmax.reduceat(numpy.where(waited, at, numpy.nan), starts)
    return found
