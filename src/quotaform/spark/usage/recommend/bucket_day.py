"""What buckets used on each day: the samples of a usage table, shuffled once."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
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

from quotaform.core.usage.sample.series import QUOTA_WINDOW_S
from quotaform.spark.usage.bucket.bucket import finite_limit
from quotaform.spark.usage.bucket.bucket_rows import RECORDED_LIMIT, BucketRows, bucket_rows, per_bucket

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
        StructField("begin", TimestampType()),
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
| samples, throttled | times with a rate, and those of them at which requests were newly throttled |
| first, last, last_used | times: of the first and the last sample, and of the last one with a rate above 0 |
| begin | when the window of the first sample began |
"""

_DAYS: Final = StructType(
    [
        StructField("bucket_id", LongType()),
        *(StructField(name, LongType()) for name in ("day", "hours", "samples", "throttled")),
        StructField("basis", DoubleType()),
        *(StructField(name, LongType()) for name in ("first", "begin", "last", "last_used")),
    ]
)
"""`BUCKET_DAYS` without what is known of the bucket; times are in microseconds since 1970."""

_RECORDED_BROKERS: Final = ArrayType(
    StructType(
        [
            StructField("broker", StringType()),
            StructField("first", TimestampType()),
            StructField("begin", TimestampType()),
            StructField("recent_hours", LongType()),
        ]
    )
)

RECORDED_KEYS: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("key", StringType()),
        StructField("key_last", TimestampType()),
        StructField("key_brokers", _RECORDED_BROKERS),
    ]
)
"""When each quota key was recorded on each cluster, broker by broker; see `core.usage.sizing.demand.Recorded`."""


def bucket_days(usage: DataFrame, found: DataFrame, series: int, samples: int, percentile: float) -> DataFrame:
    """Return `BUCKET_DAYS`: what each bucket used of each broker on each day.

    A series counts once per time, however often it is there, and the series of a bucket are added up per time. Of
    several brokers that report a series whose limit is one of the cluster, the highest rate counts. Rates that are no
    numbers from 0 on are left out. Samples are shuffled once, as numbers.

    Args:
        found: `quotaform.spark.usage.bucket.member.numbered` of its series, persisted: it is read twice.
        series: How many rows these are.
        samples: About how many samples they have.
        percentile: Of the rates of a day, above 0 and up to 100.
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
    hour = at % (DAY_S * 1_000_000) // (_HOUR_S * 1_000_000)
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

    Args:
        days: `bucket_days`, persisted: they are read several times.
        unused_after_days: After how many days without use a quota counts as unused.
    """
    of_key = ["cluster", "key"]
    last = days.groupBy(*of_key).agg(f.max("last").alias("key_last"))
    hours = days.groupBy(*of_key, "broker", "day").agg(
        f.bit_or("hours").alias("hours"), f.min("first").alias("first"), f.min("begin").alias("begin")
    )
    last_hour = f.floor(f.unix_seconds("key_last") / _HOUR_S)
    # The first of the hours that count, from the start of a day on.
    skipped = (last_hour - ceil(unused_after_days * _HOURS) + 1 - f.col("day") * _HOURS).cast("int")
    counted = f.bit_count(f.expr("shiftright(hours, greatest(skipped, 0))"))
    recent = f.when(f.col("skipped") < _HOURS, counted).otherwise(0)
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
