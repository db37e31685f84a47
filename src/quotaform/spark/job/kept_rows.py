"""Rows that tasks have made, on the disks of executors until the driver has read them.

| kept by | when an executor is lost, and rows with it |
| --- | --- |
| `repeatable_rows` | the tasks that made them run again as soon as they are read |
| `final_rows` | reading them is an error: no task runs again that has ended |

Within the job that makes the rows, Spark repeats tasks that fail in either case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from quotaform.spark.session.session import release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def repeatable_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Make rows, and give them as they are kept: for what may be done again, and what costs little to lose."""
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        kept.count()
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def final_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Make rows, and give them as they are kept: for what has effects, or must be the same however often it is read."""
    kept = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        release(kept)
