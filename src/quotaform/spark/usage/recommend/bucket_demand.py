"""What buckets used, per broker, from which right-sized quotas follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quotaform.core.usage.sizing.busiest_day import FIRST_WEEKDAY, STANDS_OUT, WEEKDAYS, WEEKLY_FACTOR
from quotaform.spark.usage.recommend.bucket_day import DAY_S, OF_BUCKET, key_days

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LIMITED: Final = ("entity_key", "limit", "is_coarse")

BUSIEST_DAY: Final = StructType(
    [
        StructField("basis", DoubleType()),
        StructField("day", LongType()),
        StructField("is_weekly", BooleanType()),
        StructField("weekday_days", LongType()),
        StructField("next_basis", DoubleType()),
        StructField("outlier", DoubleType()),
        StructField("outlier_day", LongType()),
    ]
)
"""See `core.usage.sizing.busiest_day.BusiestDay`."""

_BROKERS: Final = ArrayType(
    StructType(
        [
            StructField("broker", StringType()),
            StructField("busiest", BUSIEST_DAY),
            StructField("samples", LongType()),
            StructField("throttled", LongType()),
        ]
    )
)

BUCKET_DEMANDS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("key", StringType()),
        StructField("bucket", StringType()),
        StructField("entity_key", StringType()),
        StructField("limit", DoubleType()),
        StructField("is_coarse", BooleanType()),
        StructField("brokers", _BROKERS),
        StructField("first", TimestampType()),
        StructField("begin", TimestampType()),
        StructField("last_used", TimestampType()),
        StructField("hours", LongType()),
    ]
)
"""What each bucket used; see `core.usage.sizing.demand.BucketDemand`."""


def bucket_demands(days: DataFrame, outlier_days: int = 0) -> DataFrame:
    """Return `BUCKET_DEMANDS`.

    Args:
        days: `bucket_day.bucket_days`, persisted: they are read several times.
        outlier_days: How many of the highest days of each weekday are left out.
    """
    grouped = days.groupBy(*OF_BUCKET, "broker", *_LIMITED).agg(
        f.collect_list(f.when(f.col("basis").isNotNull(), f.struct("basis", "day"))).alias("days"),
        f.sum("samples").alias("samples"),
        f.sum("throttled").alias("throttled"),
        f.min("first").alias("first"),
        f.min("begin").alias("begin"),
        f.max("last_used").alias("last_used"),
    )
    brokers = grouped.withColumn("busiest", busiest_day(f.col("days"), outlier_days))
    demands = brokers.groupBy(*OF_BUCKET, *_LIMITED).agg(
        f.collect_list(f.struct("broker", "busiest", "samples", "throttled")).alias("brokers"),
        f.min("first").alias("first"),
        f.min("begin").alias("begin"),
        f.max("last_used").alias("last_used"),
    )
    first_day = f.floor(f.unix_seconds("first") / DAY_S)
    joined = demands.withColumn("day", first_day).join(_hours_from(key_days(days)), ["cluster", "key", "day"], "left")
    # The hour in UTC, whatever the time zone of the session is.
    hour = f"CAST(pmod(unix_micros(first), {DAY_S}000000) DIV 3600000000 AS INT)"
    of_first_day = f.bit_count(f.expr(f"shiftright(day_hours, {hour})"))
    hours = (f.coalesce(of_first_day, f.lit(0)) + f.coalesce("later_hours", f.lit(0))).cast("long")
    return joined.withColumn("hours", hours).select(*BUCKET_DEMANDS.names)


def busiest_day(days: Column, outlier_days: int) -> Column:
    """Return `BUSIEST_DAY` of the days of a bucket on a broker; null without a day.

    Args:
        days: An array of structs: `basis`, the percentile of a day, and `day`.
        outlier_days: How many of the highest days of each weekday are left out; its last day never is.
    """

    def weekday_of(day: Column) -> Column:
        return f.pmod(day["day"] + FIRST_WEEKDAY, f.lit(len(WEEKDAYS))).cast("int")

    def left(weekday: Column) -> Column:
        out = f.least(f.lit(outlier_days), f.greatest(f.size(weekday) - 1, f.lit(0)))
        return f.slice(weekday, out + 1, f.greatest(f.size(weekday), f.lit(1)))

    ordered = f.sort_array(days, asc=False)
    numbers = f.array(*(f.lit(number) for number in range(len(WEEKDAYS))))
    weekdays = f.transform(numbers, lambda number: f.filter(ordered, lambda day: weekday_of(day) == number))
    counted = f.sort_array(f.flatten(f.transform(weekdays, left)), asc=False)
    highest, best = f.get(ordered, f.lit(0)), f.get(counted, f.lit(0))
    own = weekday_of(best)
    medians = f.transform(
        weekdays, lambda days: f.coalesce(f.get(days, (f.size(days) / 2).cast("int"))["basis"], f.lit(0.0))
    )
    others = f.array_max(f.transform(medians, lambda median, number: f.when(number != own, median)))
    median, days_of_own = f.get(medians, own), f.size(f.get(weekdays, own))
    is_weekly = (days_of_own > 1) & (median > WEEKLY_FACTOR * others) & (best["basis"] <= STANDS_OUT * median)
    has_outlier = highest["basis"] > best["basis"]
    found = f.struct(
        best["basis"].alias("basis"),
        best["day"].alias("day"),
        is_weekly.alias("is_weekly"),
        days_of_own.cast("long").alias("weekday_days"),
        f.get(counted, f.lit(1))["basis"].alias("next_basis"),
        f.when(has_outlier, highest["basis"]).alias("outlier"),
        f.when(has_outlier, highest["day"]).alias("outlier_day"),
    )
    return f.when(best.isNotNull(), found)


def _hours_from(key_days: DataFrame) -> DataFrame:
    """Return per key and day its hours, as `day_hours`, and how many are recorded later, as `later_hours`."""
    later = Window.partitionBy("cluster", "key").orderBy("day").rowsBetween(1, Window.unboundedFollowing)
    return key_days.select(
        "cluster",
        "key",
        "day",
        f.col("hours").alias("day_hours"),
        f.sum(f.bit_count("hours")).over(later).alias("later_hours"),
    )
