"""Everything that clusters hold, to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from quotaform.app.actual import read_actual
from quotaform.app.clock import timestamp
from quotaform.app.repository import open_gateway
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.outcome import Outcome
from quotaform.errors import QuotaformError
from quotaform.model.snapshot import Snapshot

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


def take_snapshots(clusters: Sequence[Cluster], progress: Progress = no_progress) -> Iterator[Outcome[Snapshot]]:
    """Read everything that clusters hold, one after the other; one that cannot be read stops none of the others."""
    for cluster in clusters:
        try:
            with open_gateway(cluster) as gateway:
                outcome = Outcome(cluster.name, take_snapshot(gateway, progress))
        except QuotaformError as error:
            outcome = Outcome(cluster.name, error=error)
        yield outcome


def take_snapshot(gateway: Gateway, progress: Progress = no_progress) -> Snapshot:
    """Read everything that a cluster holds.

    Raises:
        ClusterError: The cluster could not be read.
    """
    return Snapshot(
        cluster_name=gateway.name,
        cluster_id=gateway.cluster_id(),
        captured_at=timestamp(),
        quotas=read_actual(gateway, {}, progress),
    )
