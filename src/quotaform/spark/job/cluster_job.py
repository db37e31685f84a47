"""Work on clusters, one in each task: an executor runs the code that the local engine runs, and sends back documents.

What comes back of a cluster are the documents that were asked for, rendered and compressed in pieces, and what the
result amounts to, or the error. The driver keeps documents on disk and has the pieces of one cluster in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from pickle import dumps, loads
from shutil import copyfile
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4
from zlib import compressobj

from quotaform.app.rendering import StoredResult
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import QuotaformError
from quotaform.rare_collection import rare_collections
from quotaform.spark.job.bundle import FASTEST, Bundle
from quotaform.spark.job.document_store import DocumentStore
from quotaform.spark.job.driver_context import DriverContext
from quotaform.spark.job.kept_rows import final_rows, repeatable_rows
from quotaform.spark.schemas import OUTCOMES, arrow_schema
from quotaform.spark.session.connect import is_connect
from quotaform.spark.session.progress import reported_tasks

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

_BATCH_BYTES: Final = 1 << 20
"""How much of compressed documents is in one row and in one batch of rows."""

_FEW_TASKS: Final = 250
_MOST_IN_TASK: Final = 8
"""A task takes some 40 ms beside its work: with a cluster of 2,000 entities in each, a fifth of the time."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a job makes of one cluster.

    Attributes:
        digest: What it amounts to; can be pickled.
        documents: What was rendered of it: name to the pieces of a text.
    """

    digest: object
    documents: Mapping[str, Iterable[str]]


class NamedClusters(Protocol):
    """A job about clusters. It is pickled into a `Bundle` and must not need anything of the driver's process."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the clusters."""


class ClusterJob(NamedClusters, Protocol):
    """Work on clusters that ends with an outcome for each."""

    def run(self, place: int, beside: int | None = None) -> Made:
        """Do the work on one cluster.

        Args:
            beside: The place of another cluster that it is to be compared with.
        """

    def release(self, place: int) -> None:
        """Let go of what is kept of one cluster alone."""


@dataclass(frozen=True, slots=True)
class ShippedJob:
    """A job that executors can open."""

    bundle: ShippedFile
    names: Sequence[str]
    driver: DriverContext


def ship_job(spark: SparkSession, bundle: Bundle, job: NamedClusters) -> ShippedJob:
    """Make a job available to the executors.

    Args:
        bundle: What it is put in, together with its files; it is closed.
    """
    bundle.finish(job)
    return ShippedJob(ship(spark, bundle.path), job.names, DriverContext.current(str(Path.cwd())))


Places = Sequence[tuple[int, int | None]]
"""Clusters by their places in a job, each with the place of the one that it is to be compared with, if any."""


def run_job(
    spark: SparkSession,
    job: ShippedJob,
    what: str,
    progress: Progress = no_progress,
    places: Places | None = None,
    *,
    is_final: bool = False,
) -> Iterator[ClusterOutcome[StoredResult[Any]]]:
    """Run a job on the executors, a cluster in each task, and yield one outcome per cluster, in order.

    Args:
        places: The clusters; all of them if left out.
        is_final: Whether a task that has ended must not run again, so that an outcome that is lost with an executor is
            an error; see `quotaform.spark.job.kept_rows`.
    """
    chosen = [(place, None) for place in range(len(job.names))] if places is None else places
    yield from collected(spark, outcome_rows(spark, job, chosen), job, len(chosen), what, progress, is_final=is_final)


def collected(
    spark: SparkSession,
    table: DataFrame,
    job: ShippedJob,
    clusters: int,
    what: str,
    progress: Progress = no_progress,
    *,
    is_final: bool = False,
) -> Iterator[ClusterOutcome[StoredResult[Any]]]:
    """Run the tasks that make `schemas.OUTCOMES`, and yield the outcome of each cluster, in the order of the rows.

    Args:
        is_final: As for `run_job`.
    """
    with ExitStack() as stack:
        with reported_tasks(spark, what, clusters, progress):
            kept = stack.enter_context(final_rows(table) if is_final else repeatable_rows(table))
        yield from stored_outcomes(kept, job.names)


def outcome_rows(spark: SparkSession, job: ShippedJob, places: Places) -> DataFrame:
    """Return `schemas.OUTCOMES`: what a job makes of clusters, in their order."""
    tasks = task_count(len(places))
    return spark.range(0, len(places), 1, tasks).mapInArrow(partial(_work, job, places), OUTCOMES)


def task_count(clusters: int) -> int:
    """Return in how many tasks clusters are worked on: one each, unless tasks would take longer than small clusters.

    >>> task_count(3), task_count(1_000), task_count(10_000)
    (3, 250, 1250)
    """
    return max(min(clusters, _FEW_TASKS), ceil(clusters / _MOST_IN_TASK))


