"""Asks a session what it is and does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from quotaform.fleet.job import ShippedFile, ship
from quotaform.fleet.options import SessionOptions
from quotaform.fleet.session import is_connect, spark_session


def answer(options: SessionOptions) -> dict[str, Any]:
    """Run queries in a session, and return what they found."""
    from pyspark.sql import functions

    with TemporaryDirectory() as folder, spark_session(options) as spark:
        path = written(folder)
        rows = spark.range(0, 2, 1, 2).mapInArrow(reading(ship(spark, path)), "path string, text string").collect()
        found = {
            "is_connect": is_connect(spark),
            "master": spark.conf.get("spark.master"),
            "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
            "sum": spark.range(5).agg(functions.sum(functions.col("id") * 2)).collect()[0][0],
            "texts": sorted({row.text for row in rows}),
            "is_copied": str(path) not in {row.path for row in rows},
        }
        # No task fetches this one while it is there: those of the next command do.
        ship(spark, written(folder))
        return found


def written(folder: str) -> Path:
    """Write a file of a name that no other has."""
    path = Path(folder) / f"shipped-{uuid4().hex}.txt"
    path.write_text("seen", encoding="utf-8")
    return path


def reading(shipped: ShippedFile) -> Any:
    """Return what reads a shipped file in each task."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            path = shipped.here()
            row = {"path": str(path), "text": path.read_text(encoding="utf-8")}
            yield pyarrow.RecordBatch.from_pylist([row])

    return read
