"""Work on clusters, one in each task: executors call the function that the local engine calls, and return its result.

All clusters are one job, or a few jobs if there are very many. The driver takes each result as soon as its task has
ended, and keeps it on disk; what it has in memory of a cluster are the numbers of its result, or the error.

What executors get of the driver is in a `Bundle`: a zip archive with the job and the files of the repository. The
content of every file is in it once, however many trees have that file, and is read from it only where it is needed; so
neither the driver nor an executor ever holds all files in memory.
"""

from __future__ import annotations

import os
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from functools import partial
from hashlib import sha256
from io import BytesIO
from itertools import chain
from math import ceil
from pathlib import Path
from pickle import Pickler, Unpickler, dumps, loads
from shutil import copyfile
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4
from weakref import finalize
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow
from msgspec import Struct
from pyspark import SparkFiles, StorageLevel

from quotaform.fleet.options import SessionOptions, environment
from quotaform.fleet.session import is_connect, spark_session
from quotaform.model.errors import QuotaformError
from quotaform.model.outcome import ClusterOutcome, Kept, Progress
from quotaform.model.server import ALLOWED_HOSTS
from quotaform.model.variable import ALLOW_LIST
from quotaform.repository.gateway import repeated
from quotaform.resolve.spark import arrow_schema, packed, struct, unpacked
from quotaform.system.clock import EPOCH_VARIABLE
from quotaform.system.process import rare_collections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster

T = TypeVar("T")

OUTCOMES: Final = struct("place integer", "digest value binary")
"""What tasks return: the place of a cluster in its job, the numbers of its result, and the result.

Both are pickled by tasks of this application. Of a cluster that failed, the first is the error, and the other is null.
"""

_JOB: Final = "job"


class Bundle:
    """The archive."""

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.path = path
        self._archive = ZipFile(path, "w" if is_new else "r", ZIP_DEFLATED, compresslevel=1)

    def add(self, content: bytes) -> str:
        """Put in the content of a file, and return the name by which `read` finds it."""
        name = sha256(content).hexdigest()
        if name not in self._archive.NameToInfo:
            self._archive.writestr(name, content)
        return name

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._archive.read(name)

    def finish(self, job: object) -> None:
        """Put in the job, which may refer to the archive that it is in, and close the archive."""
        content = BytesIO()
        pickler = Pickler(content)
        pickler.persistent_id = lambda each: _JOB if each is self else None  # type: ignore[method-assign]
        pickler.dump(job)
        self._archive.writestr(_JOB, content.getvalue())
        self._archive.close()

    def job(self) -> Any:
        """Return the job; its trees read their files from the archive."""
        unpickler = Unpickler(BytesIO(self.read(_JOB)))  # noqa: S301 (of this application)
        unpickler.persistent_load = lambda _: self  # type: ignore[method-assign]
        return unpickler.load()

    def close(self) -> None:
        self._archive.close()


class BundledFiles(UserDict[str, bytes]):
    """The files of a tree, by their paths (`Repository.keep`); here are only the names of their contents."""

    data: dict[str, Any]

    def __init__(self, bundle: Bundle) -> None:
        super().__init__()
        self._bundle = bundle

    def __getitem__(self, path: str) -> bytes:
        return self._bundle.read(self.data[path])

    def __setitem__(self, path: str, content: bytes) -> None:
        self.data[path] = self._bundle.add(content)


_SENT: Final = (EPOCH_VARIABLE, ALLOWED_HOSTS, ALLOW_LIST)
"""What makes plan files reproducible, and what the operator allows; `${env:NAME}` itself is the executor's."""


class DriverContext(Struct, frozen=True):
    """The driver's process, as far as it matters to executors."""

    folder: str | None
    variables: Mapping[str, str | None]
    """Its values of `_SENT`; `None` for one that is not set, but for the hosts that are allowed: without them the
    executor keeps what an administrator has set there."""

    @classmethod
    def current(cls, folder: str | None) -> DriverContext:
        """Return that of this process, with a folder; `None` for that of the executor."""
        sent = {name: os.environ.get(name) for name in _SENT if name != ALLOWED_HOSTS or name in os.environ}
        return cls(folder, sent)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this process have the driver's variables, and its folder for relative paths if it exists here."""
        folder = self.folder if self.folder and Path(self.folder).is_dir() else os.curdir
        with environment(self.variables), chdir(folder):
            yield


