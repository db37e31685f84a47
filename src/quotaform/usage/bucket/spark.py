"""The bucket and the member number of each recorded series, on DataFrames.

A recording has far fewer series than samples, so those of a cluster are resolved by one task that has its quotas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.model.entity import Entity
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.resolve.spark_quotas import CLUSTER
from quotaform.usage.bucket.bucket import SeriesBuckets, SeriesNames
from quotaform.usage.table.schema import BUCKET_NAMES, BUCKETS, SERIES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

    from quotaform.model.quotas import Quotas


OF_SERIES: Final = (CLUSTER, "key", *BUCKET_NAMES)
"""The columns by which a series, on whichever broker, has a bucket."""
CLUSTER_KEYS: Final = [key.name for key in QUOTA_KEYS.values() if key.per == "cluster"]
"""The quota keys whose limit holds for a whole cluster."""


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
    """Return `BUCKETS`: the bucket and the limit of each series under some quotas.

    A series of a cluster that the quotas do not have has no limit.

    `series`: `RECORDED`, or any rows with the names of series. `before`: the quotas while the usage was recorded, if
    other ones: brokers measured by their buckets.
    """
    held = _values(quotas, is_before=False)
    is_changed = before is not None
    if before is not None:
        held = held.unionByName(_values(before, is_before=True))
    found = series.select(*OF_SERIES).distinct().groupBy(CLUSTER).cogroup(held.groupBy(CLUSTER))
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


# The series that make each bucket on a broker, with numbers that stand for both while rows are many.
#
# The number of a series has two parts:
#
# | bits | content |
# | --- | --- |
# | the lower 32 | the number of its member: those who have the same names, in the order of their addresses |
# | the others | which of several clients with these names it is; 0 if a broker measured |

MEMBER_BITS: Final = 32
"""How many of the lower bits of `series_id` are the number of the member."""
MEMBER: Final = (1 << MEMBER_BITS) - 1
"""What of `series_id` is the number of the member."""


def numbered(series: DataFrame, found: DataFrame) -> DataFrame:
    """Return the series on each broker with their buckets: `SERIES`, `samples`, the columns of `found`, and these.

    | column | content |
    | --- | --- |
    | bucket_broker | the broker; null where one limit holds for the whole cluster |
    | bucket_id | the number of the bucket on the broker |
    | series_id | the number of the series in its bucket, see above |
    | is_sum | whether it is of all brokers, each of which has the whole limit, as what clients measure |

    A limit on mutations is one of the whole cluster, which its active controller enforces. So brokers are not added up:
    what several report is one series.

    `series`: `RECORDED`. `found`: `buckets` of them, and other columns.
    """
    others = [name for name in found.columns if name not in OF_SERIES]
    is_of_cluster = f.col("key").isin(CLUSTER_KEYS)
    rows = (
        series.alias("series")
        .join(found.alias("found"), same_columns("series", "found", OF_SERIES))
        .select(
            *(f.col(f"series.{name}") for name in (*SERIES, "samples")), *(f.col(f"found.{name}") for name in others)
        )
        .withColumns(
            {
                "bucket_broker": f.when(~is_of_cluster, f.col("broker")),
                "is_sum": f.col("broker").isNull() & ~is_of_cluster,
            }
        )
    )
    bucket = Window.orderBy("cluster", "key", "bucket", "bucket_broker")
    rows = rows.withColumn("bucket_id", f.dense_rank().over(bucket).cast("long"))
    return with_series_id(rows, "member")


def with_series_id(rows: DataFrame, *names: str) -> DataFrame:
    """Return series with their number in their bucket.

    `rows`: the columns of `SERIES` and `bucket_id`, a row per series. `names`: the columns that name the
    member.
    """
    member = f.dense_rank().over(Window.partitionBy("bucket_id").orderBy(*names)).cast("long")
    # Nulls come first, and are no instance.
    instance = f.dense_rank().over(Window.partitionBy("bucket_id", *names).orderBy("instance"))
    own = f.when(f.col("instance").isNotNull(), instance).otherwise(0).cast("long")
    return rows.withColumn("series_id", f.shiftleft(own, MEMBER_BITS) + member)


def member_number() -> Column:
    """Return the number of the member that a series is of: the `series_id` of one without an instance."""
    return f.col("series_id").bitwiseAND(f.lit(MEMBER))
