"""Paths and names of tables, and rows that are brought to the task of their cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quotaform.fleet.job import by_place, task_count
from quotaform.fleet.table import located, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("clusters", [7, 600])
def test_the_rows_of_each_cluster_are_in_one_task_and_no_task_is_idle(spark: SparkSession, clusters: int) -> None:
    """Rows were grouped by a hash, in two tasks by default, so that clusters which are down were waited for in turn."""
    from pyspark.sql import functions as f

    # The first cluster has nearly all rows.
    rows = spark.range(2000).select(f.greatest(f.lit(0), f.col("id") - (2000 - clusters)).cast("int").alias("place"))
    placed = by_place(rows, clusters).withColumn("task", f.spark_partition_id())
    found = placed.groupBy("task").agg(f.sort_array(f.collect_set("place")).alias("places")).orderBy("task").collect()
    assert [row.task for row in found] == list(range(task_count(clusters)))
    assert [place for row in found for place in row.places] == list(range(clusters))
    sizes = {len(row.places) for row in found}
    assert max(sizes) - min(sizes) <= 1


def test_a_path_means_the_files_that_the_command_sees_whatever_the_default_file_system_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four ways to give Spark a path agreed where `fs.defaultFS` is this machine's, and nowhere else."""
    monkeypatch.chdir(tmp_path)
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        spark.range(3).coalesce(1).write.parquet(located("data/rows"))
        assert (tmp_path / "data/rows/_SUCCESS").is_file()
        assert read_table(spark, "data/rows").count() == 3
    finally:
        spark.conf.unset("fs.defaultFS")
