"""Which bucket each recorded series belongs to under some quotas, as `quotaform.core.usage.series_bucket` finds it.

The series of a recording are few beside its samples, so those of a cluster are resolved by one task that has the quotas
of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.core.usage.series_bucket import SeriesBuckets, SeriesNames
from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.spark.schemas import CLUSTER
from quotaform.spark.usage.schemas import BUCKET_NAMES, BUCKETS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

    from quotaform.model.quotas import Quotas

OF_SERIES: Final = (CLUSTER, "key", *BUCKET_NAMES)
"""The columns by which a series, on whichever broker, has a bucket."""
CLUSTER_KEYS: Final = [key.name for key in QUOTA_KEYS.values() if key.per == "cluster"]
"""The quota keys whose limit holds for a whole cluster."""


def recorded_series(usage: DataFrame) -> DataFrame:
    """Return what was recorded: the distinct `cluster`, `key`, `user`, `client_id` and `ip`.

    Args:
        usage: `schemas.USAGE`, or any table with these columns.
    """
    return usage.select(*OF_SERIES).distinct()


def same_columns(left: str, right: str, columns: Iterable[str]) -> Column:
    """Return whether columns of two tables are equal, where null is equal to null."""
    return reduce(and_, (f.col(f"{left}.{name}").eqNullSafe(f.col(f"{right}.{name}")) for name in columns))


def finite_limit(name: str = "limit") -> Column:
    """Return a limit of the quota key in the column `key`; null if no rate can exceed it: NaN, the maximum of the key,
    and more than that.
    """
    maximum = f.coalesce(
        *(f.when(f.col("key") == key.name, key.maximum) for key in QUOTA_KEYS.values()), f.lit(float("inf"))
    )
    return f.when(f.col(name) < maximum, f.col(name))


def buckets(series: DataFrame, quotas: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Return `schemas.BUCKETS`: the bucket and the limit of each series under some quotas.

    A series of a cluster that the quotas do not have has no limit.

    Args:
        series: `recorded_series`.
        before: The quotas while the usage was recorded, if other ones: brokers measured by their buckets.
    """
    held = _values(quotas, is_before=False)
    is_changed = before is not None
    if before is not None:
        held = held.unionByName(_values(before, is_before=True))
    found = series.groupBy(CLUSTER).cogroup(held.groupBy(CLUSTER))
    # Spark takes annotations of the function for kinds of data.
    return found.applyInArrow(lambda series, held: _found(series, held, is_changed), BUCKETS)


def _values(quotas: DataFrame, *, is_before: bool) -> DataFrame:
    values = quotas.where(f.col("value").isNotNull())
    return values.select(CLUSTER, "entity", "key", "value", f.lit(is_before).alias("is_before"))


def _found(series: pyarrow.Table, held: pyarrow.Table, is_changed: bool) -> pyarrow.Table:
    """Return the buckets of the series of one cluster under its quotas."""
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    by_side: dict[bool, dict[Entity, dict[str, float]]] = {False: defaultdict(dict), True: defaultdict(dict)}
    for row in held.to_pylist():
        by_side[row["is_before"]][Entity(dict(row["entity"]))][row["key"]] = row["value"]
    before: Quotas | None = by_side[True] if is_changed else None
    known = SeriesBuckets(by_side[False], before)
    rows: list[dict[str, Any]] = []
    for each in series.to_pylist():
        found = known.of(SeriesNames(*(each[name] for name in BUCKET_NAMES)), each["key"])
        rows.append(each | found._asdict() | {"entity_key": found.entity})
    return pyarrow.Table.from_pylist(rows, schema=to_arrow_schema(BUCKETS))
