"""Usage over time on Spark, as pages draw it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.job import table_rows
from quotaform.fleet.table import make_table
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.report.report import MOST_POINTS, Curve, curve_of
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.rows import BucketRows, per_bucket
from quotaform.usage.bucket.spark import with_series_id
from quotaform.usage.table.schema import BUCKET_NAMES
from quotaform.usage.table.table import recorded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CurveKey: TypeAlias = tuple[str, Entity, str]
"""Whose usage a curve is: cluster, entity and quota key."""

_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_OF_ENTITY: Final = ("number", "is_exact")
_RATES: Final = struct("bucket_id long", " ".join((*_OF_ENTITY, "double")), "at long", "rate double")
"""What entities used of each broker; `at` is in microseconds since 1970."""
_ENTITIES: Final = struct("number integer", "of_cluster of_key string", *(f"of_{name} string" for name in BUCKET_NAMES))


def entity_curves(usage: DataFrame, wanted: Sequence[CurveKey]) -> dict[CurveKey, Curve]:
    """Return what entities used over time, the highest of all brokers; one is left out if nothing is known of it.

    A broker records the bucket of an entity under the names of the entity. A recording that is finer, as that of a
    client is, is added up, see `quotaform.usage.bucket.rows`; of an entity with both, that of the brokers
    counts. A default entity is that of many buckets, and has no curve.

    `wanted`: the entities and keys; some dozens.
    """
    named = {
        number: (cluster, entity, key)
        for number, (cluster, entity, key) in enumerate(wanted)
        if None not in entity.names.values()
    }
    if not named:
        return {}
    rows = [(number, cluster, key, *_names(entity)) for number, (cluster, entity, key) in named.items()]
    entities = make_table(usage.sparkSession, _ENTITIES, rows)
    with table_rows(_series(usage, entities)) as series:
        span = f.unix_seconds(f.max("last")) - f.unix_seconds(f.min("first"))
        (seconds,) = series.agg(span.alias("seconds")).toArrow().column("seconds").to_pylist()
        step_s = max(1, ceil(((seconds or 0) + 1) / MOST_POINTS))
        # The highest rate of each slot, at the time of the last one in it.
        slot = f.floor(f.unix_seconds(f.timestamp_micros("at")) / step_s)
        rates = per_bucket(usage, series, _OF_ENTITY, _summed, _RATES).groupBy(*_OF_ENTITY, slot)
        highest = rates.agg(f.timestamp_micros(f.max("at")).alias("at"), f.max("rate").alias("rate"))
        points = highest.orderBy(*_OF_ENTITY, "at").toArrow().to_pylist()
    found: dict[int, dict[bool, list[tuple[datetime, float]]]] = {}
    for point in points:
        of_entity = found.setdefault(int(point["number"]), {}).setdefault(point["is_exact"] > 0, [])
        of_entity.append((point["at"].astimezone(UTC), point["rate"]))
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


def _summed(rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `_RATES` of an entity on a broker."""
    is_known = ~numpy.isnan(rows.rate)
    of_entity = {name: numpy.full(is_known.sum(), rows.of_series[name]) for name in _OF_ENTITY}
    return {**of_entity, "at": rows.at[is_known], "rate": rows.rate[is_known]}
