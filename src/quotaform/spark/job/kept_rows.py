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
from math import ceil
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel

from quotaform.spark.session.session import release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_IN_TASK: Final = 100_000
"""A task of so many narrow rows takes about a second, beside which the 50 ms that any task takes do not matter."""


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
def table_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Make repeatable rows, and give them in few tasks: for what is read several times, and came from many tasks."""
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield in_few_tasks(kept, kept.count())
    finally:
        kept.unpersist()


def in_few_tasks(rows: DataFrame, number: int) -> DataFrame:
    """Return rows in as many tasks as their number is worth, but no more than they are in already.

    After a shuffle they are in `spark.sql.shuffle.partitions`, 200 unless the session says otherwise, and Spark does
    not reduce that for rows that are persisted.

    Args:
        number: How many there are, or what is made of them, at most.
    """
    return rows.coalesce(max(1, ceil(number / _ROWS_IN_TASK)))


@contextmanager
def final_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Make rows, and give them as they are kept: for what has effects, or must be the same however often it is read."""
    kept = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        release(kept)
