"""The data source `kafka_quotas`, with one partition per cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from datetime import datetime
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition

from quotaform.app.clock import SYSTEM_CLOCK
from quotaform.app.repository.gateway import open_gateway, open_pinned_gateway
from quotaform.app.repository.revision import CONFIG_NAME
from quotaform.core.check.rule import SNAPSHOT
from quotaform.desired.config import Cluster
from quotaform.desired.variable import Referring
from quotaform.errors import InvalidFilesError, QuotaformError
from quotaform.model.location import Location
from quotaform.model.moment import read_moment
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile
from quotaform.spark.failure import failure_row
from quotaform.spark.job.driver_context import DriverContext
from quotaform.spark.schemas import QUOTAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME: Final = "kafka_quotas"
_REGISTERED: Final[WeakSet[SparkSession]] = WeakSet()

Row = tuple[Any, ...]


class KafkaQuotas(DataSource):
    """Reads the table `schemas.QUOTAS`, one describe-all per cluster, and writes `schemas.PLAN_ROWS`, on executors.

    Options:

    | option | content |
    | --- | --- |
    | clusters | a JSON list of objects of `name`, `bootstrap_servers` (a list), `command_config`, `snapshot` (paths) |
    | | `server_references` (a list) and `config_reference`: those with `${env:NAME}` in them, as they are written |
    | | `folder` (of quotaform.yaml), `given_servers` (what errors call it instead of its name), `cluster_id` (pinned) |
    | | `servers_location` (file, line and column in quotaform.yaml of `bootstrap_servers`, if they are from there) |
    | pinned | `true`: a cluster with another id than its `cluster_id` is a failure |
    | directory | what relative paths are relative to; the executor's own directory by default |
    | results | a folder for `schemas.RESULTS` as Parquet, when rows of plans are written; a path or a URI |
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
        """Return the writer; see `quotaform.spark.sink`.

        Raises `ValueError` if the options do not name clusters, the columns are others, or more than appending is asked
        for.
        """
        from quotaform.spark.sink import QuotaSinkWriter

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

    def read(self, partition: InputPartition) -> Iterator[Row]:
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


def failed_row(cluster: str | None, error: QuotaformError) -> Row:
    """Return the row of `schemas.QUOTAS` of what could not be read."""
    return (cluster, None, None, None, None, None, failure_row(error), None, None)


def snapshot_moment(snapshot: SnapshotFile) -> datetime:
    """Return when the cluster of a snapshot was read."""
    try:
        return read_moment(snapshot.captured_at)
    except ValueError as error:
        raise InvalidFilesError([SNAPSHOT.finding(f"captured_at: {error}", location=Location(snapshot.path))]) from None


def quota_rows(
    cluster: str, cluster_id: str, quotas: Quotas, read_at: datetime | None = None, brokers: int | None = None
) -> Iterator[Row]:
    """Yield what a cluster holds as rows of `schemas.QUOTAS`, in the order of the quotas."""
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
    """Return `schemas.QUOTAS` of clusters, not read yet.

    Args:
        is_pinned: Whether a cluster with another id than quotaform.yaml pins is a failure.
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
