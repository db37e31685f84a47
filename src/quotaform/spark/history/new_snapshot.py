"""Which snapshots a history knows, and which ones are new to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from quotaform.spark.schemas import HISTORY, make_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXTS: Final = frozenset({"cluster", "cluster_id", "file"})


def known_snapshots(history: DataFrame) -> DataFrame:
    """Return which snapshots a history knows: cluster, cluster_id, read_at."""
    return history.where(f.col("entity_key").isNull()).select(
        "cluster", "cluster_id", f.col("valid_from").alias("read_at")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that a history does not know yet.

    Attributes:
        previous_at: The time of the snapshot of the cluster before it, known or new; `None` if there is none.
        next_at: The time of the one after it.
    """

    cluster: str
    cluster_id: str
    read_at: datetime
    previous_at: datetime | None
    next_at: datetime | None
    is_late: bool


def new_snapshots(known: DataFrame, given: Iterable[tuple[str, str, datetime]]) -> list[NewSnapshot]:
    """Bring to the driver which snapshots a history does not know, by cluster and time.

    Args:
        known: `known_snapshots` of the history.
        given: Cluster, id and time of snapshots; at most one of a cluster and time.
    """
    taken = small_table(known.sparkSession, ["cluster", "cluster_id", "read_at"], given)
    given_rows = taken.withColumn("is_new", f.lit(True))
    old = known.join(f.broadcast(taken.select("cluster").distinct()), "cluster", "left_semi")
    moments = (
        old.withColumn("is_new", f.lit(False))
        .unionByName(given_rows)
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
    found = (NewSnapshot(**row) for row in rows.toArrow().to_pylist())
    return sorted(found, key=lambda snapshot: (snapshot.cluster, snapshot.read_at))


def snapshot_rows(spark: SparkSession, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return the rows of `schemas.HISTORY` that say that snapshots are known."""
    return as_history(
        small_table(
            spark,
            ["cluster", "cluster_id", "valid_from", "valid_to"],
            ((each.cluster, each.cluster_id, each.read_at, each.read_at) for each in new),
        )
    )


def small_table(spark: SparkSession, names: Sequence[str], rows: Iterable[tuple[object, ...]]) -> DataFrame:
    """Return a small table of the driver's: names of clusters and their ids are texts, everything else is a time."""
    schema = StructType([StructField(name, StringType() if name in _TEXTS else TimestampType()) for name in names])
    return make_table(spark, schema, list(zip(*rows, strict=True)) or [[] for _ in names])


def as_history(rows: DataFrame) -> DataFrame:
    """Return `schemas.HISTORY` of rows that lack some of its columns: those are null."""
    present = set(rows.columns)
    return rows.select(
        *(
            f.col(field.name) if field.name in present else f.lit(None).cast(field.dataType).alias(field.name)
            for field in HISTORY
        )
    )
