"""Paths and names of tables, and rows that are brought to the task of their cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quotaform.fleet.table import located, read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
