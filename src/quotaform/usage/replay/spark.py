"""What a plan would have throttled, on DataFrames: what was asked of each bucket, replayed.

| what a recording cannot show | in the table |
| --- | --- |
| what happened between the windows that were recorded | `_low` and `_high` |
| demand that throttling held back while it was recorded | `hidden_s`; the prediction is a lower bound there |
| which part of what was recorded is of a finer bucket | `is_coarse`: no estimate; as upper bound that of all of it |

The model of what brokers do is that of `quotaform.usage.replay.replay`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.table import make_table
from quotaform.model.quota_key import QUOTA_KEYS, Enforcement
from quotaform.plan.backtest import Backtest
from quotaform.report.report import MOST_POINTS, Span
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.rows import RECORDED_LIMIT, Booleans, BucketRows, Floats, per_bucket, starts_of
from quotaform.usage.bucket.spark import buckets, finite_limit, numbered, same_columns
from quotaform.usage.replay.replay import VARIANTS, Demand, Replay, divided, replay
from quotaform.usage.replay.report import Replays, ReplaySlot, drawn_buckets
from quotaform.usage.table.schema import BACKTEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


REPLAYED: Final = ("replayed_limit", RECORDED_LIMIT, "key_number")
"""The columns of `members` that a replay needs of each sample's series."""
_ENFORCEMENTS: Final = (Enforcement(), *(key.enforcement for key in QUOTA_KEYS.values()))
"""By `key_number`; the first for keys that this version does not know."""


