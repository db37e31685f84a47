"""What commands say and write on Spark, as `tests/golden/test_stories.py` tells it: `story-spark-*.txt` hold it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from quotaform.model.entity import Entity, parse_address
from tests.golden.conftest import golden
from tests.golden.table import check_told
from tests.golden.test_stories import Story, values_of
from tests.planned_repository import own_environment
from tests.spark import files
from tests.spark.log import without_progress
from tests.spark.test_usage_curve import START, usage_rows
from tests.spark.usage_oracle import usage_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.golden.conftest import Golden

__all__ = ["golden"]

pytestmark = pytest.mark.workflow


class SparkStory(Story):
    """A repository, and what is done there in a session that exists."""

    spark: SparkSession

    def taken(self, path: str, cluster: str, day: str, *users: str) -> None:
        """`taken FILE CLUSTER DAY a=1 'user=a:request_percentage=5'`: a snapshot of a day in November 2026."""
        quotas = {}
        for each in users:
            said, _, values = each.rpartition(":" if ":" in each else "=")
            quotas[parse_address(said) if ":" in each else Entity(user=said)] = values_of(values)
        files.write_snapshot(self.path / path, quotas, cluster, f"id-{cluster}", f"2026-11-{int(day):02}T09:00:00Z")

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


@pytest.mark.parametrize("name", ["fleet", "history", "resolve"])
def test_this_is_said_on_spark(
    golden: Golden,
    spark: SparkSession,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_environment(monkeypatch)
    beginning: list[str] = []

    def tell(text: str | bytes) -> Iterator[str]:
        lines = str(text).splitlines()
        if lines[0] == "each:":
            beginning[:] = lines[1:]
            return
        with monkeypatch.context() as environment, ExitStack() as stack:
            story = SparkStory(tmp_path / os.urandom(8).hex(), capsys, environment, stack)
            story.spark = spark
            for line in (*beginning, *lines):
                yield from story.tell(line)

    check_told(golden, f"story-spark-{name}.txt", tell)
