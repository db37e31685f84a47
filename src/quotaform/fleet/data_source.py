"""What clusters and snapshot files hold, read on executors; the data source `kafka_quotas`, which applies plans, too.

```python
register(spark)
quotas = spark.read.format("kafka_quotas").option("bootstrap_servers", "b1:9092").load()
rows.repartition("cluster").write.format("kafka_quotas").option("repository", "/srv/quotas").mode("append").save()
```

docs/spark.md has the options. Spark shows them in plans and logs, so credentials never are among them: a properties
file is read where the cluster is read, and must be there. A cluster that cannot be read is a row with a `failure`, so
that the others are read nevertheless; see `read_failure`.

A task applies the rows of each cluster that it is given by `quotaform.apply.run.apply_cluster`. Attempts that Spark
repeats do no harm, as `quotaform.fleet.run` says, and a cluster that fails keeps no other from being written. Rows of
one entity in several tasks may be refused as stale, so that the rows of a cluster belong into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from glob import glob
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from quotaform.apply.audit import Applier
from quotaform.apply.ledger import ClusterPlan, ReceiptKeeper, cluster_lock
from quotaform.apply.run import apply_cluster
from quotaform.cluster.gateway import read_snapshot
from quotaform.desired.config import Cluster
from quotaform.fleet.job import DriverContext
from quotaform.fleet.table import make_table, row_batch
from quotaform.model import errors
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import ClusterError, ExitCode, InvalidFilesError, PartialError, QuotaformError, UsageError
from quotaform.model.finding import Location
from quotaform.model.moment import read_moment
from quotaform.model.quotas import Change, Quotas, SnapshotFile, same_value
from quotaform.model.records.record import ClusterRecord
from quotaform.model.rule import SNAPSHOT
from quotaform.model.text import listed, quote
from quotaform.plan.check.saved import entity_problem, value_problem
from quotaform.plan.difference import make_plan
from quotaform.plan.plan import PlanHeader, PlanSource
from quotaform.plan.receipt import Result
from quotaform.plan.receipt_file import receipt_name
from quotaform.repository.gateway import open_gateway, open_pinned_gateway
from quotaform.repository.repository import Repository, Target
from quotaform.repository.revision import CONFIG_NAME
from quotaform.resolve.spark import ENTITY, FAILURE, QUOTAS, struct
from quotaform.system.clock import SYSTEM_CLOCK, timestamp

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession


SNAPSHOTS: Final = struct(QUOTAS, "file string")
"""What snapshot files hold: as `QUOTAS`, with the file; of one that cannot be read, the cluster is null."""


class UnreadError(QuotaformError):
    """A cluster could not be read, as a row of `QUOTAS` says."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        self.exit_code = exit_code  # type: ignore[misc]
        super().__init__(*message.split("\n"))


def read_failure(failure: Mapping[str, Any]) -> UnreadError:
    """Return the error of a cluster that could not be read; one of an unknown kind has the code of most errors."""
    kind = getattr(errors, str(failure["kind"]), None)
    code = kind.exit_code if isinstance(kind, type) and issubclass(kind, QuotaformError) else ExitCode.ERROR
    return UnreadError(failure["message"] or "The cluster could not be read.", code)


def failed_row(cluster: str | None, error: QuotaformError) -> tuple[Any, ...]:
    """Return the row of `QUOTAS` of what could not be read."""
    message = "\n".join(map(str, error.problems)) if isinstance(error, InvalidFilesError) else str(error)
    own = {name: getattr(error, name) for name in FAILURE.names[2:]} if isinstance(error, ClusterError) else {}
    failure = {"kind": type(error).__name__, "message": message, **own}
    return (cluster, None, None, None, None, None, failure, None, None)


def snapshot_moment(snapshot: SnapshotFile) -> datetime:
    """Return when the cluster of a snapshot was read."""
    try:
        return read_moment(snapshot.captured_at)
    except ValueError as error:
        raise InvalidFilesError([SNAPSHOT.finding(f"captured_at: {error}", location=Location(snapshot.path))]) from None


