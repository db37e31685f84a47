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
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.model.quota_key import QUOTA_KEYS, Enforcement
from quotaform.usage.bucket.rows import RECORDED_LIMIT, Booleans, BucketRows, Floats, per_bucket
from quotaform.usage.bucket.spark import buckets, finite_limit, numbered
from quotaform.usage.replay.replay import VARIANTS, Demand, Replay, divided, pace_of, replay
from quotaform.usage.table.schema import BACKTEST, MEMBERS, TOTALS, WAITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


REPLAYED: Final = ("replayed_limit", RECORDED_LIMIT, "key_number")
"""The columns of `MEMBERS` that a replay needs of each sample's series."""
_ENFORCEMENTS: Final = (Enforcement(), *(key.enforcement for key in QUOTA_KEYS.values()))
"""By `key_number`; the first for keys that this version does not know."""


def members(series: DataFrame, quotas: DataFrame, before: DataFrame) -> DataFrame:
    """Return `MEMBERS`: the recorded series that a limit holds for, before or after, and their buckets.

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
    ).select(*MEMBERS.names)


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedBucket:
    """What was recorded of a bucket on a broker, and what would have happened to it, by time."""

    demand: Demand
    limit: float  # The limit; NaN if there is none
    enforcement: Enforcement
    replay: Replay
    throttle_ms: Floats  # The largest throttle time of the series; NaN without any
    is_throttled: Booleans  # Whether requests were throttled while it was recorded
    is_newly_throttled: Booleans
    """Whether some were since the time before: the throttle time of a broker stays for a minute."""


def replayed(rows: BucketRows) -> ReplayedBucket | None:
    """Return what would have happened to a bucket; `None` if no rate was recorded.

    `rows`: with the columns `REPLAYED`.
    """
    limit, key_number = (float(rows.of_series[name][0]) for name in ("replayed_limit", "key_number"))
    is_new = rows.newly_throttled()
    at, rate, window, throttle = rows.by_time()
    has_rate = ~numpy.isnan(rate)
    if not has_rate.all():
        at, is_new = at[has_rate], is_new[has_rate]
        rate, window, throttle = (each[has_rate] for each in (rate, window, throttle))
    if not len(at):
        return None
    rate_high = None if rows.instances is None else rows.instances.rate_high[has_rate]
    demand = Demand(at, rate, window, pace_of(at), rate_high)
    enforcement = _ENFORCEMENTS[int(key_number)]
    return ReplayedBucket(
        demand=demand,
        limit=limit,
        enforcement=enforcement,
        replay=replay(demand, limit, enforcement),
        throttle_ms=throttle,
        is_throttled=~numpy.isnan(throttle),
        is_newly_throttled=is_new,
    )


_TIMES = ("first_throttled", "last_throttled", "worst_at")


def backtest(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return `BACKTEST` of all buckets that have a limit, before or after.

    The usage is shuffled once, by bucket.

    `found`: `members`, persisted: it is read several times.
    """
    totals = per_bucket(usage, found, REPLAYED, _totals, TOTALS)
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


def waits(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return `WAITS` of some buckets; the arguments are those of `backtest`."""
    return per_bucket(usage, found, REPLAYED, _waits, WAITS)


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
    """Return the columns of `TOTALS` of a bucket on a broker."""
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
        "over_max": _most(_ratio(bucket)),
        "refused": None,
        "recorded_throttled_s": step[bucket.is_newly_throttled].sum(),
        "recorded_throttle_ms_max": _most(bucket.throttle_ms),
        "hidden_s": step[bucket.is_throttled].sum(),
    }
    for variant in VARIANTS:
        wait = replay.waits[variant]
        found[f"throttled_s{variant}"] = wait.waited.sum()
        found[f"delay_s_max{variant}"] = _most(wait.delay[wait.waited > 0])
    if bucket.enforcement.is_refused:
        found["refused"] = numpy.fmax(0.0, (demand.rate - bucket.limit) * step).sum()
    return found


def _waits(rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `WAITS` of a bucket on a broker."""
    bucket = replayed(rows)
    if bucket is None:
        return None
    return {
        "at": bucket.demand.at,
        "step_s": bucket.replay.step_s,
        "wait_s": bucket.replay.waits[""].waited,
        "wait_s_high": bucket.replay.waits["_high"].waited,
        "ratio": _ratio(bucket),
        "throttle_ms": bucket.throttle_ms,
    }


def _ratio(bucket: ReplayedBucket) -> Floats:
    return divided(bucket.demand.rate, bucket.limit)


def _most(values: Floats) -> float | None:
    """Return the largest of values; `None` if there are none."""
    found = values[~numpy.isnan(values)]
    return float(found.max()) if len(found) else None
