"""The quotas of a cluster as if a plan were applied, which `resolve --plan` resolves principals by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.spark.schemas import CHANGES, QUOTAS, make_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.core.plan import Plan

_VALUE: Final = ["cluster", "entity_key", "key"]


def quotas_after(quotas: DataFrame, plan: Plan, cluster: str) -> DataFrame:
    """Return `schemas.QUOTAS` as they are when a plan has been applied; what it does not change stays.

    There is a row without an entity as well, by which the cluster is still known when the plan leaves nothing there.

    Args:
        quotas: `schemas.QUOTAS`.
        plan: The plan of one of the clusters.
        cluster: The name by which the quotas have that cluster.
    """
    changes = _changes(quotas.sparkSession, plan, cluster)
    left = quotas.join(changes, _VALUE, "left_anti")
    planned = changes.where(f.col("after").isNotNull()).withColumnRenamed("after", "value")
    known = quotas.sparkSession.createDataFrame([(cluster,)], "cluster string")
    return (
        left.unionByName(planned, allowMissingColumns=True)
        .unionByName(known, allowMissingColumns=True)
        .select(*QUOTAS.names)
    )


def _changes(spark: SparkSession, plan: Plan, cluster: str) -> DataFrame:
    """Return `schemas.CHANGES` of a plan."""
    values: Mapping[str, list[object]] = {
        "cluster": [cluster for _ in plan.rows],
        "entity_key": [row.entity.address for row in plan.rows],
        "entity": [list(row.entity.parts) for row in plan.rows],
        "key": [row.key for row in plan.rows],
        "after": [row.after for row in plan.rows],
    }
    return make_table(spark, CHANGES, [values[name] for name in CHANGES.names])
