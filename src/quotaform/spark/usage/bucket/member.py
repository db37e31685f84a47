"""The series that make each bucket on a broker, with numbers that stand for both while rows are many.

The number of a series has two parts:

| bits | content |
| --- | --- |
| the lower 32 | the number of its member: those who have the same names, in the order of their addresses |
| the others | which of several clients with these names it is; 0 if a broker measured |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.spark.usage.bucket.bucket import CLUSTER_KEYS, OF_SERIES, same_columns
from quotaform.spark.usage.schemas import SERIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEMBER_BITS: Final = 32
"""How many of the lower bits of `series_id` are the number of the member."""
MEMBER: Final = (1 << MEMBER_BITS) - 1
"""What of `series_id` is the number of the member."""


def numbered(series: DataFrame, found: DataFrame) -> DataFrame:
    """Return the series on each broker with their buckets: `schemas.SERIES`, the columns of `found`, and these.

    | column | content |
    | --- | --- |
    | bucket_broker | the broker; null where one limit holds for the whole cluster |
    | bucket_id | the number of the bucket on the broker |
    | series_id | the number of the series in its bucket, see above |
    | is_sum | whether it is of all brokers, each of which has the whole limit, as what clients measure |

    A limit on mutations is one of the whole cluster, which its active controller enforces. So brokers are not added up:
    what several report is one series.

    Args:
        series: The columns of `schemas.SERIES`, a row per series; other columns are left out.
        found: `schemas.BUCKETS` of them, and other columns.
    """
    others = [name for name in found.columns if name not in OF_SERIES]
    is_of_cluster = f.col("key").isin(CLUSTER_KEYS)
    rows = (
        series.alias("series")
        .join(found.alias("found"), same_columns("series", "found", OF_SERIES))
        .select(*(f.col(f"series.{name}") for name in SERIES), *(f.col(f"found.{name}") for name in others))
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

    Args:
        rows: The columns of `schemas.SERIES` and `bucket_id`, a row per series.
        names: The columns that name the member.
    """
    member = f.dense_rank().over(Window.partitionBy("bucket_id").orderBy(*names)).cast("long")
    # Nulls come first, and are no instance.
    instance = f.dense_rank().over(Window.partitionBy("bucket_id", *names).orderBy("instance"))
    own = f.when(f.col("instance").isNotNull(), instance).otherwise(0).cast("long")
    return rows.withColumn("series_id", f.shiftleft(own, MEMBER_BITS) + member)


def member_number() -> Column:
    """Return the number of the member that a series is of: the `series_id` of one without an instance."""
    return f.col("series_id").bitwiseAND(f.lit(MEMBER))
