"""Writes how close clients came to their quotas, and what the quotas should be, as tables: a job for Spark.

spark-submit quota_report.py /srv/quotas /srv/usage /srv/report

The folders are those of quotaform.yaml, of recorded usage and of the tables `headroom` and `recommendations`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from quotaform.spark import headroom, recommend, register, usage


def main(repository: str, recorded: str, report: str) -> None:
    """Compare the recorded usage with what the clusters hold now."""
    spark = SparkSession.builder.appName("quota-report").getOrCreate()
    register(spark)
    clusters = spark.read.format("kafka_quotas").option("repository", repository).load().localCheckpoint()
    for row in clusters.where(f.col("failure").isNotNull()).select("cluster", "failure.message").collect():
        print(f"{row.cluster} could not be read: {row.message}", file=sys.stderr)
    samples = usage(spark, recorded)
    for name, rows in (("headroom", headroom(samples, clusters)), ("recommendations", recommend(samples, clusters))):
        rows.write.mode("overwrite").parquet(f"{report}/{name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
