"""Snapshot files as a table: what `quotaform snapshot` wrote, read on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from quotaform.document.snapshot import read_snapshot
from quotaform.errors import QuotaformError, UsageError
from quotaform.model.snapshot import SnapshotFile
from quotaform.model.text import quote
from quotaform.spark.job.driver_context import inside
from quotaform.spark.schemas import SNAPSHOTS, make_table, row_batch
from quotaform.spark.source import Row, failed_row, quota_rows, snapshot_moment

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_PATHS: Final = StructType([SNAPSHOTS["file"]])
_MOST_TASKS: Final = 4096
"""Into how many groups files are read; up to so many, each is a group of its own."""


def read_snapshots(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return `schemas.SNAPSHOTS` of files, not read yet; one that cannot be read is a row with a `failure`.

    Args:
        paths: The files, as errors name them.
    """
    directory = str(Path.cwd())

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for path in batch.column("file").to_pylist():
                yield row_batch(SNAPSHOTS, _rows(path, directory))

    tasks = max(1, min(len(paths), _MOST_TASKS))
    files = make_table(spark, _PATHS, [list(paths)]).repartition(tasks)
    return files.mapInArrow(read, SNAPSHOTS).select(*SNAPSHOTS.names)


def _rows(path: str, directory: str) -> list[Row]:
    """Return the rows of one file; runs on an executor."""
    try:
        with inside(directory):
            snapshot = read_snapshot(Path(path))
        read_at = snapshot_moment(SnapshotFile(path, snapshot.captured_at))
    except QuotaformError as error:
        return [(*failed_row(None, error), path)]
    rows = quota_rows(snapshot.cluster_name, snapshot.cluster_id, snapshot.quotas, read_at)
    return [(*row, path) for row in rows]


def find_snapshots(names: Sequence[str]) -> list[str]:
    """Return the files that arguments mean: a file, the .json files of a directory, or those that a glob fits."""
    found: dict[str, None] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(str(file) for file in path.glob("*.json"))
        else:
            files = [name] if path.exists() else sorted(glob(name, recursive=True))  # noqa: PTH207 (as it is written)
        if not files:
            what = "has no .json files" if path.is_dir() else "is not a file, and no file matches it as a glob"
            raise UsageError(f"{quote(name)} {what}; quotaform snapshot writes snapshots")
        found |= dict.fromkeys(files)
    return list(found)
