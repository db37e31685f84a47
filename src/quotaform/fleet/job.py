"""Work on clusters, one in each task: an executor runs the code that the local engine runs, and sends back documents.

What comes back of a cluster are the documents that were asked for, rendered and compressed in pieces, and what the
result amounts to, or the error. The driver keeps documents on disk and has the pieces of one cluster in memory.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from pickle import dumps, loads
from shutil import copyfile
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4
from weakref import finalize
from zlib import compressobj, decompressobj

from pyspark import StorageLevel

from quotaform.fleet.bundle import FASTEST, Bundle, DriverContext
from quotaform.fleet.session import is_connect, release, reported_tasks
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.report.format import StoredResult
from quotaform.resolve.spark_quotas import BINARY, INTEGER, TEXT, arrow_schema, struct
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

    from quotaform.desired.config import Cluster


OUTCOMES: Final = struct(place=INTEGER, name=TEXT, content=BINARY)
"""What a job makes of clusters, see `quotaform.fleet.job`.

| row | name | content |
| --- | --- | --- |
| a part of a document | the document's | compressed |
| the end of a cluster | null | pickled: what its result amounts to, or the error |

`place` is that of the cluster among those of the job. The parts of a document follow each other.
"""


_PIECE: Final = 65_536

Reader = Callable[[], Iterator[str]]
"""Reads a document, as often as it is called."""


class DocumentStore:
    """Compressed documents in a temporary file, which is gone with the last one that is not forgotten."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115
        finalize(self, self._file.close)
        self._parts: dict[str, list[tuple[int, int]]] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a part of a document of the cluster that is at work."""
        begin = self._file.seek(0, 2)
        self._file.write(content)
        self._parts.setdefault(name, []).append((begin, len(content)))

    def take(self) -> dict[str, Reader]:
        """Return the documents of the cluster that is done, by name."""
        taken: dict[str, Reader] = {name: partial(self._read, parts) for name, parts in self._parts.items()}
        self._parts = {}
        return taken

    def _read(self, parts: list[tuple[int, int]]) -> Iterator[str]:
        decompressor = decompressobj()
        decoder = getincrementaldecoder("utf-8")("surrogatepass")
        for begin, length in parts:
            self._file.seek(begin)
            content = self._file.read(length)
            while content:
                yield decoder.decode(decompressor.decompress(content, _PIECE))
                content = decompressor.unconsumed_tail
        yield decoder.decode(decompressor.flush(), final=True)


# Rows that tasks have made, on the disks of executors until the driver has read them.
#
# | kept by | when an executor is lost, and rows with it |
# | --- | --- |
# | `repeatable_rows` | the tasks that made them run again as soon as they are read |
# | `final_rows` | reading them is an error: no task runs again that has ended |
#
# Within the job that makes the rows, Spark repeats tasks that fail in either case.

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

    `number`: How many there are, or what is made of them, at most.
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


_BATCH_BYTES: Final = 1 << 20
"""How much of compressed documents is in one row and in one batch of rows."""

_FEW_TASKS: Final = 250
_MOST_IN_TASK: Final = 8
"""A task takes some 40 ms beside its work: with a cluster of 2,000 entities in each, a fifth of the time."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a job makes of one cluster."""

    digest: object  # What it amounts to; can be pickled
    documents: Mapping[str, Iterable[str]]  # What was rendered of it: name to the pieces of a text


class ClusterJob(Protocol):
    """Work on clusters that ends with an outcome for each.

    It is pickled into a `Bundle` and must not need anything of the driver's process.
    """

    @property
    def clusters(self) -> Sequence[Cluster]:
        """The clusters."""

    def run(self, place: int, other: int | None = None) -> Made:
        """Do the work on one cluster.

        `other`: The place of another cluster that it is to be compared with.
        """

    def release(self, place: int) -> None:
        """Let go of what is kept of one cluster alone."""


@dataclass(frozen=True, slots=True)
class ShippedJob:
    """A job that executors can open."""

    bundle: ShippedFile
    names: Sequence[str]
    driver: DriverContext


def ship_job(spark: SparkSession, bundle: Bundle, job: ClusterJob) -> ShippedJob:
    """Make a job available to the executors.

    `bundle`: What it is put in, together with its files; it is closed.
    """
    bundle.finish(job)
    return ShippedJob(
        ship(spark, bundle.path), [cluster.name for cluster in job.clusters], DriverContext.current(str(Path.cwd()))
    )


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

    `is_final`: Whether a task that has ended must not run again, so that an outcome that is lost with an executor is an
    error; see `quotaform.fleet.job`.
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
    """Run the tasks that make `OUTCOMES`, and yield the outcome of each cluster, in the order of the rows."""
    with ExitStack() as stack:
        with reported_tasks(spark, what, clusters, progress):
            kept = stack.enter_context(final_rows(table) if is_final else repeatable_rows(table))
        yield from stored_outcomes(kept, job.names)


def outcome_rows(spark: SparkSession, job: ShippedJob, places: Places) -> DataFrame:
    """Return `OUTCOMES`: what a job makes of clusters, in their order."""
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
                place, other = places[number]
                yield from _batches(opened, place, other)


def outcome_batches(shipped: ShippedJob, job: ClusterJob, place: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield `OUTCOMES` of one cluster of an opened job; runs on an executor."""
    with shipped.driver.entered(), rare_collections():
        yield from _batches(job, place, None)


def _batches(job: ClusterJob, place: int, other: int | None) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    schema = arrow_schema(OUTCOMES)
    for row in _rows(job, place, other):
        yield pyarrow.RecordBatch.from_pylist([row], schema)
    job.release(place)


def _rows(job: ClusterJob, place: int, other: int | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a cluster: the pieces of its documents, then what it amounts to, or the error."""
    try:
        made = job.run(place, other)
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
    """Yield one outcome per cluster of `OUTCOMES`, whose partitions are in the order of the clusters."""
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
    """A file that executors can open."""

    path: str  # Where it is on the driver
    is_copied: bool  # Whether executors have a copy of it: those of a local session share the driver's files

    def here(self) -> Path:
        """Return where it is for this process, which is a worker of an executor."""
        if not self.is_copied:
            return Path(self.path)
        from pyspark import SparkFiles

        return Path(SparkFiles.get(Path(self.path).name))


def ship(spark: SparkSession, path: Path) -> ShippedFile:
    """Make a file available to the executors.

    `path`: The file; no other file of its name may have been shipped in the session.
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


def by_place(rows: DataFrame, clusters: int) -> DataFrame:
    """Return the same rows in as many partitions as there are tasks, sorted by `place`.

    A hash of the cluster would put several into one partition and leave others empty, and ranges of rows would put all
    small clusters into one.

    `rows`: Rows with a column `place`: an integer, the place of the cluster among all of them.
    """
    tasks = task_count(clusters)
    return rows.repartitionById(tasks, _task(tasks, clusters)).sortWithinPartitions("place")


def _task(tasks: int, clusters: int) -> Column:
    """Return the task of a place: they have equally many clusters, or one more, in order."""
    from pyspark.sql.functions import expr

    return expr(f"CAST(place AS BIGINT) * {tasks} DIV {clusters}").cast("int")
