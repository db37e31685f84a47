"""The blast radius of plans for any number of principals: tasks find the rows of `quotaform.plan.blast_radius`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.model.quotas import NO_VALUES, Quotas
from quotaform.plan.blast_radius import (
    MOST_LARGEST,
    RANK,
    Cell,
    ChangedLimits,
    ChangedValues,
    LimitDirection,
    change_row,
)
from quotaform.resolve.spark import (
    MOST_CLUSTERS,
    by_cluster,
    entity_of_row,
    packed,
    principal_columns,
    request_of_row,
    unpacked,
)
from quotaform.resolve.spark_quotas import PRINCIPALS, arrow_schema, struct
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


_LIMIT: Final = ("value double", "entity_key string", "source string", "level integer", "bucket string")
LIMIT_CHANGES: Final = struct(
    "cluster string",
    PRINCIPALS,
    "key direction string",
    "factor double",
    *(f"{side}_{column}" for side in ("before", "after") for column in _LIMIT),
)
"""The effective limits of principals that a plan changes: the columns of `quotaform.plan.blast_radius.change_row`."""

LIMIT_COUNTS: Final = struct("cluster direction string", "principals limits long")
"""How many principals and effective limits plans change; `direction` is null in the row of a whole cluster."""


def blast_radius(principals: DataFrame, clusters: Mapping[str | None, bytes]) -> DataFrame:
    """Return `LIMIT_CHANGES`: the effective limits of principals that change on each of their clusters.

    `principals`: `PRINCIPALS`, each principal once; see `distinct_principals`. `clusters`: those on which anything
    changes, as `changed_cluster` packs them.
    """
    return principal_columns(principals).mapInArrow(partial(_find, clusters), LIMIT_CHANGES)


def changed_cluster(actual: Quotas, changed: ChangedValues) -> bytes:
    """Return what a cluster holds and what changes there, as tasks get it."""
    return packed((actual, changed))


def changes_between(before: Quotas, after: Quotas) -> ChangedValues:
    """Return what two states of a cluster do not hold alike: entities, with keys that stay, too."""
    return {
        entity: (after.get(entity, NO_VALUES), tuple({**before.get(entity, {}), **after.get(entity, {})}))
        for entity in {**before, **after}
        if before.get(entity) != after.get(entity)
    }


@lru_cache(maxsize=MOST_CLUSTERS)
def _limits(content: bytes) -> ChangedLimits:
    return ChangedLimits(*unpacked(content))


def _find(
    clusters: Mapping[str | None, bytes], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Find the changes of a partition of principals; runs on an executor."""
    import pyarrow

    schema = arrow_schema(LIMIT_CHANGES)
    with rare_collections():
        for cluster, batch in by_cluster(clusters, batches):
            limits = _limits(clusters[cluster])
            rows: list[dict[str, Cell]] = []
            for names in zip(*(batch.column(name).to_pylist() for name in PRINCIPALS.names), strict=True):
                changes = limits.of(entity_of_row(*names), request_of_row(*names))
                rows += [{"cluster": cluster, **change_row(change)} for change in changes]
            yield pyarrow.RecordBatch.from_pylist(rows, schema)


def distinct_principals(principals: DataFrame) -> DataFrame:
    """Return `PRINCIPALS`, each once; per cluster, if they have such a column.

    This is the one step that shuffles principals.
    """
    return principal_columns(principals).distinct()


def limit_counts(rows: DataFrame) -> DataFrame:
    """Return `LIMIT_COUNTS`: per cluster and direction, and without a direction per cluster."""
    principal = f.struct(*PRINCIPALS.names)
    return (
        rows.rollup("cluster", "direction")
        .agg(f.count_distinct(principal).alias("principals"), f.count("*").alias("limits"))
        .where(f.col("cluster").isNotNull())
        .select(*LIMIT_COUNTS.names)
    )


def largest_changes(rows: DataFrame) -> DataFrame:
    """Return the largest changes of each cluster, in the order of `quotaform.plan.blast_radius.size_order`."""
    direction, factor = f.col("direction"), f.col("factor")
    rank = f.coalesce(*(f.when(direction == each.value, f.lit(RANK[each])) for each in LimitDirection))
    size = (
        f.when(direction == LimitDirection.LOWER.value, f.coalesce(factor, f.lit(0.0)))
        .when(direction == LimitDirection.HIGHER.value, -f.coalesce(factor, f.lit(float("inf"))))
        .otherwise(0.0)
    )
    order = [rank, size, *(f.col(column).asc_nulls_first() for column in PRINCIPALS.names), f.col("key")]
    place = f.row_number().over(Window.partitionBy("cluster").orderBy(*order))
    largest = rows.withColumn("place", place).where(f.col("place") <= MOST_LARGEST)
    return largest.orderBy("cluster", "place").select(*LIMIT_CHANGES.names)
