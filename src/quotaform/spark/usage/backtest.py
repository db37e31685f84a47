"""What a plan would have throttled: recorded usage, replayed against the limits that the plan would make.

| what a recording cannot show | in the table |
| --- | --- |
| what happened between the windows that were recorded | `_low` and `_high` |
| demand that throttling held back while it was recorded | `hidden_s`; the prediction is a lower bound there |
| which part of what was recorded is of a finer bucket | `is_coarse`: no estimate; as upper bound that of all of it |

The model of what brokers do is that of `quotaform.spark.usage.backlog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.spark.usage.backlog import waits
from quotaform.spark.usage.demand import demand
from quotaform.spark.usage.schemas import BACKTEST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def backtest(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return `schemas.BACKTEST` of all buckets that have a limit, before or after.

    The usage is shuffled once, by bucket.

    Args:
        usage: `schemas.USAGE`.
        found: `quotaform.spark.usage.demand.members`, persisted: they are read several times.
    """
    tested = tested_buckets(found)
    # Of parts that cannot be told apart, no one waits longer than all of it would under the least of the limits.
    limit = f.when(f.col("is_coarse"), f.col("least_limit")).otherwise(f.col("limit"))
    limits = tested.select("bucket_id", "key", limit.alias("limit"), "pace_s")
    totals = _totals(waits(demand(usage, found), limits))
    rows = totals.join(f.broadcast(tested.drop("pace_s", "least_limit")), "bucket_id")
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


def tested_buckets(found: DataFrame) -> DataFrame:
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
        f.min("least_limit").alias("least_limit"),
        f.bool_or(is_other).alias("is_changed"),
        f.bool_or("is_coarse").alias("is_coarse"),
        f.min("pace_s").alias("pace_s"),
    )


def _totals(rows: DataFrame) -> DataFrame:
    """Return what the rows of `schemas.WAITS` amount to, per bucket and broker."""
    time = f.timestamp_micros("at")
    waited = f.col("wait_s") > 0
    return rows.groupBy("bucket_id").agg(
        f.count("*").alias("samples"),
        f.sum("step_s").alias("recorded_s"),
        *(f.sum(f"wait_s{each}").alias(f"throttled_s{each}") for each in ("", "_low", "_high")),
        f.min(f.when(waited, time)).alias("first_throttled"),
        f.max(f.when(waited, time)).alias("last_throttled"),
        f.max("episode_s").alias("longest_s"),
        *(f.max(_delay(each)).alias(f"delay_s_max{each}") for each in ("", "_low", "_high")),
        f.max_by(f.when(waited, time), _delay("")).alias("worst_at"),
        f.max_by("backlog_s", "at").alias("backlog_s"),
        f.max("ratio").alias("over_max"),
        f.sum("refused").alias("refused"),
        f.sum("recorded_wait_s").alias("recorded_throttled_s"),
        f.max("throttle_ms").alias("recorded_throttle_ms_max"),
        f.sum("hidden_s").alias("hidden_s"),
    )


def _delay(variant: str) -> Column:
    """Return the longest wait of a row in which requests wait."""
    return f.when(f.col(f"wait_s{variant}") > 0, f.col(f"delay_s{variant}"))
