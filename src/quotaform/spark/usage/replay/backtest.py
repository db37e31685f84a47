"""What a plan would have throttled: recorded usage, replayed against the limits that the plan would make.

| what a recording cannot show | in the table |
| --- | --- |
| what happened between the windows that were recorded | `_low` and `_high` |
| demand that throttling held back while it was recorded | `hidden_s`; the prediction is a lower bound there |
| which part of what was recorded is of a finer bucket | `is_coarse`: no estimate; as upper bound that of all of it |

The model of what brokers do is that of `quotaform.spark.usage.replay.backlog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from pyspark.sql import functions as f

from quotaform.spark.usage.bucket.bucket_rows import BucketRows, Floats, bucket_rows, per_bucket
from quotaform.spark.usage.replay.backlog import VARIANTS, divided
from quotaform.spark.usage.replay.demand import REPLAYED, ReplayedBucket, replayed
from quotaform.spark.usage.schemas import BACKTEST, TOTALS, WAITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = ("first_throttled", "last_throttled", "worst_at")


def backtest(usage: DataFrame, found: DataFrame, series: int, samples: int) -> DataFrame:
    """Return `schemas.BACKTEST` of all buckets that have a limit, before or after.

    The usage is shuffled once, by bucket.

    Args:
        found: `quotaform.spark.usage.replay.demand.members`, persisted: it is read twice.
        series: How many rows these are.
        samples: About how many samples they have.
    """
    totals = per_bucket(bucket_rows(usage, found, series, REPLAYED), samples, _totals, TOTALS)
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
    """Return `schemas.WAITS` of some buckets; the arguments are those of `backtest`."""
    return per_bucket(bucket_rows(usage, found, 0, REPLAYED), 0, _waits, WAITS)


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
    """Return the columns of `schemas.TOTALS` of a bucket on a broker."""
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
    """Return the columns of `schemas.WAITS` of a bucket on a broker."""
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
