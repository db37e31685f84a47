"""What clusters held at a moment, and when they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.spark.history.new_snapshot import known_snapshots
from quotaform.spark.schemas import HISTORY_CHANGES, QUOTAS

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame


def as_of(history: DataFrame, at: datetime) -> DataFrame:
    """Return `schemas.QUOTAS` of the last snapshot of each cluster at or before a moment.

    A cluster that held nothing then is a row without an entity; one without a snapshot by then has no row.
    """
    held = held_at(history, at).select("cluster", "entity_key", "entity", "key", "value")
    rows = last_snapshots(history, at).join(held, "cluster", "left")
    unknown = {name: f.lit(None).cast(QUOTAS[name].dataType) for name in ("failure", "brokers")}
    return rows.withColumns(unknown).select(*QUOTAS.names)


def last_snapshots(history: DataFrame, at: datetime) -> DataFrame:
    """Return the last snapshot of each cluster at or before a moment: cluster, cluster_id, read_at."""
    taken = known_snapshots(history).where(f.col("read_at") <= f.lit(at)).groupBy("cluster")
    last = taken.agg(f.max("read_at").alias("read_at"), f.max_by("cluster_id", "read_at").alias("cluster_id"))
    return last.select("cluster", "cluster_id", "read_at")


def held_at(history: DataFrame, at: datetime) -> DataFrame:
    """Return the rows of `schemas.HISTORY` that hold at a moment."""
    return history.where(f.col("entity_key").isNotNull() & _holds(at)).select(*history.columns)


def _holds(at: datetime) -> Column:
    moment = f.lit(at)
    return (f.col("valid_from") <= moment) & (f.col("valid_to").isNull() | (f.col("valid_to") > moment))


def history_changes(history: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """Return `schemas.HISTORY_CHANGES`: the values that differ between two moments, and who set or removed them last.

    A cluster without a snapshot at or before the earlier moment has no rows: it is not known what it held then.
    """
    same = ["cluster", "entity_key", "key"]
    old = held_at(history, since).select(*same, f.col("entity").alias("entity_before"), f.col("value").alias("before"))
    known = last_snapshots(history, since).select("cluster")
    held_later = held_at(history, until).join(known, "cluster", "left_semi")
    new = held_later.select(
        *same,
        f.col("entity").alias("entity_after"),
        f.col("value").alias("after"),
        f.col("valid_from").alias("set_at"),
        f.col("changed_by").alias("set_by"),
    )
    gone = (
        history.where(f.col("entity_key").isNotNull() & (f.col("valid_to") > f.lit(since)))
        .where(f.col("valid_to") <= f.lit(until))
        .groupBy(*same)
        .agg(f.max("valid_to").alias("removed_at"), f.max_by("ended_by", "valid_to").alias("removed_by"))
    )
    is_set = f.col("after").isNotNull()
    return (
        old.join(new, same, "full_outer")
        .where(~f.col("before").eqNullSafe(f.col("after")))
        .join(gone, same, "left")
        .withColumn("entity", f.coalesce("entity_after", "entity_before"))
        .withColumn("changed_at", f.when(is_set, f.col("set_at")).otherwise(f.col("removed_at")))
        .withColumn("changed_by", f.when(is_set, f.col("set_by")).otherwise(f.col("removed_by")))
        .select(*HISTORY_CHANGES.names)
    )
