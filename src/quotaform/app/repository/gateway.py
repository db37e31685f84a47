"""Opens clusters of a repository: the running one, or its snapshot, and only the one that quotaform.yaml pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.app.repository.address import connection_of, folder_of
from quotaform.core.check.guard.guard import check_pinned_id
from quotaform.errors import ClusterIdError

if TYPE_CHECKING:
    from quotaform.cluster.gateway import Gateway
    from quotaform.desired.config import Cluster
    from quotaform.model.snapshot import SnapshotFile


def require_pinned(
    cluster: str,
    pinned_id: str | None,
    found_id: str | None,
    *,
    snapshot: SnapshotFile | None = None,
    is_reading: bool = False,
) -> None:
    """Make sure that a cluster is the one that quotaform.yaml pins.

    Args:
        cluster: What messages call the cluster.
        pinned_id: The id in quotaform.yaml, if there is one.
        found_id: The id that the cluster gives itself, or that its snapshot has.
        snapshot: The snapshot that is read instead of a running cluster.
        is_reading: Whether nothing was going to be written to it.

    Raises:
        ClusterIdError: It has another id.
    """
    finding = check_pinned_id(cluster, pinned_id, found_id, snapshot)
    if finding is not None:
        raise ClusterIdError(finding, expected=pinned_id or "", found=found_id, is_reading=is_reading)


def open_pinned_gateway(cluster: Cluster) -> Gateway:
    """Connect to a cluster, or open its snapshot, and make sure that it is the one that quotaform.yaml pins.

    Raises:
        ClusterError: There is no usable connection.
        InvalidFilesError: The snapshot or the client properties are invalid.
        ClusterIdError: It has another id.
    """
    gateway = open_gateway(cluster)
    try:
        found_id = gateway.cluster_id()
        require_pinned(cluster.name, cluster.cluster_id, found_id, snapshot=gateway.snapshot, is_reading=True)
    except BaseException:
        gateway.close()
        raise
    return gateway


def open_gateway(cluster: Cluster) -> Gateway:
    """Connect to a cluster, or open its snapshot.

    Raises `ClusterError` if there is no usable connection, and `InvalidFilesError` if the snapshot or the client
    properties are invalid.
    """
    if cluster.snapshot is not None:
        from quotaform.cluster.snapshot import SnapshotGateway
        from quotaform.document.snapshot import read_snapshot

        taken = cluster.taken or read_snapshot(cluster.snapshot, within=folder_of(cluster, cluster.snapshot))
        return SnapshotGateway(taken, name=cluster.name, path=str(cluster.snapshot))
    from quotaform.cluster.kafka import KafkaGateway

    return KafkaGateway.connect(*connection_of(cluster), name=cluster.label)
