"""SCRAM credentials of a cluster: a connection, and what is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from quotaform.app.repository.address import connection_of
from quotaform.app.repository.gateway import require_pinned
from quotaform.cluster.scram import ScramGateway, make_upsertion
from quotaform.errors import BlockedError, UsageError
from quotaform.model.scram import ScramDeletion, ScramMechanism, ScramUpsertion
from quotaform.model.secret import Secret

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


def open_scram(cluster: Cluster) -> ScramGateway:
    """Connect to a cluster.

    Raises:
        UsageError: It is a snapshot file.
        BlockedError: It is not the one that quotaform.yaml pins.
        ClusterError: There is no usable connection.
        InvalidFilesError: The client properties are invalid.
    """
    if cluster.snapshot is not None:
        raise UsageError(f"cluster {cluster.name} is a snapshot file, which contains no SCRAM credentials")
    gateway = ScramGateway.connect(*connection_of(cluster), name=cluster.label)
    try:
        require_pinned(cluster.name, cluster.cluster_id, gateway.cluster_id)
    except BlockedError:
        gateway.close()
        raise
    return gateway


def upsertions(
    passwords: Mapping[str, Secret], mechanisms: Sequence[ScramMechanism], iterations: int
) -> list[ScramUpsertion]:
    """Return what sets the password of each user for each mechanism."""
    return [
        make_upsertion(user, mechanism, password, iterations)
        for user, password in passwords.items()
        for mechanism in mechanisms
    ]


def deletions(users: Sequence[str], mechanisms: Sequence[ScramMechanism]) -> list[ScramDeletion]:
    """Return what deletes the credential of each user for each mechanism."""
    return [ScramDeletion(user, mechanism) for user in users for mechanism in mechanisms]
