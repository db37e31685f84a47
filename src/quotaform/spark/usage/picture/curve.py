"""Curves of usage over time for pictures: a point per slot of time, as many as a picture can show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from quotaform.core.usage.chart.chart import MOST_POINTS, Curve, curve_of
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.spark.job.kept_rows import repeatable_rows, table_rows
from quotaform.spark.schemas import make_table
from quotaform.spark.usage.bucket.bucket_rows import BucketRows, bucket_rows, per_bucket
from quotaform.spark.usage.bucket.member import with_series_id
from quotaform.spark.usage.bucket.recorded import recorded, recorded_size
from quotaform.spark.usage.schemas import BUCKET_NAMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.core.usage.chart.chart import CurveKey

_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_OF_ENTITY: Final = ("number", "is_exact")
_RATES: Final = StructType(
    [
        StructField("bucket_id", LongType()),
        *(StructField(name, DoubleType()) for name in _OF_ENTITY),
        StructField("at", LongType()),
        StructField("rate", DoubleType()),
    ]
)
"""What entities used of each broker; `at` is in microseconds since 1970."""
_ENTITIES: Final = StructType(
    [
        StructField("number", IntegerType()),
        StructField("of_cluster", StringType()),
        StructField("of_key", StringType()),
        *(StructField(f"of_{name}", StringType()) for name in BUCKET_NAMES),
    ]
)


def entity_curves(usage: DataFrame, wanted: Sequence[CurveKey]) -> dict[CurveKey, Curve]:
    """Return what entities used over time, the highest of all brokers; one is left out if nothing is known of it.

    A broker records the bucket of an entity under the names of the entity. A recording that is finer, as that of a
    client is, is added up, see `quotaform.spark.usage.bucket.bucket_rows`; of an entity with both, that of the brokers
    counts. A default entity is that of many buckets, and has no curve.

    Args:
        wanted: The entities and keys; some dozens.
    """
    named = {
        number: (cluster, entity, key)
        for number, (cluster, entity, key) in enumerate(wanted)
        if None not in entity.names.values()
    }
    if not named:
        return {}
    rows = [(number, cluster, key, *_names(entity)) for number, (cluster, entity, key) in named.items()]
    entities = make_table(usage.sparkSession, _ENTITIES, list(zip(*rows, strict=True)))
    with table_rows(_series(usage, entities)) as series, repeatable_rows(_rates(usage, series)) as rates:
        step_s = slot_seconds(rates)
        points = slots(rates, step_s).orderBy("number", "is_exact", "at").toArrow().to_pylist()
    found: dict[int, dict[bool, list[tuple[datetime, float]]]] = {}
    for point in points:
        found.setdefault(point["number"], {}).setdefault(point["is_exact"], []).append(
            (point["at"].astimezone(UTC), point["rate"])
        )
    return {named[number]: curve_of(each.get(True) or each[False], step_s) for number, each in found.items()}


def _names(entity: Entity) -> list[str | None]:
    return [entity.names.get(_TYPES[name]) for name in BUCKET_NAMES]


def _series(usage: DataFrame, entities: DataFrame) -> DataFrame:
    """Return the series of entities: those of `recorded`, with `number`, `is_exact`, `bucket_id` and `series_id`."""
    fits: Column = (f.col("cluster") == f.col("of_cluster")) & (f.col("key") == f.col("of_key"))
    exact: Column = f.lit(True)
    for name in BUCKET_NAMES:
        fits &= f.col(f"of_{name}").isNull() | f.col(name).eqNullSafe(f.col(f"of_{name}"))
        exact &= f.col(name).eqNullSafe(f.col(f"of_{name}"))
    own = recorded(usage).join(f.broadcast(entities), fits).withColumn("is_exact", exact)
    bucket = f.dense_rank().over(Window.orderBy("number", "is_exact", "broker")).cast("long")
    return with_series_id(own.withColumn("bucket_id", bucket), *BUCKET_NAMES)


def _rates(usage: DataFrame, series: DataFrame) -> DataFrame:
    """Return `number`, `is_exact`, `ts` and `rate` of entities: what they used of the broker that they used most."""
    number, samples = recorded_size(series)
    rates = per_bucket(bucket_rows(usage, series, number, _OF_ENTITY), samples, _summed, _RATES)
    of_entity = (f.col("number").cast("int").alias("number"), (f.col("is_exact") > 0).alias("is_exact"))
    return rates.groupBy(*of_entity, f.timestamp_micros("at").alias("ts")).agg(f.max("rate").alias("rate"))


def _summed(rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `_RATES` of an entity on a broker."""
    starts = rows.starts()
    at, rate = (rows.at if starts is None else rows.at[starts]), rows.summed(rows.rate)
    is_known = ~numpy.isnan(rate)
    of_entity = {name: numpy.full(is_known.sum(), rows.of_series[name][0]) for name in _OF_ENTITY}
    return {**of_entity, "at": at[is_known], "rate": rate[is_known]}


def slot_seconds(rates: DataFrame) -> float:
    """Return how long slots are, so that a curve has at most `MOST_POINTS`.

    Args:
        rates: Rows with a time `ts`.
    """
    span = f.unix_seconds(f.max("ts")) - f.unix_seconds(f.min("ts"))
    (seconds,) = rates.agg(span.alias("seconds")).toArrow().column("seconds").to_pylist()
    return float(max(1, ceil(((seconds or 0) + 1) / MOST_POINTS)))


def slots(rates: DataFrame, step_s: float) -> DataFrame:
    """Return the highest rate of each slot, at the time of the last one in it: `number`, `is_exact`, `at`, `rate`.

    Args:
        rates: Rows with `number`, `is_exact`, `ts` and `rate`.
        step_s: How long a slot is, in whole seconds.
    """
    slot = f.floor(f.unix_seconds("ts") / step_s).alias("slot")
    found = rates.groupBy("number", "is_exact", slot).agg(f.max("ts").alias("at"), f.max("rate").alias("rate"))
    return found.select("number", "is_exact", "at", "rate")
