"""What buckets used on each day: the samples of a usage table, shuffled once."""

from __future__ import annotations

from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from quotaform.spark.usage.bucket import CLUSTER_KEYS, OF_SERIES, same_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF_BUCKET: Final = ("cluster", "key", "bucket")
DAY_S: Final = 86_400
_HOUR_S: Final = 3600
_HOURS: Final = 24

BUCKET_DAYS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("key", StringType()),
        StructField("bucket", StringType()),
        StructField("broker", StringType()),
        StructField("entity_key", StringType()),
        StructField("limit", DoubleType()),
        StructField("is_coarse", BooleanType()),
        StructField("day", LongType()),
        StructField("hours", LongType()),
        StructField("basis", DoubleType()),
        StructField("samples", LongType()),
        StructField("throttled", LongType()),
        StructField("first", TimestampType()),
        StructField("last", TimestampType()),
        StructField("last_used", TimestampType()),
    ]
)
"""What each bucket used of each broker on each day (UTC).

| column | content |
| --- | --- |
| day | days since 1970-01-01 |
| hours | the hours of the day with a sample, a bit for each |
| basis | the percentile of the rates; null without a rate |
| samples, throttled | times with a rate, and with a throttle time above 0 |
| first, last, last_used | times: of the first and the last sample, and of the last one with a rate above 0 |
"""

RECORDED: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("key", StringType()),
        StructField("key_first", TimestampType()),
        StructField("key_last", TimestampType()),
        StructField("recent_hours", LongType()),
    ]
)
"""When each quota key was recorded on each cluster; see `core.usage.sizing.demand.Recorded`."""


def bucket_days(usage: DataFrame, found: DataFrame, percentile: float) -> DataFrame:
    """Return `BUCKET_DAYS`: what each bucket used of each broker on each day.

    A series counts once per time, however often it is there, and the series of a bucket are added up per time. Of
    several brokers that report a series whose limit is one of the cluster, the highest rate counts. Rates that are no
    numbers from 0 on are left out. Samples are shuffled once, as numbers.

    Args:
        usage: `schemas.USAGE`.
        found: `schemas.BUCKETS` of its series, a table or persisted.
        percentile: Of the rates of a day, above 0 and up to 100.
    """
    series = found.withColumns(
        {
            "number": f.dense_rank().over(Window.orderBy(*OF_BUCKET)),
            "member": f.row_number().over(Window.orderBy(*OF_SERIES)),
        }
    )
    samples = _samples(usage, series.select(*OF_SERIES, "number", "member"))
    place = ["number", "broker", "day"]
    throttled = f.max("is_throttled").alias("is_throttled")
    # What follows groups by these columns and others, in the same tasks.
    once = samples.repartition(*place).groupBy(*place, "member", "at").agg(f.max("rate").alias("rate"), throttled)
    added = once.groupBy(*place, "at").agg(f.sum("rate").alias("rate"), throttled)
    rates = f.sort_array(f.collect_list("rate")).alias("rates")
    days = added.groupBy(*place).agg(
        f.bit_or(f.expr(f"shiftleft(1L, {hour_of('at')})")).alias("hours"),
        rates,
        f.count("rate").alias("samples"),
        f.count_if("is_throttled").alias("throttled"),
        f.timestamp_micros(f.min("at")).alias("first"),
        f.timestamp_micros(f.max("at")).alias("last"),
        f.timestamp_micros(f.max(f.when(f.col("rate") > 0, f.col("at")))).alias("last_used"),
    )
    rank = f.ceil(f.round(f.col("samples") * percentile / 100, 6)).cast("int")
    buckets = series.groupBy("number", *OF_BUCKET).agg(
        f.first("entity_key").alias("entity_key"),
        f.first("limit").alias("limit"),
        f.bool_or("is_coarse").alias("is_coarse"),
    )
    return (
        days.withColumn("basis", f.get("rates", rank - 1))
        .join(f.broadcast(buckets), "number")
        .select(*BUCKET_DAYS.names)
    )


def _samples(usage: DataFrame, series: DataFrame) -> DataFrame:
    """Return usage as numbers: `number` of the bucket, `member`, `broker`, `day`, `at` (microseconds) and values."""
    joined = (
        usage.where(f.col("ts").isNotNull())
        .alias("usage")
        .join(f.broadcast(series.alias("own")), same_columns("usage", "own", OF_SERIES))
    )
    rate, throttle = f.col("rate"), f.col("throttle_ms")
    return joined.select(
        "number",
        "member",
        f.when(~f.col("usage.key").isin(CLUSTER_KEYS), f.col("usage.broker")).alias("broker"),
        f.floor(f.unix_seconds("ts") / DAY_S).alias("day"),
        f.unix_micros("ts").alias("at"),
        # In SQL a NaN is larger than anything.
        f.when((rate >= 0) & (rate <= float_info.max), rate).alias("rate"),
        ((throttle > 0) & (throttle <= float_info.max)).alias("is_throttled"),
    )


def recorded(days: DataFrame, unused_after_days: float) -> DataFrame:
    """Return `RECORDED`.

    Args:
        days: `bucket_days`, persisted: they are read several times.
        unused_after_days: After how many days without use a quota counts as unused.
    """
    of_key = ["cluster", "key"]
    span = days.groupBy(*of_key).agg(f.min("first").alias("key_first"), f.max("last").alias("key_last"))
    last_hour = f.floor(f.unix_seconds("key_last") / _HOUR_S)
    # The first of the hours that count, from the start of a day on.
    skipped = (last_hour - ceil(unused_after_days * _HOURS) + 1 - f.col("day") * _HOURS).cast("int")
    recent = key_days(days).join(span, of_key).withColumn("skipped", skipped).where(f.col("skipped") < _HOURS)
    counted = f.bit_count(f.expr("shiftright(hours, greatest(skipped, 0))"))
    return (
        recent.groupBy(*of_key, "key_first", "key_last")
        .agg(f.sum(counted).alias("recent_hours"))
        .select(*RECORDED.names)
    )


def hour_of(column: str) -> str:
    """Return the hour of the day (UTC) of a number of microseconds as SQL, whatever the time zone of the session is."""
    return f"CAST(pmod({column}, {DAY_S}000000) DIV {_HOUR_S}000000 AS INT)"


def key_days(days: DataFrame) -> DataFrame:
    """Return on which hours of which days a key was recorded: `cluster`, `key`, `day`, `hours`."""
    return days.groupBy("cluster", "key", "day").agg(f.bit_or("hours").alias("hours"))
