"""The data source `kafka_quotas`: reads what clusters hold, and writes rows of plans to them.

A task buffers the rows that it is given, and applies those of each cluster by `quotaform.apply.run`: checked
against the cluster, dry-run, written, read back. Attempts that Spark repeats do no harm, as
`quotaform.fleet.apply` says. A cluster that fails keeps no other from being written, and the write fails at the
end if any entity does not hold its values. What is left behind whoever dies meanwhile: `quotaform.fleet.plan_rows`.

`write_plan_rows` holds the locks of `quotaform apply` while it writes. A writer of a data source by itself has no
process that lives as long as the write does, so that `DataFrame.write.format("kafka_quotas")` holds none.

Guards are not checked: the rows are taken for those of plans that passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from datetime import datetime
from itertools import islice
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from quotaform.apply.applier import Applier
from quotaform.apply.ledger import ClusterPlan
from quotaform.apply.lock import cluster_lock
from quotaform.apply.run import apply_cluster
from quotaform.desired.config import Cluster, Referring
from quotaform.fleet.bundle import DriverContext, inside
from quotaform.fleet.job import final_rows
from quotaform.fleet.plan_rows import (
    PLAN_ROWS,
    PlanRow,
    Record,
    ResultRow,
    Written,
    cluster_changes,
    entity_changes,
    grouped,
    require_writable_rows,
    require_written,
    summary_of,
)
from quotaform.model import errors
from quotaform.model.entity import spell_name
from quotaform.model.errors import (
    ApplyRunningError,
    ClusterError,
    InvalidFilesError,
    PartialError,
    QuotaformError,
    UsageError,
)
from quotaform.model.finding import Finding, Location
from quotaform.model.moment import read_moment
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.records.document import spell
from quotaform.model.records.field import FindingRecord
from quotaform.model.records.record import ShapeError, decode_list
from quotaform.model.rule import SNAPSHOT
from quotaform.model.text import listed
from quotaform.plan.plan import Plan, PlanHeader, PlanSource
from quotaform.plan.receipt import Receipt, Result
from quotaform.repository.gateway import open_gateway, open_pinned_gateway
from quotaform.repository.revision import CONFIG_NAME
from quotaform.resolve.spark_quotas import QUOTAS, TEXT, struct
from quotaform.system.clock import SYSTEM_CLOCK, timestamp

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


SNAPSHOTS: Final = struct(QUOTAS, file=TEXT)
"""What snapshot files hold: as `QUOTAS`, with the file; of one that cannot be read, the cluster is null."""


_PLAIN: Final = (QuotaformError.__init__, ClusterError.__init__, UsageError.__init__)
"""Constructors that take a message and need nothing else."""


_ATTRIBUTES: Final = {"remedy": str, "cluster": str, "server": str, "code": int}
"""The attributes of a `ClusterError` that have a column, and their type. Its entities have none: reads name none."""

FailureRow = tuple[str, str, str | None, str | None, str | None, int | None, str | None]
"""A row of `FAILURE`."""


def failure_row(error: QuotaformError) -> FailureRow:
    """Return an error as `FAILURE`.

    | error | kind | remedy, cluster, server, code | problems |
    | --- | --- | --- | --- |
    | InvalidFilesError | its name | none | its findings as JSON |
    | another one that can be made of a message alone | its name | those of a ClusterError | none |
    | any other | the name of the closest such base | those of a ClusterError | none |
    """
    if isinstance(error, InvalidFilesError):
        problems = spell([FindingRecord.of(problem) for problem in error.problems])
        return type(error).__name__, str(error), None, None, None, None, problems
    kind = next(kind.__name__ for kind in type(error).__mro__ if _plain(kind.__name__) is kind)
    if isinstance(error, ClusterError):
        return kind, str(error), error.remedy, error.cluster, error.server, error.code, None
    return kind, str(error), None, None, None, None, None


def require_read(failure: Mapping[str, Any] | None) -> None:
    """Raise the error of a cluster that could not be read, with its original message, attributes and exit code.

    The columns may come from a table that somebody else wrote: a kind that is not understood is a `ClusterError` with
    the message, and an attribute that is not understood is left out.
    """
    if failure is None:
        return
    message = failure["message"] or "The cluster could not be read."
    if failure["kind"] == InvalidFilesError.__name__ and (problems := _problems(failure["problems"])):
        raise InvalidFilesError(problems)
    kind = _plain(failure["kind"]) or ClusterError
    # Made of its lines, as it was: what a line quotes has no line breaks.
    error = kind(*message.split("\n")) if kind.__init__ is QuotaformError.__init__ else kind(message)
    if isinstance(error, ClusterError):
        _restore(error, failure)
    raise error


def _restore(error: ClusterError, failure: Mapping[str, Any]) -> None:
    """Give an error that was made of its whole message the attributes that it had."""
    for name, kind in _ATTRIBUTES.items():
        value = failure.get(name)
        if isinstance(value, kind):
            setattr(error, name, value)
    if error.remedy is not None:
        error.problem = error.problem.partition(f"{error.joint}{error.remedy}")[0]


def _plain(name: object) -> type[QuotaformError] | None:
    """Return the class of `quotaform.model.errors` of a name, if it can be made of a message alone."""
    kind = getattr(errors, name, None) if isinstance(name, str) else None
    is_plain = isinstance(kind, type) and issubclass(kind, QuotaformError) and kind.__init__ in _PLAIN
    return kind if is_plain else None


def _problems(text: object) -> list[Finding]:
    """Return findings that were written as JSON; none if they were not."""
    try:
        return [each.load() for each in decode_list(text, FindingRecord)] if isinstance(text, str) else []
    except (ShapeError, ValueError, RecursionError):
        return []


NAME: Final = "kafka_quotas"
_REGISTERED: Final[WeakSet[SparkSession]] = WeakSet()

QuotaRow = tuple[Any, ...]


class KafkaQuotas(DataSource):
    """Reads the table `QUOTAS`, one describe-all per cluster, and writes `PLAN_ROWS`, on executors.

    Options:

    | option | content |
    | --- | --- |
    | clusters | a JSON list of objects of `name`, `bootstrap_servers` (a list), `command_config`, `snapshot` (paths) |
    | | `server_references` (a list) and `config_reference`: those with `${env:NAME}` in them, as they are written |
    | | `folder` (of quotaform.yaml), `given_servers` (what errors call it instead of its name), `cluster_id` (pinned) |
    | | `servers_location` (file, line and column in quotaform.yaml of `bootstrap_servers`, if they are from there) |
    | pinned | `true`: a cluster with another id than its `cluster_id` is a failure |
    | directory | what relative paths are relative to; the executor's own directory by default |
    | results | a folder for `RESULTS` as Parquet, when rows of plans are written; a path or a URI |
    | receipts | a folder for receipts, when rows of plans are written; a path |

    Spark shows options in plans and logs, so credentials never are among them: the properties file that
    `command_config` names is read where the cluster is read, and must be there. A cluster that cannot be read is a
    row with a `failure`, so that the others are read nevertheless; see `failure.require_read`.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns."""
        return QUOTAS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises `ValueError` if the options do not name clusters."""
        clusters = load_clusters(self.options.get("clusters", ""))
        is_pinned = self.options.get("pinned") == "true"
        return QuotaSourceReader(clusters, self.options.get("directory"), is_pinned=is_pinned)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer; see `quotaform.fleet.data_source`.

        Raises `ValueError` if the options do not name clusters, the columns are others, or more than appending is asked
        for.
        """

        if overwrite:
            raise ValueError(f'{NAME}: rows of plans change what clusters hold; write them with mode("append")')
        options = self.options
        clusters = load_clusters(options.get("clusters", ""))
        return QuotaSinkWriter(
            schema,
            clusters,
            options.get("directory"),
            results=options.get("results"),
            receipts=options.get("receipts"),
        )


class QuotaSourceReader(DataSourceReader):
    """Reads clusters, each by itself."""

    def __init__(self, clusters: Sequence[Cluster], directory: str | None, *, is_pinned: bool = False) -> None:
        self.clusters = clusters
        self.is_pinned = is_pinned
        self.driver = DriverContext.current(directory)

    def partitions(self) -> Sequence[InputPartition]:
        """One per cluster."""
        return [InputPartition(cluster) for cluster in self.clusters]

    def read(self, partition: InputPartition) -> Iterator[QuotaRow]:
        """Yield the rows of one cluster; runs on an executor, through the same gateway as everywhere."""
        cluster: Cluster = partition.value
        try:
            connect = open_pinned_gateway if self.is_pinned else open_gateway
            with self.driver.entered(), connect(cluster) as gateway:
                cluster_id, quotas, snapshot = gateway.cluster_id(), gateway.describe(), gateway.snapshot
                brokers = gateway.broker_count
                read_at = SYSTEM_CLOCK.now() if snapshot is None else snapshot_moment(snapshot)
        except QuotaformError as error:
            yield failed_row(cluster.name, error)
        else:
            yield from quota_rows(cluster.name, cluster_id, quotas, read_at, brokers)


def failed_row(cluster: str | None, error: QuotaformError) -> QuotaRow:
    """Return the row of `QUOTAS` of what could not be read."""
    return (cluster, None, None, None, None, None, failure_row(error), None, None)


def snapshot_moment(snapshot: SnapshotFile) -> datetime:
    """Return when the cluster of a snapshot was read."""
    try:
        return read_moment(snapshot.captured_at)
    except ValueError as error:
        raise InvalidFilesError([SNAPSHOT.finding(f"captured_at: {error}", location=Location(snapshot.path))]) from None


def quota_rows(
    cluster: str, cluster_id: str, quotas: Quotas, read_at: datetime | None = None, brokers: int | None = None
) -> Iterator[QuotaRow]:
    """Yield what a cluster holds as rows of `QUOTAS`, in the order of the quotas."""
    if not quotas:
        yield (cluster, cluster_id, None, None, None, None, None, read_at, brokers)
    for entity, values in quotas.items():
        address, names = entity.address, entity.names
        for key, value in values.items():
            yield (cluster, cluster_id, address, names, key, value, None, read_at, brokers)


def register_source(spark: SparkSession) -> None:
    """Let a session know `KafkaQuotas` by its name, once: Spark logs a warning for every other time."""
    if spark not in _REGISTERED:
        spark.dataSource.register(KafkaQuotas)
        _REGISTERED.add(spark)


def read_clusters(spark: SparkSession, clusters: Iterable[Cluster], *, is_pinned: bool = False) -> DataFrame:
    """Return `QUOTAS` of clusters, not read yet.

    `is_pinned`: Whether a cluster with another id than quotaform.yaml pins is a failure.
    """
    register_source(spark)
    options = {
        "clusters": dump_clusters(clusters),
        "directory": str(Path.cwd()),
        "pinned": "true" if is_pinned else "false",
    }
    return spark.read.format(NAME).options(**options).load()


def dump_clusters(clusters: Iterable[Cluster]) -> str:
    """Return the option `clusters`: where they are, and no credentials."""
    return dumps(
        [
            {
                "name": cluster.name,
                "bootstrap_servers": cluster.bootstrap_servers,
                "command_config": None if cluster.command_config is None else str(cluster.command_config),
                "snapshot": None if cluster.snapshot is None else str(cluster.snapshot),
                "server_references": list(cluster.server_references),
                "config_reference": None if cluster.config_reference is None else cluster.config_reference.text,
                "folder": None if cluster.folder is None else str(cluster.folder),
                "given_servers": cluster.given_servers,
                "servers_location": cluster.servers_location and astuple(cluster.servers_location),
                "cluster_id": cluster.cluster_id,
            }
            for cluster in clusters
        ]
    )


def load_clusters(text: str) -> list[Cluster]:
    """Read the option `clusters`."""
    try:
        return [
            Cluster(
                name=item["name"],
                bootstrap_servers=tuple(item.get("bootstrap_servers") or ()),
                command_config=_path(item.get("command_config")),
                snapshot=_path(item.get("snapshot")),
                server_references={text: _reference(text) for text in item.get("server_references", ())},
                config_reference=_reference(item["config_reference"]) if item.get("config_reference") else None,
                folder=_path(item.get("folder")),
                given_servers=item.get("given_servers"),
                servers_location=Location(*item["servers_location"]) if item.get("servers_location") else None,
                cluster_id=item.get("cluster_id"),
            )
            for item in loads(text)
        ]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(
            f"{NAME}: the option clusters must be a JSON list of objects with name and bootstrap_servers or snapshot"
        ) from None


def _reference(text: str) -> Referring:
    return Referring(text, Location(CONFIG_NAME))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


_AT_ONCE: Final = 500
"""How many clusters are written by one job: their locks are open files of the driver."""


def write_plan_rows(
    rows: DataFrame, clusters: Sequence[Cluster], results: str | None = None, receipts: str | None = None
) -> None:
    """Apply rows of plans, a cluster in each task, or a few of very many.

    `rows`: `PLAN_ROWS` without `rows`. `results`: A folder where the results are added as Parquet: a path that
    executors see, or a URI for pyarrow. `receipts`: A folder where a receipt of each cluster is added: a path that
    executors see.
    Raises `QuotaformError`, `ApplyRunningError` or `PySparkException`.
    """
    failures: list[Exception] = []
    # What was checked is what is written, however the rows are made.
    with final_rows(rows.select(*(name for name in PLAN_ROWS.names if name != "rows"))) as own:
        require_writable_rows(own, [cluster.name for cluster in clusters])
        register_source(own.sparkSession)
        ids = {row["cluster"]: row["cluster_id"] for row in own.select("cluster", "cluster_id").distinct().collect()}
        wanted = iter([cluster for cluster in clusters if cluster.name in ids])
        while part := list(islice(wanted, _AT_ONCE)):
            try:
                failures += _write_part(own, part, ids, {"results": results, "receipts": receipts})
            except PySparkException as error:
                failures.append(error)
                if PartialError.__name__ not in str(error):
                    break  # Spark itself has failed: no others are begun.
    for other in failures[1:]:
        failures[0].add_note(str(other))
    if failures:
        raise failures[0]


def _write_part(
    rows: DataFrame, clusters: Sequence[Cluster], ids: Mapping[str, str], places: Mapping[str, str | None]
) -> list[ApplyRunningError]:
    """Apply the rows of some clusters while their locks are held; return why some are left out."""
    locks: dict[tuple[Path | None, str], ApplyRunningError | None] = {}
    with ExitStack() as stack:
        for cluster in clusters:
            # Two names of one cluster have one lock.
            key = (cluster.folder, ids[cluster.name])
            if cluster.folder is not None and key not in locks:
                try:
                    stack.enter_context(cluster_lock(cluster.folder, cluster.name, ids[cluster.name]))
                    locks[key] = None
                except ApplyRunningError as error:
                    locks[key] = error
        free = [cluster for cluster in clusters if locks.get((cluster.folder, ids[cluster.name])) is None]
        if free:
            names = [cluster.name for cluster in free]
            options = {"clusters": dump_clusters(free), "directory": str(Path.cwd())}
            options |= {option: place for option, place in places.items() if place is not None}
            own = grouped(rows.where(rows["cluster"].isin(names)), names)
            own.write.format(NAME).options(**options).mode("append").save()
    return [error for error in locks.values() if error is not None]


class QuotaSinkWriter(DataSourceArrowWriter):
    """Applies the rows of a task."""

    def __init__(
        self,
        schema: StructType,
        clusters: Sequence[Cluster],
        directory: str | None,
        *,
        results: str | None = None,
        receipts: str | None = None,
    ) -> None:
        """Check what can be checked before there are rows, and create the folders of results and receipts."""
        found = {field.name: field.dataType for field in schema}
        expected = {field.name: field.dataType for field in PLAN_ROWS}
        if found != expected:
            wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in expected.items())
            raise ValueError(f"{NAME}: these columns are missing, unknown or of another type: {wrong}; write {columns}")
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self.driver = DriverContext.current(directory)
        self.record = Record(results, receipts)
        self.applier = Applier.current()
        with inside(directory):
            self.record.make_folders()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Apply the rows of a partition, cluster by cluster, and record what became of them.

        Raises `QuotaformError` or `PartialError`.
        """
        by_cluster: dict[str | None, list[PlanRow]] = {}
        for batch in iterator:
            for row in batch.to_pylist():
                by_cluster.setdefault(row["cluster"], []).append(row)
        if not by_cluster:
            return Written()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        with self.driver.entered():
            self.record.require_folders()
            if (known := self.record.known(partition)) is not None:
                return known
            unsaved: list[str] = []
            results = [row for name, rows in by_cluster.items() for row in self._applied(name, rows, unsaved)]
            self.record.add(partition, results)
        return summary_of(results, unsaved)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail if anything does not hold."""
        require_written([each for each in messages if isinstance(each, Written)], self.record.results)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: tasks have recorded what they did. It is called after a `commit` that fails, too."""

    def _applied(self, name: str | None, rows: Sequence[PlanRow], unsaved: list[str]) -> list[ResultRow]:
        started: list[Path | None] = []
        try:
            receipt = self._apply(name, rows, lambda receipt: started.append(self.record.start_receipt(receipt)))
        except QuotaformError as error:
            held = {row["entity_key"]: row for row in rows}
            result = Result.NOT_ATTEMPTED.value
            return [{**_about(row), "result": result, "message": str(error)} for row in held.values()]
        if (problem := self.record.add_receipt(receipt, next(iter(started), None))) is not None:
            unsaved.append(problem)
        cluster_id = receipt.plan.header.cluster_id
        return [
            {
                "cluster": name,
                "cluster_id": cluster_id,
                "entity_key": item.entity.address,
                "entity": list(item.entity.parts),
                "result": item.result.value,
                "message": item.message or None,
                "finished_at": receipt.finished_at,
            }
            for item in receipt.results
        ]

    def _apply(self, name: str | None, rows: Sequence[PlanRow], start: Callable[[Receipt], None]) -> Receipt:
        """Apply the rows of a cluster; `start` is called as `apply_plan` does."""
        cluster = None if name is None else self.clusters.get(name)
        if name is None or cluster is None:
            known = listed(map(spell_name, self.clusters))
            raise QuotaformError(f"the option clusters has no cluster {name and spell_name(name)}, but {known}")
        cluster_id, changes = cluster_changes(name, rows)
        gateway = open_gateway(cluster)
        try:
            actual = gateway.describe_entities(list(changes))
        except BaseException:
            gateway.close()
            raise
        header = PlanHeader(
            cluster_name=name,
            cluster_id=cluster_id,
            created_at=timestamp(SYSTEM_CLOCK),
            source=PlanSource(directory=NAME),
        )
        plan = Plan(header=header, changes=entity_changes(changes, actual))
        receipt, _ = apply_cluster(
            ClusterPlan(cluster, plan),
            lambda _: None,
            start=start,
            connect=lambda _: gateway,
            applier=self.applier,
        )
        return receipt


def _about(row: PlanRow) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster", "cluster_id", "entity_key", "entity")}
