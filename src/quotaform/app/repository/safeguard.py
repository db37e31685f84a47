"""What of a quotaform.yaml protects a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quotaform.core.safeguards import Safeguards

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config


def safeguards_of(config: Config, cluster: Cluster | None) -> Safeguards:
    """Return what protects a cluster; `None` is one that the configuration does not have."""
    return Safeguards(
        prune=config.prune,
        scope=config.scope,
        pinned_id=cluster.cluster_id if cluster else None,
        must_confirm=cluster is not None and cluster.confirm == "name",
        policies=tuple(path.text for path in config.policies),
    )