class Spool:
    """Results on disk; their file is gone with the last of them."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115
        finalize(self, self._file.close)

    def keep(self, value: T) -> Kept[T]:
        return self.add(getattr(value, "digest", None), packed(value))

    def add(self, digest: object, content: bytes) -> Kept[Any]:
        """Put a result on disk that is `packed` already."""
        begin = self._file.seek(0, 2)
        self._file.write(content)
        return Kept(digest, partial(self._read, begin, len(content)))

    def _read(self, begin: int, length: int) -> Any:
        self._file.seek(begin)
        return unpacked(self._file.read(length))


_ROWS_IN_TASK: Final = 100_000
"""A task of so many narrow rows takes about a second, so the 50 ms that any task takes do not matter."""


@contextmanager
def kept_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows on the disks of executors from the first reading on; those lost with an executor are made again."""
    kept = rows.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def table_rows(rows: DataFrame) -> Iterator[DataFrame]:
    """Make rows, and give them as they are kept in few tasks: for what is read several times, and is of many tasks."""
    with kept_rows(rows) as kept:
        yield in_few_tasks(kept, kept.count())


def in_few_tasks(rows: DataFrame, number: int) -> DataFrame:
    """Return rows in as many tasks as their number is worth, but no more than they are in already.

    After a shuffle they are in `spark.sql.shuffle.partitions`, by default 200; Spark does not reduce that for rows that
    are persisted. `number`: how many there are, or what is made of them, at most.
    """
    return rows.coalesce(max(1, ceil(number / _ROWS_IN_TASK)))


_MOST_IN_JOB: Final = 1_000
"""How many clusters are one job: Spark limits what its tasks return together (`spark.driver.maxResultSize`, 1 GiB)."""
_FEW_TASKS: Final = 250
_MOST_IN_TASK: Final = 8
"""A task takes some 40 ms in addition to its work: with a cluster of 2,000 entities in each, a fifth of the time."""


class ShippedJob(Struct, frozen=True):
    """Work that executors can open, with its clusters."""

    path: str  # Where its bundle is on the driver
    is_copied: bool  # Whether executors have a copy of it: those of a local session share the driver's files
    names: Sequence[str]
    driver: DriverContext

    def here(self) -> Path:
        """Return where its bundle is for this process, which is a worker of an executor."""
        return Path(SparkFiles.get(Path(self.path).name) if self.is_copied else self.path)


def ship_job(
    spark: SparkSession, bundle: Bundle, work: Callable[[Cluster], Any], clusters: Sequence[Cluster]
) -> ShippedJob:
    """Put work on clusters into a bundle with its files, and make it available to the executors.

    `work` is called with one cluster. It is pickled, and must not need anything of the driver's process. The name of
    the bundle must not have been shipped in the session before.
    """
    bundle.finish((work, tuple(clusters)))
    is_copied = is_connect(spark) or not str(spark.sparkContext.master).startswith("local")
    if is_connect(spark):
        spark.addArtifacts(str(bundle.path), file=True)
    elif is_copied:
        # An executor that starts later, in another command, fetches it, too, and no task runs there if it is gone.
        kept = Path(SparkFiles.getRootDirectory()) / bundle.path.name
        copyfile(bundle.path, kept)
        spark.sparkContext.addFile(str(kept))
    names = [cluster.name for cluster in clusters]
    return ShippedJob(str(bundle.path), is_copied, names, DriverContext.current(str(Path.cwd())))