def quota_rows(
    cluster: str, cluster_id: str, quotas: Quotas, read_at: datetime | None = None, brokers: int | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield what a cluster holds as rows of `QUOTAS`, in the order of the quotas."""
    if not quotas:
        yield (cluster, cluster_id, None, None, None, None, None, read_at, brokers)
    for entity, values in quotas.items():
        address, names = entity.address, entity.parts
        for key, value in values.items():
            yield (cluster, cluster_id, address, names, key, value, None, read_at, brokers)


_ROWS: Final = 10_000
"""How many rows a task sends at a time."""


def cluster_batches(cluster: Cluster, driver: DriverContext) -> Iterator[pyarrow.RecordBatch]:
    """Yield what a cluster holds as `QUOTAS`; runs on an executor, through the same gateway as everywhere."""
    try:
        with driver.entered(), open_pinned_gateway(cluster) as gateway:
            cluster_id, quotas, snapshot = gateway.cluster_id(), gateway.describe(), gateway.snapshot
            brokers = gateway.broker_count
            read_at = SYSTEM_CLOCK.now() if snapshot is None else snapshot_moment(snapshot)
        rows = quota_rows(cluster.name, cluster_id, quotas, read_at, brokers)
    except QuotaformError as error:
        rows = iter([failed_row(cluster.name, error)])
    while part := list(islice(rows, _ROWS)):
        yield row_batch(QUOTAS, part)


def read_clusters(spark: SparkSession, clusters: Iterable[Cluster]) -> DataFrame:
    """Return `QUOTAS` of clusters, not read yet; each is read in a task. See `cluster_batches`."""
    chosen, driver = tuple(clusters), DriverContext.current(str(Path.cwd()))

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            yield from cluster_batches(chosen[place], driver)

    return spark.range(0, len(chosen), 1, max(1, len(chosen))).mapInArrow(read, QUOTAS).select(*QUOTAS.names)


_FILES_IN_TASK: Final = 100
"""How many small files a task reads: starting it takes longer than reading one."""


def read_snapshots(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return `SNAPSHOTS` of files, not read yet; one that cannot be read is a row with a `failure`."""
    driver = DriverContext.current(str(Path.cwd()))

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for path in (path for batch in batches for path in batch.column("file").to_pylist()):
            try:
                with driver.entered():
                    snapshot = read_snapshot(Path(path))
                read_at = snapshot_moment(SnapshotFile(path, snapshot.captured_at))
                rows = quota_rows(snapshot.cluster_name, snapshot.cluster_id, snapshot.quotas, read_at)
            except QuotaformError as error:
                rows = iter([failed_row(None, error)])
            yield row_batch(SNAPSHOTS, [(*row, path) for row in rows])

    files = make_table(spark, StructType([SNAPSHOTS["file"]]), ((path,) for path in paths))
    return files.repartition(ceil(len(paths) / _FILES_IN_TASK)).mapInArrow(read, SNAPSHOTS).select(*SNAPSHOTS.names)


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


NAME: Final = "kafka_quotas"
_OPTIONS: Final = ("repository", "cluster", "bootstrap_servers", "command_config", "snapshot", "receipts")
_PLACES: Final = ("repository", "bootstrap_servers", "snapshot")
_REGISTERED: Final[WeakSet[SparkSession]] = WeakSet()


def register(spark: SparkSession) -> None:
    """Let a session know the data source by its name, once: Spark logs a warning for every other time."""
    if spark not in _REGISTERED:
        spark.dataSource.register(KafkaQuotas)
        _REGISTERED.add(spark)


class KafkaQuotas(DataSource):
    """Reads the table `QUOTAS`, and writes `PLAN_ROWS`; see `quotaform.fleet.data_source`."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns."""
        return QUOTAS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises `ValueError` for other columns, and if the options do not name clusters."""
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in QUOTAS]:
            raise ValueError(f"{NAME} has columns of its own; leave out the schema, and select those that are needed")
        return QuotaSourceReader(clusters_of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer. Raises `ValueError` for other columns, other modes than append, and wrong options."""
        if overwrite:
            raise ValueError(f'{NAME}: rows of plans change what clusters hold; write them with mode("append")')
        found = {field.name: field.dataType for field in schema}
        expected = {field.name: field.dataType for field in PLAN_ROWS}
        if found != expected:
            wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in expected.items())
            raise ValueError(f"{NAME}: these columns are missing, unknown or of another type: {wrong}; write {columns}")
        return PlanWriter(clusters_of(self.options), self.options.get("receipts"))


