"""The series that make each bucket on a broker, with numbers that stand for both while rows are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.spark.usage.bucket.bucket import CLUSTER_KEYS, OF_SERIES, same_columns
from quotaform.spark.usage.schemas import SERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def numbered(series: DataFrame, found: DataFrame) -> DataFrame:
    """Return the series on each broker with their buckets: `schemas.SERIES`, the columns of `found`, and these.

    | column | content |
    | --- | --- |
    | bucket_broker | the broker; null where one limit holds for the whole cluster |
    | bucket_id | the number of the bucket on the broker |
    | series_id | the number of the series in its bucket, in the order of their addresses |
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
    of_bucket = Window.partitionBy("bucket_id").orderBy("member")
    return rows.withColumn("series_id", f.dense_rank().over(of_bucket).cast("long"))
