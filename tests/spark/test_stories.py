"""What commands say and write on Spark, as `tests/golden/test_stories.py` tells it: `story-spark-*.txt` hold it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.golden.conftest import golden
from tests.golden.test_stories import CheckStory, Story, check_story, quotas_of
from tests.spark import files
from tests.spark.command_process import without_progress
from tests.spark.test_usage_table import START, usage_rows
from tests.spark.usage_oracle import usage_table

__all__ = ["check_story", "golden"]

pytestmark = pytest.mark.workflow


class SparkStory(Story):
    """A repository, and what is done there in a session that exists."""

    def __init__(self, spark: SparkSession, *made: Any) -> None:
        super().__init__(*made)
        self.spark = spark

    def taken(self, path: str, cluster: str, day: str, *users: str) -> None:
        """`taken FILE CLUSTER DAY a=1 'user=a:request_percentage=5'`: a snapshot of a day in November 2026."""
        files.write_snapshot(
            self.path / path, quotas_of(*users), cluster, f"id-{cluster}", f"2026-11-{int(day):02}T09:00:00Z"
        )

    def applied(self, folder: str) -> None:
        """`applied FOLDER`: the receipt of an apply to lab on the first evening, which made 1 MiB/s of alice two."""
        files.write_receipt(self.path / folder, "2026-11-01T20:00:00Z")

    def used(self, path: str) -> None:
        """`used PATH`: a table of usage."""
        usage_table(self.spark, usage_rows(4), START).write.parquet(str(self.path / path))

    def lines(self, path: str, columns: str, *rows: str) -> None:
        """`lines TABLE COLUMN,COLUMN a,b`: a table of texts; `-` is null."""
        cells = [[None if cell == "-" else cell for cell in row.split(",")] for row in rows]
        schema = ", ".join(f"`{name}` string" for name in columns.split(","))
        self.spark.createDataFrame(cells, schema).write.parquet(str(self.path / path))

    def rows(self, path: str) -> Iterator[str]:
        """`rows TABLE`: tell the rows of a table, sorted."""
        found = parquet.read_table(self.path / path)
        yield f"{path}: {', '.join(found.column_names)}"
        yield from sorted(self.masked(f"  {', '.join(map(str, row.values()))}") for row in found.to_pylist())

    def both(self, *arguments: str) -> Iterator[str]:
        """`both ARGUMENTS`: tell what a command says, which is the same on Spark."""
        told = list(self.say(*arguments))
        assert list(self.say(*arguments, "--engine", "spark"))[1:] == told[1:]
        yield from told

    def command(self, *arguments: str) -> tuple[int, str, str]:
        code, out, err = super().command(*arguments)
        return code, out, without_progress(err)


@pytest.mark.parametrize("name", ["fleet", "history", "resolve", "usage"])
def test_this_is_said_on_spark(check_story: CheckStory, spark: SparkSession, name: str) -> None:
    check_story(f"story-spark-{name}.txt", partial(SparkStory, spark))
