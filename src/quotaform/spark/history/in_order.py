"""The rows of clusters with one new snapshot each that is later than all others: the usual case, in one join.

A value of the snapshot continues the row that is still valid if it is the same value of the same cluster id. Else that
row ends and a new one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.spark.history.new_snapshot import NewSnapshot, small_table
from quotaform.spark.schemas import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY: Final = ["cluster", "entity_key", "key"]
_SORTED_BY: Final = ["hash", "key", "cluster", "entity_key"]
"""Numbers are compared faster than texts, and the rows of an entity stay together, which are alike."""


def merged_in_order(held: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return `schemas.HISTORY` of the clusters of new snapshots; see `quotaform.spark.history.merge.appended`.

    Args:
        held: Rows with an entity, at least all that are still valid; rows of other clusters are left out.
        quotas: What the snapshots hold, and others.
        new: The new snapshots: one of each cluster.
    """
    due = f.broadcast(
        small_table(
            held.sparkSession,
            ["cluster", "cluster_id", "read_at"],
            ((each.cluster, each.cluster_id, each.read_at) for each in new),
        )
    )
    own = held.join(due.select("cluster"), "cluster", "left_semi")
    hash_of = f.xxhash64("cluster", "entity_key").alias("hash")
    old = own.where(f.col("valid_to").isNull()).select(
        hash_of,
        *_KEY,
        *(f.col(name).alias(f"old_{name}") for name in ("cluster_id", "entity", "value")),
        "valid_from",
        "changed_by",
    )
    taken = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    fresh = taken.join(due, ["cluster", "cluster_id", "read_at"]).select(
        hash_of, *_KEY, f.col("entity").alias("new_entity"), f.col("value").alias("new_value")
    )
    rows = fresh.join(old, _SORTED_BY, "full_outer").join(due, "cluster").select(f.inline(_rows()))
    return rows.unionByName(own.where(f.col("valid_to").isNotNull()))


def _rows() -> Column:
    """Return the rows that an old value and a new one of the same key make: an array of one or two."""
    before, after = f.col("old_value"), f.col("new_value")
    is_same = f.col("old_cluster_id").eqNullSafe(f.col("cluster_id")) & before.eqNullSafe(after)
    old = _row(
        cluster_id=f.col("old_cluster_id"),
        entity=f.col("old_entity"),
        value=before,
        valid_from=f.col("valid_from"),
        valid_to=f.when(~is_same, f.col("read_at")),
        changed_by=f.col("changed_by"),
    )
    new = _row(cluster_id=f.col("cluster_id"), entity=f.col("new_entity"), value=after, valid_from=f.col("read_at"))
    one = f.when(is_same | after.isNull(), f.array(old)).when(before.isNull(), f.array(new))
    return one.otherwise(f.array(old, new))


def _row(**columns: Column) -> Column:
    """Return a row of `schemas.HISTORY`; columns that are not given are those of the key, or null."""
    columns |= {name: f.col(name) for name in _KEY}
    null = f.lit(None)
    return f.struct(*(columns.get(each.name, null).cast(each.dataType).alias(each.name) for each in HISTORY))
