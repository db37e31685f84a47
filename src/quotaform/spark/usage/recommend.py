"""Sizes quotas by usage: what buckets used per day and broker, and what `core.usage.right_size` makes of it.

usage -> `bucket_days` (one shuffle of the samples) -> `bucket_demands` -> `recommendations` (a task per cluster).
"""

from __future__ import annotations

from datetime import datetime
from sys import float_info
from typing import TYPE_CHECKING, Any, Final

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

from quotaform.core.usage.demand import BrokerDemand, BucketDemand, Recorded
from quotaform.core.usage.recommendation import Action, OwnValue, Recommendation, RecommendSettings
from quotaform.core.usage.right_size import recommend
from quotaform.model.entity import Entity
from quotaform.spark.schemas import row_batch
from quotaform.spark.usage.bucket import CLUSTER_KEYS, OF_SERIES, same_columns
from quotaform.spark.usage.schemas import RECOMMENDATIONS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_OF_BUCKET: Final = ("cluster", "key", "bucket")
_LIMITED: Final = ("entity_key", "limit", "is_coarse")
_DAY_S: Final = 86_400
_HOUR_S: Final = 3600

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
"""When each quota key was recorded on each cluster; see `core.usage.demand.Recorded`."""

_BROKERS: Final = ArrayType(
    StructType(
        [
            StructField("broker", StringType()),
            StructField("basis", DoubleType()),
            StructField("day", LongType()),
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
        StructField("last_used", TimestampType()),
        StructField("hours", LongType()),
    ]
)
"""What each bucket used; see `core.usage.demand.BucketDemand`."""


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
            "number": f.dense_rank().over(Window.orderBy(*_OF_BUCKET)),
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
        f.bit_or(f.expr(f"shiftleft(1L, {_hour_of('at')})")).alias("hours"),
        rates,
        f.count("rate").alias("samples"),
        f.count_if("is_throttled").alias("throttled"),
        f.timestamp_micros(f.min("at")).alias("first"),
        f.timestamp_micros(f.max("at")).alias("last"),
        f.timestamp_micros(f.max(f.when(f.col("rate") > 0, f.col("at")))).alias("last_used"),
    )
    rank = f.ceil(f.round(f.col("samples") * percentile / 100, 6)).cast("int")
    buckets = series.groupBy("number", *_OF_BUCKET).agg(
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
        f.floor(f.unix_seconds("ts") / _DAY_S).alias("day"),
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
    span = days.groupBy(*of_key).agg(
        f.min("first").alias("key_first"), f.max("last").alias("key_last"), f.max("day").alias("last_day")
    )
    recent = _key_days(days).join(span, of_key).where(f.col("day") > f.col("last_day") - unused_after_days)
    return (
        recent.groupBy(*of_key, "key_first", "key_last")
        .agg(f.sum(f.bit_count("hours")).alias("recent_hours"))
        .select(*RECORDED.names)
    )


def bucket_demands(days: DataFrame) -> DataFrame:
    """Return `BUCKET_DEMANDS`.

    Args:
        days: `bucket_days`, persisted: they are read several times.
    """
    brokers = days.groupBy(*_OF_BUCKET, "broker", *_LIMITED).agg(
        f.max("basis").alias("basis"),
        f.max_by("day", "basis").alias("day"),
        f.sum("samples").alias("samples"),
        f.sum("throttled").alias("throttled"),
        f.min("first").alias("first"),
        f.max("last_used").alias("last_used"),
    )
    demands = brokers.groupBy(*_OF_BUCKET, *_LIMITED).agg(
        f.collect_list(f.struct("broker", "basis", "day", "samples", "throttled")).alias("brokers"),
        f.min("first").alias("first"),
        f.max("last_used").alias("last_used"),
    )
    first_day = f.floor(f.unix_seconds("first") / _DAY_S)
    joined = demands.withColumn("day", first_day).join(_hours_from(_key_days(days)), ["cluster", "key", "day"], "left")
    of_first_day = f.bit_count(f.expr(f"shiftright(day_hours, {_hour_of('unix_micros(first)')})"))
    hours = (f.coalesce(of_first_day, f.lit(0)) + f.coalesce("later_hours", f.lit(0))).cast("long")
    return joined.withColumn("hours", hours).select(*BUCKET_DEMANDS.names)


def _hour_of(column: str) -> str:
    """Return the hour of the day (UTC) of a number of microseconds as SQL, whatever the time zone of the session is."""
    return f"CAST(pmod({column}, {_DAY_S}000000) DIV {_HOUR_S}000000 AS INT)"


def _key_days(days: DataFrame) -> DataFrame:
    """Return on which hours of which days a key was recorded: `cluster`, `key`, `day`, `hours`."""
    return days.groupBy("cluster", "key", "day").agg(f.bit_or("hours").alias("hours"))


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


def recommendations(
    demands: DataFrame, record: DataFrame, quotas: DataFrame, settings: RecommendSettings, tasks: int
) -> DataFrame:
    """Return `schemas.RECOMMENDATIONS`: what is proposed for each value of the clusters.

    Args:
        demands: `bucket_demands`, of buckets under these quotas.
        record: `recorded`.
        quotas: `quotaform.spark.schemas.QUOTAS`.
        settings: How quotas are sized.
        tasks: In how many tasks; as many as clusters, at most.
    """
    held = quotas.where(f.col("key").isNotNull() & f.col("value").isNotNull()).select(
        "cluster", "entity_key", "entity", "key", "value"
    )
    # A key that is recorded has a bucket, so what is known of keys comes with the buckets.
    used = demands.join(f.broadcast(record), ["cluster", "key"])

    def sized(values: pyarrow.Table, buckets: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        own, measured = values.to_pylist(), buckets.to_pylist()
        cluster = next(row["cluster"] for row in (*own, *measured))
        rows = recommend(
            cluster,
            [OwnValue(entity=Entity.of(row["entity"]), key=row["key"], value=row["value"]) for row in own],
            [_bucket_demand(row) for row in measured],
            {row["key"]: _recorded(row) for row in measured},
            settings,
        )
        return pyarrow.Table.from_batches([row_batch(RECOMMENDATIONS, [_row(each) for each in rows])])

    return (
        held.repartition(tasks, "cluster")
        .groupBy("cluster")
        .cogroup(used.repartition(tasks, "cluster").groupBy("cluster"))
        .applyInArrow(sized, RECOMMENDATIONS)
        .select(*RECOMMENDATIONS.names)
    )


def _bucket_demand(row: dict[str, Any]) -> BucketDemand:
    return BucketDemand(
        bucket=row["bucket"],
        key=row["key"],
        entity_key=row["entity_key"],
        limit=row["limit"],
        brokers=tuple(BrokerDemand(**broker) for broker in row["brokers"]),
        first=row["first"],
        last_used=row["last_used"],
        hours=row["hours"],
        is_coarse=bool(row["is_coarse"]),
    )


def _recorded(row: dict[str, Any]) -> Recorded:
    first: datetime = row["key_first"]
    return Recorded(first=first, last=row["key_last"], recent_hours=row["recent_hours"])


def _row(each: Recommendation) -> tuple[Any, ...]:
    fields = {name: getattr(each, name) for name in RECOMMENDATIONS.names if name != "entity_key"}
    fields |= {"entity_key": each.entity.address, "entity": each.entity.names, "action": each.action.value}
    return tuple(fields[name] for name in RECOMMENDATIONS.names)


def read_row(row: dict[str, Any]) -> Recommendation:
    """Return what a row of `schemas.RECOMMENDATIONS` says."""
    fields = {name: value for name, value in row.items() if name not in ("entity_key", "entity", "action")}
    return Recommendation(entity=Entity.of(row["entity"]), action=Action(row["action"]), **fields)
