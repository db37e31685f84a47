"""The rows of clusters with new snapshots of any time, also several of one cluster.

Each new snapshot has a window, from its time to that of the next one: rows that were there are cut out of the windows,
what the snapshots hold fills them, and pieces that follow each other with the same value become one row again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.spark.history.new_snapshot import NewSnapshot, as_history, small_table
from quotaform.spark.schemas import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY: Final = ["cluster", "entity_key", "key"]
_OWN: Final = ["cluster", "cluster_id", "entity_key", "entity", "key", "value"]


def merged_in_any_order(held: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return `schemas.HISTORY` of the clusters of new snapshots; see `quotaform.spark.history.append.appended`.

    Args:
        held: Rows with an entity: those of these clusters that may change, and rows of others.
        quotas: What the snapshots hold, and others.
    """
    return _joined(_cut(held, new).unionByName(_filling(quotas, new))).select(*HISTORY.names)


def _filling(quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return what the snapshots hold, each from its time to that of the next one."""
    window = small_table(
        quotas.sparkSession,
        ["cluster", "cluster_id", "read_at", "valid_to"],
        ((each.cluster, each.cluster_id, each.read_at, each.next_at) for each in new),
    )
    held = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    return as_history(
        held.join(f.broadcast(window), ["cluster", "cluster_id", "read_at"]).withColumnRenamed("read_at", "valid_from")
    )


def _cut(held: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
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


def _gaps(new: Sequence[NewSnapshot]) -> Iterator[tuple[str, datetime | None, datetime | None]]:
    """Yield the times of clusters that no new snapshot tells about: cluster, start, end; `None` is no bound."""
    for cluster, readings in groupby(new, key=lambda snapshot: snapshot.cluster):
        start: datetime | None = None
        for snapshot in readings:
            if start is None or start < snapshot.read_at:
                yield cluster, start, snapshot.read_at
            start = snapshot.next_at
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