def members(series: DataFrame, quotas: DataFrame, before: DataFrame) -> DataFrame:
    """Return the recorded series that a limit holds for, before or after, with their buckets: `numbered`, and these.

    | column | content |
    | --- | --- |
    | limit, least_limit, before_limit | null if nothing limits the series |
    | replayed_limit | that of the bucket; the least of its parts where they cannot be told apart |
    | key_number | stands for the quota key among numbers |

    `series`: `recorded`, persisted: they are read several times. `quotas`: `QUOTAS` as they
    would be. `before`: the same as they are.
    """
    found = buckets(series, quotas, before)
    known = {name: finite_limit(name) for name in ("limit", "least_limit", "before_limit")}
    rows = numbered(series, found.withColumns(known)).withColumn("is_coarse", f.col("is_coarse") | f.col("is_sum"))
    limited = rows.where(f.col("least_limit").isNotNull() | f.col("before_limit").isNotNull())
    bucket = Window.partitionBy("bucket_id")
    is_coarse = f.bool_or("is_coarse").over(bucket)
    # Of parts that cannot be told apart, no one waits longer than all of it would under the least of the limits.
    limit = f.when(is_coarse, f.min("least_limit").over(bucket)).otherwise(f.max("limit").over(bucket))
    number = f.create_map(*(f.lit(each) for place, key in enumerate(QUOTA_KEYS) for each in (key, place + 1)))
    return limited.withColumns(
        {"replayed_limit": limit, "key_number": f.coalesce(f.try_element_at(number, f.col("key")), f.lit(0))}
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedBucket:
    """What was recorded of a bucket on a broker, and what would have happened to it, by time."""

    demand: Demand
    limit: float  # The limit; NaN if there is none
    enforcement: Enforcement
    replay: Replay
    throttle_ms: Floats  # The largest throttle time of the series; NaN without any
    is_newly_throttled: Booleans  # Whether requests were throttled since the time before


def replayed(rows: BucketRows) -> ReplayedBucket | None:
    """Return what would have happened to a bucket; `None` if no rate was recorded.

    `rows`: with the columns `REPLAYED`.
    """
    rated = ~numpy.isnan(rows.rate)
    if not rated.any():
        return None
    limit, enforcement = rows.of_series["replayed_limit"], _ENFORCEMENTS[int(rows.of_series["key_number"])]
    rate_high = None if rows.rate_high is None else rows.rate_high[rated]
    demand = Demand(rows.at[rated], rows.rate[rated], rows.window_s[rated], rate_high)
    return ReplayedBucket(
        demand=demand,
        limit=limit,
        enforcement=enforcement,
        replay=replay(demand, limit, enforcement),
        throttle_ms=rows.throttle_ms[rated],
        is_newly_throttled=rows.is_newly_throttled[rated],
    )


_TIMES: Final = ("first_throttled", "last_throttled", "worst_at")
_COMPUTED: Final = BACKTEST.names[BACKTEST.names.index("recorded_s") : BACKTEST.names.index("is_coarse")]
_TOTALS: Final = struct("bucket_id samples long", " ".join((*_COMPUTED, "double")))
"""The columns of `BACKTEST` that are computed of samples; times are in microseconds since 1970."""


def backtest(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return `BACKTEST` of all buckets that have a limit, before or after.

    The usage is shuffled once, by bucket.

    `found`: `members`, persisted: it is read several times.
    """
    totals = per_bucket(usage, found, REPLAYED, _totals, _TOTALS)
    times = {name: f.timestamp_micros(f.col(name).cast("long")) for name in _TIMES}
    rows = totals.withColumns(times).join(f.broadcast(_tested_buckets(found)), "bucket_id")
    is_coarse = f.col("is_coarse")
    unknown = {
        "throttled_s": f.when(~is_coarse | (f.col("throttled_s_high") <= 0), f.col("throttled_s")),
        "delay_s_max": f.when(~is_coarse | (f.col("throttled_s_high") <= 0), f.col("delay_s_max")),
        **{name: f.when(is_coarse, 0.0).otherwise(f.col(name)) for name in ("throttled_s_low", "delay_s_max_low")},
        **{
            name: f.when(~is_coarse, f.col(name))
            for name in ("first_throttled", "last_throttled", "worst_at", "backlog_s")
        },
        "longest_s": f.when(~is_coarse & f.col("longest_s").isNotNull(), f.least("longest_s", "throttled_s")),
    }
    return rows.withColumns(unknown).select(*BACKTEST.names)


def _tested_buckets(found: DataFrame) -> DataFrame:
    """Return a row per bucket and broker."""
    # Two series of one bucket that had different limits: the plan changes what at least one of them had.
    is_split = f.col("is_coarse") & ~f.col("least_limit").eqNullSafe(f.col("before_limit"))
    is_same = f.col("limit").eqNullSafe(f.col("before_limit")) & (f.col("bucket") == f.col("before_bucket"))
    is_other = ~is_same | is_split
    return found.groupBy("bucket_id").agg(
        f.first("cluster").alias("cluster"),
        f.first("bucket_broker").alias("broker"),
        f.first("key").alias("key"),
        f.first("bucket").alias("bucket"),
        *(f.max(name).alias(name) for name in ("limit", "entity_key", "source", "before_limit")),
        f.bool_or(is_other).alias("is_changed"),
        f.bool_or("is_coarse").alias("is_coarse"),
    )


def _totals(rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `_TOTALS` of a bucket on a broker."""
    bucket = replayed(rows)
    if bucket is None:
        return None
    demand, replay = bucket.demand, bucket.replay
    step, estimate = replay.step_s, replay.waits[""]
    when = demand.at[estimate.waited > 0]
    found: dict[str, Any] = {
        "samples": len(demand.at),
        "recorded_s": step.sum(),
        "first_throttled": when[0] if len(when) else None,
        "last_throttled": when[-1] if len(when) else None,
        "longest_s": _most(replay.episode_s),
        "worst_at": when[estimate.delay[estimate.waited > 0].argmax()] if len(when) else None,
        "backlog_s": replay.backlog_s[-1],
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


_DRAWN: Final = ("cluster", "bucket_broker", "key", "bucket")
_SLOTS: Final = struct("bucket_id number at long", "rate throttle_ms start end start_high end_high double")


def replays(usage: DataFrame, found: DataFrame, tested: Backtest) -> Replays:
    """Return what would have happened over time to the buckets of a backtest that are drawn.

    `found`: `members`, persisted.
    """
    chosen = drawn_buckets(tested)
    if not chosen:
        return Replays()
    times = [time for each in tested.clusters for time in (each.first, each.last) if time is not None]
    step_s = ceil(((max(times) - min(times)).total_seconds() + 1) / MOST_POINTS)
    rows = [(number, cluster, each.broker, each.key, each.bucket) for number, (cluster, each) in enumerate(chosen)]
    kinds = struct("number long", " ".join((*_DRAWN, "string")))
    wanted = f.broadcast(make_table(usage.sparkSession, kinds, rows)).alias("wanted")
    own = found.alias("found").join(wanted, same_columns("found", "wanted", _DRAWN)).select("found.*", "number")
    points = per_bucket(usage, own, (*REPLAYED, "number"), partial(replay_slots, step_s), _SLOTS)
    slots: list[list[ReplaySlot]] = [[] for _ in chosen]
    for row in points.orderBy("number", "at").toArrow().to_pylist():
        slots[row["number"]].append(
            ReplaySlot(
                at=_time(row["at"]),
                rate=row["rate"],
                throttle_ms=row["throttle_ms"],
                waits=_span(row["start"], row["end"]),
                may_wait=_span(row["start_high"], row["end_high"]),
            )
        )
    return Replays(slots, float(step_s))


def replay_slots(step_s: int, rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `_SLOTS` of a bucket: the highest of each slot, and from when to when requests waited.

    `step_s`: how long a slot is.
    """
    bucket = replayed(rows)
    if bucket is None:
        return None
    at = bucket.demand.at
    starts = starts_of(at // (step_s * 1_000_000))
    found = {
        "at": numpy.maximum.reduceat(at, starts),
        "number": numpy.full(len(starts), int(rows.of_series["number"])),
        "rate": numpy.maximum.reduceat(bucket.demand.rate, starts),
        "throttle_ms": numpy.fmax.reduceat(bucket.throttle_ms, starts),
    }
    for name in ("", "_high"):
        waited = bucket.replay.waits[name].waited > 0
        begin = numpy.where(waited, at - bucket.replay.step_s * 1e6, numpy.nan)
        found[f"start{name}"] = numpy.fmin.reduceat(begin, starts)
        found[f"end{name}"] = numpy.fmax.reduceat(numpy.where(waited, at, numpy.nan), starts)
    return found


def _span(start: float | None, end: float | None) -> Span | None:
    return None if start is None or end is None else Span(_time(start), _time(end))


def _time(micros: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
