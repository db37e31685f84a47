"""Brings snapshots into a history, in whatever order they come.

The snapshots of a cluster are points in time. What one of them holds is true from its own time until that of the next
snapshot of the cluster, whenever either of them became known. So each new snapshot has a window, from its time to that
of the next one: rows that were there are cut out of the windows, what the snapshots hold fills them, and pieces that
follow each other with the same value become one row again.

| snapshot | window | what becomes of the rows |
| --- | --- | --- |
| the first one of a cluster | all that follows | there are none |
| newer than all others | all that follows | those that are still so end where it differs |
| late | to the next one | those that hold then are split where it differs |
| known already | none | they stay as they are |

A snapshot is known by cluster name and time. A cluster that has got another id keeps its name: all rows of the old id
end with the first snapshot of the new one, also where the values are the same. A cluster that could not be read or is
not among the snapshots keeps its rows as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from quotaform.spark.schemas import HISTORY, make_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

_KEY: Final = ["cluster", "entity_key", "key"]
_TEXTS: Final = frozenset({"cluster", "cluster_id"})
_OWN: Final = ["cluster", "cluster_id", "entity_key", "entity", "key", "value"]


def readings(history: DataFrame) -> DataFrame:
    """Return which snapshots a history knows: cluster, cluster_id, read_at.

    Args:
        history: `schemas.HISTORY`.
    """
    return history.where(f.col("entity_key").isNull()).select(
        "cluster", "cluster_id", f.col("valid_from").alias("read_at")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReading:
    """A snapshot that a history does not know yet.

    Attributes:
        cluster: What the cluster is called.
        cluster_id: Its id.
        read_at: When it was read.
        previous_at: The time of the snapshot of the cluster before it, known or new; `None` if there is none.
        next_at: The time of the one after it.
        is_late: Whether the history knows a later one.
    """

    cluster: str
    cluster_id: str
    read_at: datetime
    previous_at: datetime | None
    next_at: datetime | None
    is_late: bool


def new_readings(quotas: DataFrame, known: DataFrame) -> list[NewReading]:
    """Bring to the driver which snapshots a history does not know, by cluster and time: a row each, without quotas.

    Args:
        quotas: `schemas.QUOTAS`.
        known: `readings` of the history.
    """
    given = (
        quotas.where(f.col("failure").isNull())
        .groupBy("cluster", "read_at")
        .agg(f.min("cluster_id").alias("cluster_id"))
        .withColumn("is_new", f.lit(True))
    )
    old = known.join(f.broadcast(given.select("cluster").distinct()), "cluster", "left_semi")
    moments = (
        old.withColumn("is_new", f.lit(False))
        .unionByName(given)
        .groupBy("cluster", "read_at")
        .agg(f.min("cluster_id").alias("cluster_id"), f.bool_and("is_new").alias("is_new"))
    )
    in_order = Window.partitionBy("cluster").orderBy("read_at")
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    rows = (
        moments.withColumn("next_at", f.lead("read_at").over(in_order))
        .withColumn("previous_at", f.lag("read_at").over(in_order))
        .withColumn("is_late", f.coalesce(f.bool_or(~f.col("is_new")).over(later), f.lit(False)))
        .where("is_new")
        .drop("is_new")
    )
    found = (NewReading(**row) for row in rows.toArrow().to_pylist())
    return sorted(found, key=lambda reading: (reading.cluster, reading.read_at))


def reading_rows(spark: SparkSession, new: Sequence[NewReading]) -> DataFrame:
    """Return the rows of `schemas.HISTORY` that say that snapshots are known."""
    return _as_history(
        small_table(
            spark,
            ["cluster", "cluster_id", "valid_from", "valid_to"],
            ((each.cluster, each.cluster_id, each.read_at, each.read_at) for each in new),
        )
    )


def appended(history: DataFrame, quotas: DataFrame, new: Sequence[NewReading]) -> DataFrame:
    """Return rows that take the place of those given, with new snapshots among them; see above.

    Args:
        history: `schemas.HISTORY`: those rows of the clusters of the snapshots that may change, at least all that are
            still so, and of clusters with a late one all that ended after the earliest; and rows of others.
        quotas: `schemas.QUOTAS`; rows of snapshots that are not new are left out.
        new: `new_readings`.
    """
    held = history.where(f.col("entity_key").isNotNull())
    clusters = small_table(history.sparkSession, ["cluster"], ((name,) for name in {each.cluster for each in new}))
    pieces = _cut(held, new).unionByName(_filling(quotas, new))
    return _joined(pieces).unionByName(held.join(f.broadcast(clusters), "cluster", "left_anti")).select(*HISTORY.names)


def _filling(quotas: DataFrame, new: Sequence[NewReading]) -> DataFrame:
    """Return what the snapshots hold, each from its time to that of the next one."""
    window = small_table(
        quotas.sparkSession,
        ["cluster", "cluster_id", "read_at", "valid_to"],
        ((each.cluster, each.cluster_id, each.read_at, each.next_at) for each in new),
    )
    held = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    return _as_history(
        held.join(f.broadcast(window), ["cluster", "cluster_id", "read_at"]).withColumnRenamed("read_at", "valid_from")
    )


def _cut(held: DataFrame, new: Sequence[NewReading]) -> DataFrame:
    """Return the rows of the clusters of new snapshots without the times that one of those tells about."""
    gaps = small_table(held.sparkSession, ["cluster", "gap_from", "gap_to"], _gaps(new))
    start, end = f.col("valid_from"), f.col("valid_to")
    gap_from, gap_to = f.col("gap_from"), f.col("gap_to")
    later, sooner = f.greatest(start, gap_from), f.least(end, gap_to)  # Both ignore null, which is no bound.
    is_in_gap = (gap_from.isNull() | end.isNull() | (gap_from < end)) & (gap_to.isNull() | (gap_to > start))
    return (
        held.join(f.broadcast(gaps), "cluster")
        .where(is_in_gap)
        .select(
            *_OWN,
            later.alias("valid_from"),
            sooner.alias("valid_to"),
            f.when(later == start, f.col("changed_by")).alias("changed_by"),
            f.when(sooner.eqNullSafe(end), f.col("ended_by")).alias("ended_by"),
        )
    )


def _gaps(new: Sequence[NewReading]) -> Iterator[tuple[str, datetime | None, datetime | None]]:
    """Yield the times of clusters that no new snapshot tells about: cluster, start, end; `None` is no bound."""
    for cluster, readings in groupby(new, key=lambda reading: reading.cluster):
        start: datetime | None = None
        for reading in readings:
            if start is None or start < reading.read_at:
                yield cluster, start, reading.read_at
            start = reading.next_at
        if start is not None:
            yield cluster, start, None


def _joined(pieces: DataFrame) -> DataFrame:
    """Return pieces with those as one row that follow each other with the same value of the same cluster id."""
    in_order = Window.partitionBy(*_KEY).orderBy("valid_from")
    rest = in_order.rowsBetween(0, Window.unboundedFollowing)
    before = f.lag(f.struct("cluster_id", "value", "valid_to")).over(in_order)
    goes_on = (
        f.col("before.valid_to").eqNullSafe(f.col("valid_from"))
        & f.col("before.cluster_id").eqNullSafe(f.col("cluster_id"))
        & f.col("before.value").eqNullSafe(f.col("value"))
    )
    # The last piece of a row is the one before the next row, or the last of all.
    return (
        pieces.withColumn("before", before)
        .withColumn("last", f.last(f.struct("valid_to", "ended_by")).over(rest))
        .withColumn("end_before", f.lag(f.struct("valid_to", "ended_by")).over(in_order))
        .where(f.col("before").isNull() | ~goes_on)
        .withColumn("end", f.coalesce(f.lead("end_before").over(in_order), f.col("last")))
        .select(
            *_OWN,
            "valid_from",
            f.col("end.valid_to").alias("valid_to"),
            "changed_by",
            f.col("end.ended_by").alias("ended_by"),
        )
    )


def small_table(spark: SparkSession, names: Sequence[str], rows: Iterable[tuple[object, ...]]) -> DataFrame:
    """Return a small table of the driver's: names of clusters and their ids are texts, everything else is a time."""
    schema = StructType([StructField(name, StringType() if name in _TEXTS else TimestampType()) for name in names])
    return make_table(spark, schema, list(zip(*rows, strict=True)) or [[] for _ in names])


def _as_history(rows: DataFrame) -> DataFrame:
    """Return `schemas.HISTORY` of rows that lack some of its columns: those are null."""
    present = set(rows.columns)
    return rows.select(
        *(
            f.col(field.name) if field.name in present else f.lit(None).cast(field.dataType).alias(field.name)
            for field in HISTORY
        )
    )
