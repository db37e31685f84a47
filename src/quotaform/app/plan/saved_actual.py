"""A saved plan, and what its cluster holds now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quotaform.app.repository.gateway import open_pinned_gateway
from quotaform.core.freshness import require_cluster
from quotaform.core.plan import Plan

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


def with_actual(plan: Plan, cluster: Cluster) -> Plan:
    """Return a saved plan with everything that its cluster holds now, which plan files do not have.

    Raises:
        InvalidFilesError: The snapshot or the client properties cannot be read.
        ClusterError: The cluster could not be read.
        StaleError: The plan is for another cluster.
    """
    with open_pinned_gateway(cluster) as gateway:
        require_cluster(plan, gateway.cluster_id())
        header = replace(plan.header, cluster_name=cluster.name)
        return replace(plan, header=header, actual=gateway.describe())
