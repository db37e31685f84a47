"""What was asked of each bucket, time by time: the recorded series of a bucket on a broker, added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.spark.usage.bucket import CLUSTER_KEYS, OF_SERIES, buckets, recorded_series, same_columns
from quotaform.spark.usage.schemas import BUCKET_NAMES, BUCKETS, DEMAND, MEMBERS, RECORDED, SERIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_AT_LIMIT: Final = 0.95
"""From which part of the limit on a rate is as high as the limit lets it be, as the window of a rate is not exact."""


def recorded(usage: DataFrame) -> DataFrame:
    """Return `schemas.RECORDED`: the recorded series, and how much there is of each.

    Args:
        usage: `schemas.USAGE`.
    """
    return (
        usage.groupBy(*SERIES)
        .agg(f.min("ts").alias("first"), f.max("ts").alias("last"), f.count("rate").alias("samples"), _pace())
        .select(*RECORDED.names)
    )


def members(series: DataFrame, quotas: DataFrame, before: DataFrame) -> DataFrame:
    """Return `schemas.MEMBERS`: the recorded series that a limit holds for, before or after, and their buckets.

    Args:
        series: `recorded`, persisted: they are read several times.
        quotas: `quotaform.spark.schemas.QUOTAS` as they would be, a table or persisted.
        before: The same as they are.
    """
    names = recorded_series(series)
    others = [f.col(f"after.{name}").alias(name) for name in BUCKETS.names if name not in SERIES]
    found = (
        buckets(names, quotas, before)
        .alias("after")
        .join(buckets(names, before).alias("before"), same_columns("after", "before", OF_SERIES))
        .select(
            *(f.col(f"after.{name}") for name in OF_SERIES),
            *others,
            f.col("before.limit").alias("before_limit"),
            f.col("before.bucket").alias("before_bucket"),
        )
    )
    rows = series.alias("recorded").join(
        f.broadcast(found.alias("found")), same_columns("recorded", "found", OF_SERIES)
    )
    broker = f.when(~f.col("recorded.key").isin(CLUSTER_KEYS), f.col("recorded.broker"))
    known = {name: _finite(f.col(f"found.{name}")) for name in ("limit", "least_limit", "before_limit")}
    # What clients measure is the sum of all brokers, each of which has the whole limit.
    is_sum = f.col("recorded.broker").isNull() & ~f.col("recorded.key").isin(CLUSTER_KEYS)
    known["is_coarse"] = f.col("found.is_coarse") | is_sum
    return (
        rows.select(
            *(f.col(f"recorded.{name}") for name in (*SERIES, "pace_s")),
            broker.alias("bucket_broker"),
            *(known.get(name, f.col(f"found.{name}")).alias(name) for name in found.columns if name not in SERIES),
        )
        .where(f.col("least_limit").isNotNull() | f.col("before_limit").isNotNull())
        .withColumn("bucket_id", f.xxhash64("cluster", "bucket_broker", "key", "bucket"))
        .withColumn("series_id", f.xxhash64("broker", *BUCKET_NAMES))
        .select(*MEMBERS.names)
    )


def _pace() -> Column:
    """Return the seconds between two samples: of short recordings the mean step, and of others that of the minutes in
    which there are samples, so that gaps do not count."""
    rates = f.count("rate")
    seconds = f.timestamp_diff("MICROSECOND", f.min("ts"), f.max("ts")) / 1e6
    minutes = f.approx_count_distinct(f.date_trunc("minute", "ts")) * 60
    return f.least(f.try_divide(seconds, rates - 1), f.try_divide(minutes, rates)).alias("pace_s")


def _finite(limit: Column) -> Column:
    """Return a limit, null if it limits nothing: the maximum of its key and more, and on most keys NaN."""
    maximum = f.coalesce(*(f.when(f.col("found.key") == key.name, key.maximum) for key in QUOTA_KEYS.values()))
    return f.when(limit < maximum, limit)


def demand(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return `schemas.DEMAND`: a row per bucket, broker and time, where a series counts once per time.

    The rows are in partitions of their buckets: nothing that follows has to be shuffled.

    Args:
        usage: `schemas.USAGE`.
        found: `members`, few enough to be broadcast.
    """
    rate = f.when((f.col("rate") >= 0) & (f.col("rate") < float("inf")), f.col("rate"))
    window = f.when((f.col("window_s") > 0) & (f.col("window_s") < float("inf")), f.col("window_s"))
    throttle = f.when((f.col("throttle_ms") > 0) & (f.col("throttle_ms") < float("inf")), f.col("throttle_ms"))
    known = usage.where(f.col("ts").isNotNull()).alias("usage")
    own = f.broadcast(found.select(*SERIES, "bucket_id", "series_id", "before_limit").alias("member"))
    rows = known.join(own, same_columns("usage", "member", SERIES)).select(
        "bucket_id",
        "series_id",
        f.unix_micros("ts").alias("at"),
        window.alias("window_s"),
        rate.alias("rate"),
        throttle.alias("throttle_ms"),
        "before_limit",
    )
    # A recording that was ingested twice has a time twice, and some sources give rates and throttle times apart.
    once = (
        rows.repartition("bucket_id")
        .groupBy("bucket_id", "series_id", "at")
        .agg(*(f.max(name).alias(name) for name in ("window_s", "rate", "throttle_ms", "before_limit")))
    )
    is_at_limit = f.col("throttle_ms").isNotNull() & (f.col("rate") >= f.col("before_limit") * _AT_LIMIT)
    return (
        once.groupBy("bucket_id", "at")
        .agg(
            f.sum("rate").alias("rate"),
            f.max("window_s").alias("window_s"),
            f.max("throttle_ms").alias("throttle_ms"),
            f.sum("throttle_ms").alias("throttle_sum"),
            f.coalesce(f.bool_or(is_at_limit), f.lit(False)).alias("is_at_limit"),
        )
        .where(f.col("rate").isNotNull())
        .select(*DEMAND.names)
    )
