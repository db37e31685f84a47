"""Snapshots on Spark: taken of clusters, each in a task; and snapshot files as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from glob import glob
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from quotaform.cluster.snapshot import read_snapshot
from quotaform.fleet.data_source import SNAPSHOTS, QuotaRow, failed_row, quota_rows, snapshot_moment
from quotaform.fleet.job import inside, opened_bundle, work_on
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.table import make_table, row_batch
from quotaform.model.errors import QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, no_progress
from quotaform.model.quotas import Snapshot, SnapshotFile
from quotaform.model.text import quote
from quotaform.repository.gateway import open_pinned_gateway
from quotaform.repository.run import snapshot_of
from quotaform.system.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster


def _snapshot(clock: Clock, cluster: Cluster) -> Snapshot:
    with open_pinned_gateway(cluster) as gateway:
        return snapshot_of(cluster, gateway, clock=clock)


def take_snapshots(
    clusters: Sequence[Cluster],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[ClusterOutcome[Kept[Snapshot]]]:
    """Read everything that clusters hold on Spark; see `quotaform.api.snapshot`.

    Raises `EngineError` if Spark is missing, does not start or failed.
    """
    with opened_bundle(session, progress) as (spark, bundle):
        return work_on(spark, bundle, partial(_snapshot, clock), clusters, "Reading", progress)


_PATHS: Final = StructType([SNAPSHOTS["file"]])
FILES_PER_TASK: Final = 100
"""How many small files a task reads: starting it takes longer than reading one."""


def read_snapshots(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return `SNAPSHOTS` of files, not read yet; one that cannot be read is a row with a `failure`."""
    directory = str(Path.cwd())

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for path in batch.column("file").to_pylist():
                yield row_batch(SNAPSHOTS, _rows(path, directory))

    files = make_table(spark, _PATHS, ((path,) for path in paths)).repartition(ceil(len(paths) / FILES_PER_TASK))
    return files.mapInArrow(read, SNAPSHOTS).select(*SNAPSHOTS.names)


def _rows(path: str, directory: str) -> list[QuotaRow]:
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
