"""Reads one cluster through the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, select
from quotaform.model.snapshot import SnapshotFile
from quotaform.spark.failure import require_read
from quotaform.spark.source import read_clusters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster
    from quotaform.model.filter import EntityFilter
from quotaform.model.quotas import Quotas


class SparkReading:
    """Reads a cluster on an executor and keeps the table of what was read last.

    When a read counts is decided on the driver, by `quotaform.app.actual.read_settled`: that needs the files, which
    no reader has. So the data source itself is one describe-all, and the rule is the same for both engines.

    Attributes:
        name: What messages call the cluster.
        is_live: Whether its answers may change from one read to the next.
        snapshot: The snapshot that is read in its place; known after the first read.
        quotas: `schemas.QUOTAS` of the last read; before the first one what would be read.
    """

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        self.name = cluster.label
        self.is_live = cluster.snapshot is None
        self.snapshot: SnapshotFile | None = None
        self._path = cluster.snapshot
        self._cluster_id = ""
        self._source = read_clusters(spark, [cluster])
        self.quotas: DataFrame = self._source

    def cluster_id(self) -> str:
        """Return the cluster id; empty before the first read."""
        return self._cluster_id

    def describe(self, entity_filter: EntityFilter = EVERYTHING, *, timeout: float | None = None) -> Quotas:
        """Read the cluster.

        Raises:
            ClusterError: It could not be read.
        """
        # Cut off from the source: a part of it that got lost must not be read again later, when it may differ.
        self.quotas = self._source.localCheckpoint()
        table = self.quotas.toArrow()
        for failure in table.column("failure").to_pylist():
            require_read(failure)
        self._cluster_id = table.column("cluster_id")[0].as_py()
        if self._path is not None:
            self.snapshot = SnapshotFile(str(self._path), table.column("captured_at")[0].as_py() or "")
        columns = (table.column(name).to_pylist() for name in ("entity_key", "entity", "key", "value"))
        quotas: dict[str, tuple[Entity, dict[str, float]]] = {}
        for address, names, key, value in zip(*columns, strict=True):
            if address is not None:
                if address not in quotas:
                    quotas[address] = (Entity.of(names), {})
                quotas[address][1][key] = value
        return select(dict(quotas.values()), entity_filter)
