"""What buckets used on each day and on the busiest day, on DataFrames."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    StructField,
)

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.usage.bucket.rows import RECORDED_LIMIT, BucketRows, bucket_rows, per_bucket
from quotaform.usage.bucket.spark import finite_limit
from quotaform.usage.recommend.demand import (
    DAY_S,
    FIRST_WEEKDAY,
    HOUR_S,
    HOURS_OF_DAY,
    STANDS_OUT,
    WEEKDAYS,
    WEEKLY_FACTOR,
)
from quotaform.usage.table.schema import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


OF_BUCKET: Final = ("cluster", "key", "bucket")

BUCKET_DAYS: Final = struct_type(
    "cluster key bucket broker entity_key string",
    "limit double",
    "is_coarse bool",
    "day hours long",
    "basis double",
    "samples throttled long",
    "first begin last last_used timestamp",
)
"""What each bucket used of each broker on each day (UTC).

| column | content |
| --- | --- |
| day | days since 1970-01-01 |
| hours | the hours of the day with a sample, a bit for each |
| basis | the percentile of the rates; null without a rate |
| samples, throttled | times with a rate, and those of them at which requests were newly throttled |
| first, last, last_used | times: of the first and the last sample, and of the last one with a rate above 0 |
| begin | when the window of the first sample began |
"""

_DAYS: Final = struct_type(
    "bucket_id day hours samples throttled long", "basis double", "first begin last last_used long"
)
"""`BUCKET_DAYS` without what is known of the bucket; times are in microseconds since 1970."""

_RECORDED_BROKERS: Final = ArrayType(struct_type("broker string", "first begin timestamp", "recent_hours long"))

RECORDED_KEYS: Final = struct_type(
    "cluster key string", "key_last timestamp", StructField("key_brokers", _RECORDED_BROKERS)
)
"""When each quota key was recorded on each cluster, broker by broker; see `core.usage.sizing.demand.Recorded`."""


def bucket_days(usage: DataFrame, found: DataFrame, series: int, samples: int, percentile: float) -> DataFrame:
    """Return `BUCKET_DAYS`: what each bucket used of each broker on each day.

    A series counts once per time, however often it is there, and the series of a bucket are added up per time. Of
    several brokers that report a series whose limit is one of the cluster, the highest rate counts. Rates that are no
    numbers from 0 on are left out. Samples are shuffled once, as numbers.

    `found`: `quotaform.usage.bucket.spark.numbered` of its series, persisted: it is read twice. `series`: how many rows
    these are. `samples`: about how many samples they have. `percentile`: of the rates of a day, above 0 and up to 100.
    """
    limited = found.withColumn(RECORDED_LIMIT, finite_limit())
    days = per_bucket(
        bucket_rows(usage, limited, series, (RECORDED_LIMIT,)), samples, partial(_days, percentile), _DAYS
    )
    buckets = found.groupBy("bucket_id").agg(
        *(f.first(name).alias(name) for name in (*OF_BUCKET, "entity_key", "limit")),
        f.first("bucket_broker").alias("broker"),
        f.bool_or("is_coarse").alias("is_coarse"),
    )
    times = {name: f.timestamp_micros(name) for name in ("first", "begin", "last", "last_used")}
    return days.withColumns(times).join(f.broadcast(buckets), "bucket_id").select(*BUCKET_DAYS.names)


def _days(percentile: float, rows: BucketRows) -> dict[str, Any]:
    """Return the columns of `_DAYS` of a bucket on a broker."""
    at, rate = rows.at, rows.rate
    window = numpy.where(numpy.isfinite(rows.window_s), rows.window_s, QUOTA_WINDOW_S)
    starts = rows.starts()
    if starts is not None:
        at, rate = at[starts], rows.summed(rate)
        window = numpy.fmax.reduceat(window, starts)
    is_throttled = rows.newly_throttled() & ~numpy.isnan(rate)
    day = at // (DAY_S * 1_000_000)
    hour = at % (DAY_S * 1_000_000) // (HOUR_S * 1_000_000)
    found: dict[str, list[Any]] = {name: [] for name in _DAYS.names[1:]}
    begins = numpy.flatnonzero(numpy.append(True, day[1:] != day[:-1]))
    for begin, end in pairwise((*begins, len(at))):
        own = rate[begin:end]
        rates = numpy.sort(own[~numpy.isnan(own)])
        used = numpy.flatnonzero(own > 0)
        rank = ceil(round(len(rates) * percentile / 100, 6))
        found["day"].append(day[begin])
        found["hours"].append(numpy.bitwise_or.reduce(1 << hour[begin:end]))
        found["basis"].append(rates[rank - 1] if len(rates) else None)
        found["samples"].append(len(rates))
        found["throttled"].append(numpy.count_nonzero(is_throttled[begin:end]))
        found["first"].append(at[begin])
        found["begin"].append(at[begin] - round(window[begin] * 1e6))
        found["last"].append(at[end - 1])
        found["last_used"].append(at[begin + used[-1]] if len(used) else None)
    return found


def recorded_keys(days: DataFrame, unused_after_days: float) -> DataFrame:
    """Return `RECORDED_KEYS`.

    `days`: `bucket_days`, persisted: they are read several times. `unused_after_days`: after how many days without use
    a quota counts as unused.
    """
    of_key = ["cluster", "key"]
    last = days.groupBy(*of_key).agg(f.max("last").alias("key_last"))
    hours = days.groupBy(*of_key, "broker", "day").agg(
        f.bit_or("hours").alias("hours"), f.min("first").alias("first"), f.min("begin").alias("begin")
    )
    last_hour = f.floor(f.unix_seconds("key_last") / HOUR_S)
    # The first of the hours that count, from the start of a day on.
    skipped = (last_hour - ceil(unused_after_days * HOURS_OF_DAY) + 1 - f.col("day") * HOURS_OF_DAY).cast("int")
    counted = f.bit_count(f.expr("shiftright(hours, greatest(skipped, 0))"))
    recent = f.when(f.col("skipped") < HOURS_OF_DAY, counted).otherwise(0)
    # A broker without recent hours is in it, too.
    brokers = (
        hours.join(last, of_key)
        .withColumn("skipped", skipped)
        .groupBy(*of_key, "key_last", "broker")
        .agg(f.min("first").alias("first"), f.min("begin").alias("begin"), f.sum(recent).alias("recent_hours"))
    )
    of_broker = f.struct("broker", "first", "begin", "recent_hours")
    found = brokers.groupBy(*of_key, "key_last").agg(f.collect_list(of_broker).alias("key_brokers"))
    return found.select(*RECORDED_KEYS.names)


def key_days(days: DataFrame) -> DataFrame:
    """Return on which hours of which days a key was recorded: `cluster`, `key`, `day`, `hours`."""
    return days.groupBy("cluster", "key", "day").agg(f.bit_or("hours").alias("hours"))


_LIMITED: Final = ("entity_key", "limit", "is_coarse")

BUSIEST_DAY: Final = struct_type(
    "basis double", "day long", "is_weekly bool", "weekday_days long", "next_basis outlier double", "outlier_day long"
)
"""See `core.usage.sizing.busiest_day.BusiestDay`."""

_BROKERS: Final = ArrayType(struct_type("broker string", StructField("busiest", BUSIEST_DAY), "samples throttled long"))

BUCKET_DEMANDS: Final = struct_type(
    "cluster key bucket entity_key string",
    "limit double",
    "is_coarse bool",
    StructField("brokers", _BROKERS),
    "first begin last_used timestamp",
    "hours long",
)
"""What each bucket used; see `core.usage.sizing.demand.BucketDemand`."""


def bucket_demands(days: DataFrame, outlier_days: int = 0) -> DataFrame:
    """Return `BUCKET_DEMANDS`.

    `days`: `bucket_day.bucket_days`, persisted: they are read several times. `outlier_days`: how many of the highest
    days of each weekday are left out.
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

    `days`: an array of structs: `basis`, the percentile of a day, and `day`. `outlier_days`: how many of the highest
    days of each weekday are left out; its last day never is.
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
