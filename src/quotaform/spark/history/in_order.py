"""The rows of clusters with one new snapshot each that is later than all others: the usual case.

A value of the snapshot continues the row that is still valid if it is the same value of the same cluster id. Else that
row ends and a new one begins.

From one snapshot to the next few values change. So the values that change are looked for first, by hashes and numbers
alone; then only those are joined as a whole, and all other rows stay as they are without being moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.spark.history.new_snapshot import NewSnapshot, small_table
from quotaform.spark.history.table import Merged
from quotaform.spark.schemas import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEY: Final = ["cluster", "entity_key", "key"]
_SORTED_BY: Final = ["hash", "key", "cluster", "entity_key"]
"""Numbers are compared faster than texts, and the rows of an entity stay together, which are alike."""
_MOST_CHANGES: Final = 1_000_000
"""How many hashes of changed values every executor gets; with more of them, all rows are joined."""


def merged_in_order(held: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> Merged:
    """Return what becomes of rows by new snapshots; runs a job, to find which ones change.

    Args:
        held: Rows with an entity: of the clusters of new snapshots at least all that are still valid; rows that have
            ended, and rows of other clusters, stay as they are.
        quotas: What the snapshots hold, and others.
    """
    snapshots = f.broadcast(
        small_table(
            held.sparkSession,
            ["cluster", "cluster_id", "read_at"],
            ((each.cluster, each.cluster_id, each.read_at) for each in new),
        )
    )
    taken = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    fresh = taken.join(snapshots, ["cluster", "cluster_id", "read_at"])
    is_open = f.col("valid_to").isNull()
    own = held.where(is_open).join(snapshots.drop("cluster_id", "read_at"), "cluster", "left_semi")
    changed = _changed(own, fresh) if any(each.previous_at is not None for each in new) else None
    if changed is None:
        ended = held.where(~is_open).join(snapshots, "cluster", "left_semi")
        others = held.join(snapshots, "cluster", "left_anti")
        return Merged(_joined(own, fresh, snapshots).unionByName(ended).unionByName(others))
    is_changed = f.xxhash64(*_KEY) == changed["hash"]
    rows = _joined(own.join(changed, is_changed, "left_semi"), fresh.join(changed, is_changed, "left_semi"), snapshots)
    # The name of the cluster is in the hash.
    return Merged(rows, held.join(changed, is_open & is_changed, "left_anti"))


def _changed(own: DataFrame, fresh: DataFrame) -> DataFrame | None:
    """Find which values differ between the rows that are valid and new snapshots.

    Returns:
        The hashes of their keys: `hash`. A key that shares its hash with another one is among them. `None` if there
        are more than `_MOST_CHANGES`.
    """
    old, now = (
        rows.select(
            f.xxhash64(*_KEY).alias("hash"),
            f.xxhash64("key", "entity_key", "cluster", "cluster_id").alias("other_hash"),
            "value",
        )
        for rows in (own, fresh)
    )
    is_same = (old["other_hash"] == now["other_hash"]) & (old["value"] == now["value"])
    pairs = old.join(now, old["hash"] == now["hash"], "full_outer").where(~f.coalesce(is_same, f.lit(False)))
    found = pairs.select(f.coalesce(old["hash"], now["hash"]).alias("hash"))
    changed = found.limit(_MOST_CHANGES + 1).localCheckpoint()
    return f.broadcast(changed) if changed.count() <= _MOST_CHANGES else None


def _joined(own: DataFrame, fresh: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return what rows that are still valid become with what new snapshots of their clusters hold.

    Args:
        own: Rows of `schemas.HISTORY`.
        fresh: Values, with the columns of `schemas.QUOTAS`.
        snapshots: The snapshots: cluster, cluster_id, read_at.
    """
    hash_of = f.xxhash64("cluster", "entity_key").alias("hash")
    old = own.select(
        hash_of,
        *_KEY,
        *(f.col(name).alias(f"old_{name}") for name in ("cluster_id", "entity", "value")),
        "valid_from",
        "changed_by",
    )
    now = fresh.select(hash_of, *_KEY, f.col("entity").alias("new_entity"), f.col("value").alias("new_value"))
    return now.join(old, _SORTED_BY, "full_outer").join(snapshots, "cluster").select(f.inline(_rows()))


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
