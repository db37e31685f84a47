"""The blast radius of plans for any number of principals: the rows of `quotaform.plan.blast_radius`, by joins.

Principals meet the quotas before and after a plan in the same pass (`quotaform.resolve.spark`), so that they are not
shuffled; what is counted and sorted are only the limits that change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.model.precedence import LEVELS
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.plan.blast_radius import MOST_LARGEST, RANK, LimitDirection
from quotaform.resolve.spark import resolved
from quotaform.resolve.spark_quotas import (
    CANONICAL,
    CLUSTER,
    DOUBLE,
    INTEGER,
    LONG,
    PRINCIPALS,
    QUOTAS,
    TEXT,
    completed,
    struct,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_LIMIT: Final = {"value": DOUBLE, "entity_key": TEXT, "source": TEXT, "level": INTEGER, "bucket": TEXT}
LIMIT_CHANGES: Final = struct(
    struct(cluster=TEXT),
    PRINCIPALS,
    key=TEXT,
    direction=TEXT,
    factor=DOUBLE,
    **{f"{side}_{name}": kind for side in ("before", "after") for name, kind in _LIMIT.items()},
)
"""The effective limits of principals that a plan changes: the columns of `quotaform.plan.blast_radius.change_row`."""

LIMIT_COUNTS: Final = struct(cluster=TEXT, direction=TEXT, principals=LONG, limits=LONG)
"""How many principals and effective limits plans change; `direction` is null in the row of a whole cluster."""


def blast_radius(principals: DataFrame, planned: DataFrame, warn: Callable[[str], None] = lambda _: None) -> DataFrame:
    """Return `LIMIT_CHANGES`: the effective limits of principals that plans change, on each of their clusters.

    A few small jobs look through the quotas at once, and they are read several times: they should be persisted.

    `principals`: `PRINCIPALS`, each principal once; see `distinct_principals`. `planned`:
    `PLANNED_QUOTAS` of clusters whose plans change anything; see `quotaform.fleet.plan`.
    """
    keys = _keys(planned)
    if not keys:
        return principals.sparkSession.createDataFrame([], LIMIT_CHANGES)
    # Without an entity it says that there is the cluster, even if nothing is left there.
    clusters = planned.select("cluster").distinct()
    before = quotas_on(planned, "before")
    after = quotas_on(planned, "after").unionByName(clusters, allowMissingColumns=True)
    rows = resolved(principals, after, keys=keys, before=before, limited_only=True, warn=warn)
    columns = {
        "direction": _direction(),
        "factor": _factor(),
        "before_bucket": _bucket("before_source"),
        **{f"after_{name}": f.col(name) for name in ("value", "source", "level", "entity_key", "bucket")},
    }
    return rows.withColumns(columns).where(f.col("direction").isNotNull()).select(*LIMIT_CHANGES.names)


def _keys(planned: DataFrame) -> list[str]:
    """Return the keys of which effective limits can change.

    Those are the keys of the changes, and where names have several spellings all keys of such entities: another entry
    may come in the place of one that does not change.
    """
    are_respelled = reduce(or_, [f.col("entity")[kind].isNotNull() for kind in CANONICAL])
    row = planned.agg(
        f.collect_set(f.when(f.col("changed"), f.col("key"))).alias("changed"),
        f.bool_or(f.col("changed") & are_respelled).alias("are_respelled"),
        f.collect_set(f.when(are_respelled, f.col("key"))).alias("respelled"),
    ).first()
    if row is None:
        return []
    return sorted({*row["changed"], *(row["respelled"] if row["are_respelled"] else ())})


def quotas_on(planned: DataFrame, side: str) -> DataFrame:
    """Return `QUOTAS` as they are `before` or `after` the plans."""
    return completed(planned.where(f.col(side).isNotNull()).withColumnRenamed(side, "value"), QUOTAS)


def distinct_principals(principals: DataFrame) -> DataFrame:
    """Return `PRINCIPALS`, each once; per cluster, if they have such a column.

    This is the one step that shuffles principals.
    """
    columns = [
        f.col(column).cast("string").alias(column)
        if column in principals.columns
        else f.lit(None).cast("string").alias(column)
        for column in PRINCIPALS.names
    ]
    clusters = [CLUSTER] if CLUSTER in principals.columns else []
    return principals.select(*clusters, *columns).distinct()


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


def _bucket(source: str) -> Column:
    return f.coalesce(*(f.when(f.col(source) == level.source, ",".join(level.bucket)) for level in LEVELS))


def _is_unlimited(value: Column) -> Column:
    # In SQL a NaN is larger than anything; on a broker it is not.
    maximum = f.coalesce(
        *(f.when(f.col("key") == key.name, key.maximum) for key in QUOTA_KEYS.values()), f.lit(float("inf"))
    )
    return value.isNull() | (~f.isnan(value) & (value >= maximum))


def _direction() -> Column:
    before, after = f.col("before_value"), f.col("value")
    was_unlimited, is_now_unlimited = _is_unlimited(before), _is_unlimited(after)
    nothing = f.lit(None).cast("string")
    is_same_bucket = _bucket("before_source").eqNullSafe(f.col("bucket"))
    return (
        f.when(was_unlimited & is_now_unlimited, nothing)
        .when(was_unlimited, LimitDirection.NEWLY_LIMITED.value)
        .when(is_now_unlimited, LimitDirection.NO_LONGER_LIMITED.value)
        .when(before == after, f.when(is_same_bucket, nothing).otherwise(LimitDirection.OTHER_BUCKET.value))
        .when(f.isnan(before) | f.isnan(after), LimitDirection.NOT_COMPARABLE.value)
        .when(after < before, LimitDirection.LOWER.value)
        .otherwise(LimitDirection.HIGHER.value)
    )


def _factor() -> Column:
    before, after = f.col("before_value"), f.col("value")
    are_limits = ~_is_unlimited(before) & ~_is_unlimited(after) & ~f.isnan(before) & ~f.isnan(after)
    return f.when(are_limits & (before > 0) & (after > 0), f.try_divide(after, before))