def clusters_of(options: Mapping[str, str]) -> list[Cluster]:
    """Return the clusters that options name. Raises `ValueError` if the options or quotaform.yaml are invalid."""
    if unknown := sorted(name for name in options if name not in _OPTIONS):
        raise ValueError(f"{NAME} has no option {', '.join(unknown)}; the options are {', '.join(_OPTIONS)}")
    if len([name for name in _PLACES if name in options]) != 1:
        raise ValueError(f"{NAME}: give one of the options {', '.join(_PLACES)}")
    config = options.get("command_config")
    if config is not None and "bootstrap_servers" not in options:
        raise ValueError(f"{NAME}: the option command_config is for bootstrap_servers")
    if "repository" not in options:
        servers, snapshot = options.get("bootstrap_servers", ""), options.get("snapshot")
        name = options.get("cluster") or servers or str(snapshot)
        brokers = tuple(filter(None, servers.split(",")))
        properties, file = (None if path is None else Path(path) for path in (config, snapshot))
        return [Cluster(name=name, bootstrap_servers=brokers, command_config=properties, snapshot=file)]
    names = tuple(filter(None, options.get("cluster", "").split(",")))
    try:
        folder = Path(options["repository"]).absolute()
        repository = Repository.at(folder, folder / CONFIG_NAME)
        return list(repository.clusters(repository.config(), Target(clusters=names, takes_all=not names)))
    except QuotaformError as error:
        raise ValueError(f"{NAME}: {error}") from error


class QuotaSourceReader(DataSourceReader):
    """Reads clusters. Filters are not pushed down: Spark would use what one left for later queries without it, too."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self.clusters = clusters
        self.driver = DriverContext.current(None)

    def partitions(self) -> Sequence[InputPartition]:
        """One per cluster."""
        return [InputPartition(cluster) for cluster in self.clusters]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of one cluster; runs on an executor. See `cluster_batches`."""
        return cluster_batches(partition.value, self.driver)


PLAN_ROWS: Final = struct("cluster cluster_id entity_key string", ENTITY, "key string", "before after double")
"""The rows of plans as they are written: what each value is and will be; null is no value."""

PlanRow = Mapping[str, Any]

_MOST_REASONS: Final = 5
_NEVER_NULL: Final = ("cluster", "cluster_id", "entity_key", "entity", "key")


