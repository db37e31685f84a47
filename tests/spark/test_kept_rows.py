"""What becomes of rows on the disks of executors when an executor is lost before the driver has read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession

from quotaform.fleet.job import kept_rows

CLUSTERS = 3


def noted(spark: SparkSession, folder: Path) -> DataFrame:
    """Rows of tasks that each leave a line in a file when they run."""

    def work(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with (folder / f"task-{number}").open("a", encoding="utf-8") as file:
                    file.write("ran\n")
            yield batch

    return spark.range(0, CLUSTERS, 1, CLUSTERS).mapInArrow(work, "id long")


def runs(folder: Path) -> list[int]:
    return [(folder / f"task-{number}").read_text(encoding="utf-8").count("ran") for number in range(CLUSTERS)]


def kept_blocks(spark: SparkSession) -> list[int]:
    """The ids of what is kept."""
    return list(spark.sparkContext._jsc.getPersistentRDDs())


def lose(spark: SparkSession, ids: list[int]) -> None:
    """Remove blocks, as they are gone with an executor."""
    context: Any = spark.sparkContext._jsc.sc()
    for number in ids:
        context.env().blockManager().master().removeRdd(number, True)


def test_tasks_whose_rows_are_repeatable_run_again_when_the_rows_are_lost(spark: SparkSession, tmp_path: Path) -> None:
    before = kept_blocks(spark)
    with kept_rows(noted(spark, tmp_path)) as kept:
        kept.count()
        assert runs(tmp_path) == [1, 1, 1]
        lose(spark, [number for number in kept_blocks(spark) if number not in before])
        assert sorted(row.id for row in kept.toLocalIterator()) == [0, 1, 2]
        assert runs(tmp_path) == [2, 2, 2]
    assert sorted(kept_blocks(spark)) == sorted(before)