def run_job(
    spark: SparkSession, job: ShippedJob, what: str, progress: Progress, places: Sequence[int]
) -> Iterator[ClusterOutcome[Kept[Any]]]:
    """Do the work of a job on the clusters at some `places` in it; yield one outcome each, as soon as its task ends."""
    tables = []
    for begin in range(0, len(places), _MOST_IN_JOB):
        part = places[begin : begin + _MOST_IN_JOB]
        # One cluster in each task, unless tasks would take longer than small clusters.
        tasks = max(min(len(part), _FEW_TASKS), ceil(len(part) / _MOST_IN_TASK))
        rows = spark.range(0, len(part), 1, tasks)
        tables.append(rows.mapInArrow(partial(_work, job, part), OUTCOMES))
    spool = Spool()
    with repeated(progress, what, len(places)) as steps:
        for done, (place, digest, value) in enumerate(chain.from_iterable(map(arriving, tables)), 1):
            found = loads(digest)  # noqa: S301 (see `OUTCOMES`)
            if isinstance(found, QuotaformError):
                yield ClusterOutcome(job.names[place], error=found)
            else:
                yield ClusterOutcome(job.names[place], spool.add(found, value))
            steps(what, done, len(places))


def work_on(
    spark: SparkSession,
    bundle: Bundle,
    work: Callable[[Cluster], Any],
    clusters: Sequence[Cluster],
    what: str,
    progress: Progress,
) -> list[ClusterOutcome[Kept[Any]]]:
    """Do work on clusters, one in each task, and return one outcome per cluster, in order; `bundle` has its files."""
    job = ship_job(spark, bundle, work, clusters)
    outcomes = run_job(spark, job, f"{what} clusters on Spark", progress, range(len(job.names)))
    found = {outcome.cluster: outcome for outcome in outcomes}
    return [found[name] for name in job.names]


def arriving(rows: Any) -> Iterator[tuple[Any, ...]]:
    """Yield rows as soon as the tasks end that make them, in any order; no public function of PySpark does."""
    if is_connect(rows.sparkSession):
        yield from rows.toLocalIterator()
        return
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.sql.pandas.serializers import ArrowCollectSerializer
    from pyspark.util import _load_from_socket

    # As `DataFrame.toArrow` does, which keeps all of them.
    port, secret, server = rows._jdf.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), ArrowCollectSerializer()) as batches:  # type: ignore[no-untyped-call]
            for batch in batches:
                if isinstance(batch, pyarrow.RecordBatch):  # The last one is their order.
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except Exception:
        with unwrap_spark_exception():
            server.getResult()  # Raises what ended the job.
        raise
    with unwrap_spark_exception():
        server.getResult()


@contextmanager
def opened_bundle(session: SessionOptions, progress: Progress) -> Iterator[tuple[SparkSession, Bundle]]:
    """Yield a session, and an empty bundle of a name that no other has."""
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        yield spark, Bundle(Path(folder) / f"quotaform-{uuid4().hex}.zip", is_new=True)


_opened: dict[str, tuple[Bundle, tuple[Any, Sequence[Cluster]]]] = {}
"""The job that this worker is at, with its bundle: workers run many tasks, and the job is read once."""


def _opened_job(job: ShippedJob) -> tuple[Any, Sequence[Cluster]]:
    """Return the work of a job and its clusters; runs on an executor."""
    if job.path not in _opened:
        for last, _ in _opened.values():
            last.close()
        _opened.clear()
        bundle = Bundle(job.here())
        _opened[job.path] = bundle, bundle.job()
    return _opened[job.path][1]


def _work(
    job: ShippedJob, places: Sequence[int], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Do the work on the clusters of a partition, in the driver's folder; runs on an executor."""
    # Opened first: to some executors the folder of shipped files is a path relative to their own.
    work, clusters = _opened_job(job)
    with job.driver.entered(), rare_collections():
        for place in (places[number] for batch in batches for number in batch.column(0).to_pylist()):
            try:
                made = work(clusters[place])
                row = {"place": place, "digest": dumps(getattr(made, "digest", None)), "value": packed(made)}
            except QuotaformError as error:
                row = {"place": place, "digest": dumps(error), "value": None}
            yield pyarrow.RecordBatch.from_pylist([row], arrow_schema(OUTCOMES))