class PlanWriter(DataSourceArrowWriter):
    """Applies the rows of each task; it is pickled. What was done stays done, also where Spark aborts the write."""

    def __init__(self, clusters: Iterable[Cluster], receipts: str | None = None) -> None:
        """Make the folder of receipts, which executors must see; `None` if they are not wanted."""
        if receipts is not None:
            Path(receipts).mkdir(parents=True, exist_ok=True)
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._driver = DriverContext.current(None)
        self._receipts = None if receipts is None else Path(receipts)
        self._applier = Applier.current()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Written:
        """Apply `PLAN_ROWS`, cluster by cluster; runs on an executor.

        Raises `QuotaformError` if that does not see the folder of receipts, where they would not be found.
        """
        by_cluster: dict[str | None, list[PlanRow]] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        written = Written()
        with self._driver.entered():
            if by_cluster and self._receipts is not None and not self._receipts.is_dir():
                raise QuotaformError(
                    f"the executor does not see the folder {self._receipts} of the option receipts; nothing was "
                    "written to the clusters of this task; give a folder that all executors see"
                )
            for name, rows in by_cluster.items():
                self._apply(name, rows, written)
        return written

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Check that all entities hold what was written, and receipts say so. Raises `PartialError` if not."""
        tasks = [each for each in messages if isinstance(each, Written)]
        counts = sum((task.counts for task in tasks), Counter[str]())
        unsaved = [reason for task in tasks for reason in task.unsaved]
        if failed := {result: count for result, count in counts.items() if not Result(result).holds}:
            shown = ", ".join(f"{count:,} {result}" for result, count in sorted(failed.items()))
            reasons = list(dict.fromkeys(reason for task in tasks for reason in task.reasons))[:_MOST_REASONS]
            raise PartialError(
                f"{sum(failed.values()):,} of {counts.total():,} entities do not hold what was written ({shown}): "
                f"{'; '.join(reasons)}"
            )
        if unsaved:
            shown = "; ".join(unsaved[:_MOST_REASONS])
            raise PartialError(f"all is written, but {len(unsaved):,} receipts are not: {shown}")

    def _apply(self, name: str | None, rows: Sequence[PlanRow], written: Written) -> None:
        """Apply the plan that rows are; of the keys without a row the entities keep what they hold now."""
        try:
            cluster = None if name is None else self._clusters.get(name)
            if name is None or cluster is None:
                known = listed(map(spell_name, self._clusters))
                raise QuotaformError(f"the options name no cluster {name and spell_name(name)}, but {known}")
            cluster_id, changes = cluster_changes(name, rows)
            with open_gateway(cluster) as gateway:
                held = gateway.describe_entities(list(changes))
            before = {
                entity: apply_ops(held.get(entity, {}), {row.key: row.before for row in own})
                for entity, own in changes.items()
            }
            source, now = PlanSource(directory="kafka_quotas"), timestamp(SYSTEM_CLOCK)
            header = PlanHeader(cluster=ClusterRecord(name=name, id=cluster_id), created_at=now, source=source)
            made = make_plan(chain.from_iterable(changes.values()), {}, before, header)
            plan = replace(made, declared=None)  # There are no files that declare anything.
            keeper = ReceiptKeeper(self._receipts and self._receipts / receipt_name(plan.digest))
            with ExitStack() as stack:
                # That of `quotaform apply`, where this process sees its folder.
                if cluster.folder is not None and cluster.folder.is_dir():
                    stack.enter_context(cluster_lock(cluster.folder, cluster.name, cluster_id))
                done = apply_cluster(ClusterPlan(cluster, plan), keeper, applier=self._applier)
        except QuotaformError as error:
            for _ in {row["entity_key"] for row in rows}:
                written.add(name, Result.NOT_ATTEMPTED, str(error))
            return
        for item in done.receipt.results:
            written.add(name, item.result, item.message)
        if done.unsaved is not None:
            written.unsaved.append(f"{spell_name(name)}: {done.unsaved}")


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """What became of the entities of a task; its size does not grow with them."""

    counts: Counter[str] = field(default_factory=Counter)  # How many entities have a `Result`, by its value
    reasons: list[str] = field(default_factory=list)  # Why some do not hold what was written, each once; the first ones
    unsaved: list[str] = field(default_factory=list)  # Why receipts were not written, for each cluster

    def add(self, cluster: str | None, result: Result, message: str | None) -> None:
        """Count an entity."""
        self.counts[result.value] += 1
        reason = f"{'null' if cluster is None else spell_name(cluster)}: {message or result.value}"
        if not result.holds and reason not in self.reasons and len(self.reasons) < _MOST_REASONS:
            self.reasons.append(reason)


def cluster_changes(cluster: str, rows: Sequence[PlanRow]) -> tuple[str, dict[Entity, list[Change]]]:
    """Return the id of a cluster, and its changes by entity.

    Raises `QuotaformError` if the rows are not those of a plan: something is null, contradicts something else, is there
    twice or is missing, or files could not declare it.
    """
    changes: dict[Entity, list[Change]] = {}
    ids = {row["cluster_id"] for row in rows}
    for row in rows:
        if problem := _problem(row, len(ids), changes):
            where = [f"cluster {spell_name(cluster)}"]
            where += [f"{name} {quote(row[name])}" for name in ("entity_key", "key") if row[name] is not None]
            raise QuotaformError(f"{', '.join(where)}: {problem}; nothing was written to the cluster")
        entity = Entity(dict(row["entity"]))
        changes.setdefault(entity, []).append(Change(entity, row["key"], row["before"], row["after"]))
    return ids.pop(), changes


def _problem(row: PlanRow, ids: int, earlier: Mapping[Entity, Sequence[Change]]) -> str | None:
    """Return what is wrong with a row of a cluster that has so many ids; `earlier` holds the rows before it."""
    if missing := [name for name in _NEVER_NULL if row[name] is None]:
        return f"{missing[0]} is null"
    if ids > 1:
        return f"the rows of the cluster have {ids} ids"
    entity = Entity(dict(row["entity"]))
    if any(change.key == row["key"] for change in earlier.get(entity, ())):
        return "is in more than one row"
    if entity.address != row["entity_key"]:
        return f"entity_key is not that of the entity, which is {entity.address}"
    if found := entity_problem(entity):
        return f"the entity {found[1]}"
    if found := value_problem(entity.types, row["key"], row["after"]):
        return f"{found[0]} {found[1]}"
    return "before and after are the same" if same_value(row["before"], row["after"]) else None
