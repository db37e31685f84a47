"""Curves of usage over time for pictures: a point per slot of time, as many as a picture can show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from quotaform.core.usage.chart.chart import MOST_POINTS, Curve, curve_of
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.spark.job.kept_rows import repeatable_rows
from quotaform.spark.schemas import make_table
from quotaform.spark.usage.schemas import BUCKET_NAMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.core.usage.chart.chart import CurveKey

_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
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
    client is, is added up; of an entity with both, that of the brokers counts. A default entity is that of many
    buckets, and has no curve.

    Args:
        usage: `schemas.USAGE`.
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
    with repeatable_rows(_rates(usage, entities)) as rates:
        step_s = slot_seconds(rates)
        points = slots(rates, step_s).orderBy("number", "is_exact", "at").toArrow().to_pylist()
    found: dict[int, dict[bool, list[tuple[datetime, float]]]] = {}
    for point in points:
        found.setdefault(point["number"], {}).setdefault(point["is_exact"], []).append(
            (_utc(point["at"]), point["rate"])
        )
    return {named[number]: curve_of(each.get(True) or each[False], step_s) for number, each in found.items()}


def _names(entity: Entity) -> list[str | None]:
    return [entity.names.get(_TYPES[name]) for name in BUCKET_NAMES]


def _rates(usage: DataFrame, entities: DataFrame) -> DataFrame:
    """Return `number`, `is_exact`, `ts` and `rate` of entities; a series counts once per time, and brokers apart."""
    fits: Column = (f.col("cluster") == f.col("of_cluster")) & (f.col("key") == f.col("of_key"))
    exact: Column = f.lit(True)
    for name in BUCKET_NAMES:
        fits &= f.col(f"of_{name}").isNull() | f.col(name).eqNullSafe(f.col(f"of_{name}"))
        exact &= f.col(name).eqNullSafe(f.col(f"of_{name}"))
    known = usage.where(f.col("ts").isNotNull() & (f.col("rate") >= 0) & (f.col("rate") < float("inf")))
    own = known.join(f.broadcast(entities), fits).withColumn("is_exact", exact)
    once = own.groupBy("number", "is_exact", "ts", "broker", *BUCKET_NAMES).agg(f.max("rate").alias("rate"))
    summed = once.groupBy("number", "is_exact", "ts", "broker").agg(f.sum("rate").alias("rate"))
    return summed.groupBy("number", "is_exact", "ts").agg(f.max("rate").alias("rate"))


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


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