def new_bundle(folder: str) -> Bundle:
    """Return an empty bundle of a name that no other has."""
    return Bundle(Path(folder) / f"quotaform-{uuid4().hex}.zip", is_new=True)


_opened: dict[str, tuple[Bundle, Any]] = {}
"""The job that this worker is at, with its bundle: workers run many tasks, and the job is read once."""


def opened_job(bundle: ShippedFile) -> Any:
    """Return the job of a bundle; runs on an executor."""
    if bundle.path not in _opened:
        while _opened:
            _, (last, _) = _opened.popitem()
            last.close()
        opened = Bundle(bundle.here())
        _opened[bundle.path] = opened, opened.job()
    _, job = _opened[bundle.path]
    return job


def _work(job: ShippedJob, places: Places, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Do the work on the clusters of a partition; runs on an executor."""
    # Opened first: to some executors the folder of shipped files is a path relative to their own.
    opened = opened_job(job.bundle)
    with job.driver.entered(), rare_collections():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place, beside = places[number]
                yield from _batches(opened, place, beside)


def outcome_batches(shipped: ShippedJob, job: ClusterJob, place: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield `schemas.OUTCOMES` of one cluster of an opened job; runs on an executor."""
    with shipped.driver.entered(), rare_collections():
        yield from _batches(job, place, None)


def _batches(job: ClusterJob, place: int, beside: int | None) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    schema = arrow_schema(OUTCOMES)
    for row in _rows(job, place, beside):
        yield pyarrow.RecordBatch.from_pylist([row], schema)
    job.release(place)


def _rows(job: ClusterJob, place: int, beside: int | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a cluster: the pieces of its documents, then what it amounts to, or the error."""
    try:
        made = job.run(place, beside)
        for name, pieces in made.documents.items():
            for content in compressed(pieces):
                yield {"place": place, "name": name, "content": content}
        end: object = made.digest
    except QuotaformError as error:
        end = error
    yield {"place": place, "name": None, "content": dumps(end)}


def outcome_of(content: bytes) -> Any:
    """Return how a cluster ended, from the content of its last row: what its result amounts to, or its error."""
    # Pickled by `_rows`, in a task of this application.
    return loads(content)  # noqa: S301


def compressed(pieces: Iterable[str]) -> Iterator[bytes]:
    """Yield a text in the parts that a `DocumentStore` keeps."""
    compressor = compressobj(FASTEST)
    found = bytearray()
    for piece in pieces:
        found += compressor.compress(piece.encode(errors="surrogatepass"))
        while len(found) >= _BATCH_BYTES:
            yield bytes(found[:_BATCH_BYTES])
            del found[:_BATCH_BYTES]
    yield bytes(found + compressor.flush())


def stored_outcomes(table: DataFrame, names: Sequence[str]) -> Iterator[ClusterOutcome[StoredResult[Any]]]:
    """Yield one outcome per cluster of `schemas.OUTCOMES`, whose partitions are in the order of the clusters."""
    store = DocumentStore()
    for row in table.toLocalIterator():
        cluster = names[row["place"]]
        if row["name"] is not None:
            store.add(row["name"], bytes(row["content"]))
            continue
        documents = store.take()
        end = outcome_of(bytes(row["content"]))
        if isinstance(end, QuotaformError):
            yield ClusterOutcome(cluster, error=end)
        else:
            yield ClusterOutcome(cluster, StoredResult(end, documents))


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """A file that executors can open.

    Attributes:
        path: Where it is on the driver.
        is_copied: Whether executors have a copy of it: those of a local session share the driver's files.
    """

    path: str
    is_copied: bool

    def here(self) -> Path:
        """Return where it is for this process, which is a worker of an executor."""
        if not self.is_copied:
            return Path(self.path)
        from pyspark import SparkFiles

        return Path(SparkFiles.get(Path(self.path).name))


def ship(spark: SparkSession, path: Path) -> ShippedFile:
    """Make a file available to the executors.

    Args:
        path: The file; no other file of its name may have been shipped in the session.
    """
    if is_connect(spark):
        spark.addArtifacts(str(path), file=True)
        return ShippedFile(str(path), is_copied=True)
    if str(spark.sparkContext.master).startswith("local"):
        return ShippedFile(str(path), is_copied=False)
    from pyspark import SparkFiles

    # An executor that starts later, in another command, fetches this file, too, and no task runs there if it is gone.
    kept = Path(SparkFiles.getRootDirectory()) / path.name
    copyfile(path, kept)
    spark.sparkContext.addFile(str(kept))
    return ShippedFile(str(path), is_copied=True)
