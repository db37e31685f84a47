"""Brings snapshots into a history, in whatever order they come.

The snapshots of a cluster are points in time. What one of them holds is valid from its own time until that of the next
snapshot of the cluster, whenever either of them became known.

| snapshot | what becomes of the rows |
| --- | --- |
| the first one of a cluster | there are none |
| newer than all others | those that are still valid end where it differs |
| late | those that are valid at its time are split where it differs |
| known already | they stay as they are |

A snapshot is known by cluster name and time. A cluster that has got another id keeps its name: all rows of the old id
end with the first snapshot of the new one, also where the values are the same. A cluster that could not be read or is
not among the snapshots keeps its rows as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.spark.history.any_order import merged_in_any_order
from quotaform.spark.history.in_order import merged_in_order
from quotaform.spark.history.new_snapshot import NewSnapshot, small_table
from quotaform.spark.history.table import Merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def appended(history: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> Merged:
    """Return what becomes of rows by new snapshots; see above.

    Args:
        history: `schemas.HISTORY`: those rows of the clusters of the snapshots that may change, at least all that are
            still valid, and of clusters with a late one all that ended after the earliest; and rows of others.
        quotas: `schemas.QUOTAS`; rows of snapshots that are not new are left out.
        new: `new_snapshots`.
    """
    held = history.where(f.col("entity_key").isNotNull())
    count = Counter(each.cluster for each in new)
    in_order = [each for each in new if count[each.cluster] == 1 and not each.is_late]
    others = [each for each in new if count[each.cluster] > 1 or each.is_late]
    if not others:
        return merged_in_order(held, quotas, in_order)
    clusters = small_table(held.sparkSession, ["cluster"], ((name,) for name in {each.cluster for each in others}))
    rest = held.join(f.broadcast(clusters), "cluster", "left_anti")
    if in_order:
        rest = merged_in_order(rest, quotas, in_order).rows()
    return Merged(rest.unionByName(merged_in_any_order(held, quotas, others)))
