"""Usage over time on Spark, as pages draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.job import repeatable_rows, table_rows
from quotaform.fleet.table import make_table
from quotaform.model.entity import CLIENT_ID, IP, USER, Entity
from quotaform.report.report import MOST_POINTS, Curve, Span, curve_of
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.rows import BucketRows, per_bucket
from quotaform.usage.bucket.spark import with_series_id
from quotaform.usage.replay.report import DrawnBucket, Replays, ReplaySlot
from quotaform.usage.replay.spark import waits
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
    rates = per_bucket(usage, series, _OF_ENTITY, _summed, _RATES)
    of_entity = (f.col("number").cast("int").alias("number"), (f.col("is_exact") > 0).alias("is_exact"))
    return rates.groupBy(*of_entity, f.timestamp_micros("at").alias("ts")).agg(f.max("rate").alias("rate"))


def _summed(rows: BucketRows) -> dict[str, Any] | None:
    """Return the columns of `_RATES` of an entity on a broker."""
    at, rate, *_ = rows.by_time()
    is_known = ~numpy.isnan(rate)
    of_entity = {name: numpy.full(is_known.sum(), rows.of_series[name][0]) for name in _OF_ENTITY}
    return {**of_entity, "at": at[is_known], "rate": rate[is_known]}


def slot_seconds(rates: DataFrame) -> float:
    """Return how long slots are, so that a curve has at most `MOST_POINTS`.

    `rates`: rows with a time `ts`.
    """
    span = f.unix_seconds(f.max("ts")) - f.unix_seconds(f.min("ts"))
    (seconds,) = rates.agg(span.alias("seconds")).toArrow().column("seconds").to_pylist()
    return float(max(1, ceil(((seconds or 0) + 1) / MOST_POINTS)))


def slots(rates: DataFrame, step_s: float) -> DataFrame:
    """Return the highest rate of each slot, at the time of the last one in it: `number`, `is_exact`, `at`, `rate`.

    `rates`: rows with `number`, `is_exact`, `ts` and `rate`. `step_s`: how long a slot is, in whole seconds.
    """
    slot = f.floor(f.unix_seconds("ts") / step_s).alias("slot")
    found = rates.groupBy("number", "is_exact", slot).agg(f.max("ts").alias("at"), f.max("rate").alias("rate"))
    return found.select("number", "is_exact", "at", "rate")


_NAMES: Final = {"cluster": "of_cluster", "bucket_broker": "of_broker", "key": "of_key", "bucket": "of_bucket"}
_CHOSEN: Final = struct("number integer", " ".join((*_NAMES.values(), "string")))
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def replays(usage: DataFrame, found: DataFrame, chosen: Sequence[DrawnBucket]) -> Replays:
    """Return what would have happened to some buckets over time.

    `found`: `quotaform.usage.replay.spark.members`, persisted. `chosen`: the buckets; a handful. Each must have a
    limit.
    """
    if not chosen:
        return Replays()
    rows = [(number, cluster, each.broker, each.key, each.bucket) for number, (cluster, each) in enumerate(chosen)]
    wanted = make_table(usage.sparkSession, _CHOSEN, list(zip(*rows, strict=True)))
    same: Column = f.lit(True)
    for name, other in _NAMES.items():
        same &= f.col(name).eqNullSafe(f.col(other))
    own = found.join(f.broadcast(wanted), same)
    numbers = own.groupBy("bucket_id", "number").agg(f.max("limit").alias("limit"))
    slots: list[list[ReplaySlot]] = [[] for _ in chosen]
    with repeatable_rows(waits(usage, own)) as kept:
        step_s = slot_seconds(kept.select(f.timestamp_micros("at").alias("ts")))
        points = replay_slots(kept, step_s).join(f.broadcast(numbers), "bucket_id").orderBy("number", "at")
        for row in points.toArrow().to_pylist():
            slots[row["number"]].append(_slot(row))
    return Replays(slots, step_s)


def replay_slots(rows: DataFrame, step_s: float) -> DataFrame:
    """Return a row per bucket and slot: the highest ratio and throttle time, and from when to when requests waited.

    `rows`: `WAITS`. `step_s`: how long a slot is, in whole seconds.
    """
    at, start = f.col("at"), f.col("at") - (f.col("step_s") * 1e6).cast("long")
    spans = []
    for name, wait in (("", "wait_s"), ("_high", "wait_s_high")):
        waited = f.col(wait) > 0
        spans += [f.min(f.when(waited, start)).alias(f"start{name}"), f.max(f.when(waited, at)).alias(f"end{name}")]
    slot = f.floor(at / (step_s * 1e6)).alias("slot")
    return (
        rows.groupBy("bucket_id", slot)
        .agg(f.max("at").alias("at"), f.max("ratio").alias("ratio"), f.max("throttle_ms").alias("throttle_ms"), *spans)
        .select("bucket_id", "at", "ratio", "throttle_ms", "start", "end", "start_high", "end_high")
    )


def _slot(row: Mapping[str, Any]) -> ReplaySlot:
    return ReplaySlot(
        at=_time(row["at"]),
        rate=(row["ratio"] or 0.0) * row["limit"],
        throttle_ms=row["throttle_ms"],
        waits=_span(row["start"], row["end"]),
        may_wait=_span(row["start_high"], row["end_high"]),
    )


def _span(start: int | None, end: int | None) -> Span | None:
    return None if start is None or end is None else Span(_time(start), _time(end))


def _time(micros: int) -> datetime:
    return _START + timedelta(microseconds=micros)
