"""Snapshots of clusters, read on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.app.rendering import StoredResult
from quotaform.app.repository.gateway import open_pinned_gateway
from quotaform.app.snapshot import snapshot_of
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.outcome import ClusterOutcome
from quotaform.document.snapshot import dump_snapshot
from quotaform.spark.job.cluster_job import Made, new_bundle, run_job, ship_job
from quotaform.spark.session.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session.session import spark_session

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

SNAPSHOT: Final = "snapshot"
"""The document that is a snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotDigest:
    """What a snapshot amounts to."""

    entities: int


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """Reads everything that clusters hold."""

    clusters: tuple[Cluster, ...]
    clock: Clock

    @property
    def names(self) -> Sequence[str]:
        """The names of the clusters."""
        return [cluster.name for cluster in self.clusters]

    def run(self, place: int, beside: int | None = None) -> Made:
        """Read a cluster."""
        cluster = self.clusters[place]
        with open_pinned_gateway(cluster) as gateway:
            taken = snapshot_of(cluster, gateway, clock=self.clock)
        return Made(SnapshotDigest(len(taken.quotas)), {SNAPSHOT: [dump_snapshot(taken)]})

    def release(self, place: int) -> None:
        """Nothing is kept."""


def take_snapshots(
    clusters: Sequence[Cluster],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[ClusterOutcome[StoredResult[SnapshotDigest]]]:
    """Read everything that clusters hold on Spark; see `quotaform.app.snapshot.take_snapshots`.

    Raises `EngineError` if Spark is missing, does not start or failed.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        job = ship_job(spark, new_bundle(folder), SnapshotJob(tuple(clusters), clock))
        outcomes = list(run_job(spark, job, "Reading clusters on Spark", progress))
    yield from outcomes
