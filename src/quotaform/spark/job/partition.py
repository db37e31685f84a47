"""Rows of clusters, brought together so that each task has the rows of its clusters and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.spark.job.cluster_job import task_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def by_place(rows: DataFrame, clusters: int) -> DataFrame:
    """Return the same rows in as many partitions as there are tasks, sorted by `place`.

    A hash of the cluster would put several into one partition and leave others empty, and ranges of rows would put all
    small clusters into one.

    Args:
        rows: Rows with a column `place`: an integer, the place of the cluster among all of them.
    """
    tasks = task_count(clusters)
    return rows.repartitionById(tasks, _task(tasks, clusters)).sortWithinPartitions("place")


def _task(tasks: int, clusters: int) -> Column:
    """Return the task of a place: they have equally many clusters, or one more, in order."""
    from pyspark.sql.functions import expr

    return expr(f"CAST(place AS BIGINT) * {tasks} DIV {clusters}").cast("int")
