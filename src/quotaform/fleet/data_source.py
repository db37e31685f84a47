"""The data source `kafka_quotas`: reads what clusters hold, and applies rows of plans to them, on executors.

```python
register(spark)
quotas = spark.read.format("kafka_quotas").option("bootstrap_servers", "b1:9092").load()
rows.repartition("cluster").write.format("kafka_quotas").option("repository", "/srv/quotas").mode("append").save()
```

| option | content |
| --- | --- |
| repository | the folder of quotaform.yaml, whose clusters are meant |
| cluster | with `repository`: names of clusters, or globs, with commas between them; otherwise its name |
| bootstrap_servers | brokers of one cluster, with commas between them |
| command_config | with `bootstrap_servers`: a file of Java client properties |
| snapshot | a snapshot file in the place of a cluster |
| receipts | a folder for receipts when rows are written, which executors see |

Spark shows options in plans and logs, so credentials never are among them: a properties file is read where the cluster
is read, and must be there. A cluster that cannot be read is a row with a `failure`, so that the others are read
nevertheless; see `read_failure`. What rows must be that are written: `quotaform.fleet.plan_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
)

from quotaform.desired.config import Cluster
from quotaform.fleet.bundle import DriverContext
from quotaform.fleet.plan_rows import PLAN_ROWS, PlanWriter
from quotaform.fleet.table import row_batch
from quotaform.model import errors
from quotaform.model.errors import ClusterError, ExitCode, InvalidFilesError, QuotaformError
from quotaform.model.finding import Location
from quotaform.model.moment import read_moment
from quotaform.model.quotas import Quotas, SnapshotFile
from quotaform.model.rule import SNAPSHOT
from quotaform.repository.gateway import open_gateway, open_pinned_gateway
from quotaform.repository.repository import Repository, Target
from quotaform.repository.revision import CONFIG_NAME
from quotaform.resolve.spark_quotas import FAILURE, QUOTAS, struct
from quotaform.system.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


SNAPSHOTS: Final = struct(QUOTAS, "file string")
"""What snapshot files hold: as `QUOTAS`, with the file; of one that cannot be read, the cluster is null."""


QuotaRow = tuple[Any, ...]


class UnreadError(QuotaformError):
    """A cluster could not be read, as a row of `QUOTAS` says."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        self.exit_code = exit_code  # type: ignore[misc]
        super().__init__(*message.split("\n"))


def failure_row(error: QuotaformError) -> dict[str, str | int | None]:
    """Return an error as `FAILURE`."""
    message = "\n".join(map(str, error.problems)) if isinstance(error, InvalidFilesError) else str(error)
    own = {name: getattr(error, name) for name in FAILURE.names[2:]} if isinstance(error, ClusterError) else {}
    return {"kind": type(error).__name__, "message": message, **own}


def read_failure(failure: Mapping[str, Any]) -> UnreadError:
    """Return the error of a cluster that could not be read, with its message and exit code.

    The row may be of a table that somebody else wrote: a kind that is not known has the exit code of most errors.
    """
    kind = getattr(errors, str(failure["kind"]), None)
    code = kind.exit_code if isinstance(kind, type) and issubclass(kind, QuotaformError) else ExitCode.ERROR
    return UnreadError(failure["message"] or "The cluster could not be read.", code)


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
        address, names = entity.address, entity.parts
        for key, value in values.items():
            yield (cluster, cluster_id, address, names, key, value, None, read_at, brokers)


_ROWS: Final = 10_000
"""How many rows a task sends at a time."""


def cluster_batches(
    cluster: Cluster, driver: DriverContext, *, is_pinned: bool = False
) -> Iterator[pyarrow.RecordBatch]:
    """Yield what a cluster holds as `QUOTAS`; runs on an executor, through the same gateway as everywhere.

    `is_pinned`: Whether a cluster with another id than quotaform.yaml pins is a failure.
    """
    connect = open_pinned_gateway if is_pinned else open_gateway
    try:
        with driver.entered(), connect(cluster) as gateway:
            cluster_id, quotas, snapshot = gateway.cluster_id(), gateway.describe(), gateway.snapshot
            brokers = gateway.broker_count
            read_at = SYSTEM_CLOCK.now() if snapshot is None else snapshot_moment(snapshot)
        rows = quota_rows(cluster.name, cluster_id, quotas, read_at, brokers)
    except QuotaformError as error:
        rows = iter([failed_row(cluster.name, error)])
    while part := list(islice(rows, _ROWS)):
        yield row_batch(QUOTAS, part)


def read_clusters(spark: SparkSession, clusters: Iterable[Cluster], *, is_pinned: bool = False) -> DataFrame:
    """Return `QUOTAS` of clusters, not read yet; each is read in a task. See `cluster_batches`."""
    chosen, driver = tuple(clusters), DriverContext.current(str(Path.cwd()))

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            yield from cluster_batches(chosen[place], driver, is_pinned=is_pinned)

    return spark.range(0, len(chosen), 1, max(1, len(chosen))).mapInArrow(read, QUOTAS).select(*QUOTAS.names)


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
        """Return the reader. Raises `ValueError` if the options do not name clusters."""
        return QuotaSourceReader(clusters_of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer.

        Raises `ValueError` if the options do not name clusters, the columns are others, or more than appending is asked
        for.
        """
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
    """Return the clusters that options name.

    Raises `ValueError` if they name none, one is unknown or has no meaning, or quotaform.yaml is invalid.
    """
    if unknown := sorted(name for name in options if name not in _OPTIONS):
        raise ValueError(f"{NAME} has no option {', '.join(unknown)}; the options are {', '.join(_OPTIONS)}")
    if len([name for name in _PLACES if name in options]) != 1:
        raise ValueError(f"{NAME}: give one of the options {', '.join(_PLACES)}")
    config = options.get("command_config")
    if config is not None and "bootstrap_servers" not in options:
        raise ValueError(f"{NAME}: the option command_config is for bootstrap_servers")
    if "repository" not in options:
        servers, snapshot = options.get("bootstrap_servers", ""), options.get("snapshot")
        return [
            Cluster(
                name=options.get("cluster") or servers or str(snapshot),
                bootstrap_servers=tuple(filter(None, servers.split(","))),
                command_config=None if config is None else Path(config),
                snapshot=None if snapshot is None else Path(snapshot),
            )
        ]
    names = tuple(filter(None, options.get("cluster", "").split(",")))
    try:
        folder = Path(options["repository"]).absolute()
        repository = Repository.at(folder, folder / CONFIG_NAME)
        return list(repository.clusters(repository.config(), Target(clusters=names, takes_all=not names)))
    except QuotaformError as error:
        raise ValueError(f"{NAME}: {error}") from error


class QuotaSourceReader(DataSourceReader):
    """Reads clusters, each by itself.

    Filters are not pushed down: Spark keeps what one filter left for later queries of the same DataFrame without one.
    """

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self.clusters = clusters
        self.driver = DriverContext.current(None)

    def partitions(self) -> Sequence[InputPartition]:
        """One per cluster."""
        return [InputPartition(cluster) for cluster in self.clusters]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of one cluster; runs on an executor. See `cluster_batches`."""
        return cluster_batches(partition.value, self.driver, is_pinned=True)
