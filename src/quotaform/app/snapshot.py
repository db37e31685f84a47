"""Everything that clusters hold, to keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from quotaform.app.actual import read_actual
from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.each_cluster import ClusterWork, Connect
from quotaform.app.repository.gateway import open_pinned_gateway
from quotaform.app.steps import Steps
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.outcome import ClusterOutcome
from quotaform.model.snapshot import Snapshot

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


def take_snapshots(
    clusters: Sequence[Cluster],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_pinned_gateway,
) -> Iterator[ClusterOutcome[Snapshot]]:
    """Read everything that clusters hold, all at a time; yield one outcome per cluster, in order.

    An interrupt (Ctrl-C) is raised again after the outcomes of all clusters that are finished were yielded.
    """
    steps = Steps(progress)
    step = steps if len(clusters) == 1 else no_progress

    with ClusterWork(clusters, partial(snapshot_of, clock=clock, progress=step), connect) as working:
        yield from working.outcomes({}, steps)


def snapshot_of(
    cluster: Cluster, gateway: Gateway, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress
) -> Snapshot:
    """Read everything that a cluster of quotaform.yaml holds; the snapshot has its name there, wherever it was read.

    Raises `ClusterError` if the cluster could not be read.
    """
    return replace(take_snapshot(gateway, clock=clock, progress=progress), cluster_name=cluster.name)


def take_snapshot(gateway: Gateway, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress) -> Snapshot:
    """Read everything that a cluster holds; what a snapshot holds is as old as it was.

    Raises `ClusterError` if the cluster could not be read.
    """
    return Snapshot(
        cluster_name=gateway.name,
        cluster_id=gateway.cluster_id(),
        captured_at=timestamp(clock) if gateway.snapshot is None else gateway.snapshot.captured_at,
        quotas=read_actual(gateway, clock=clock, progress=progress),
    )
