"""What in a repository protects a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quotaform.core.safeguards import Safeguards

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config


def safeguards_of(config: Config, cluster: Cluster | None, policy_digests: Mapping[str, str]) -> Safeguards:
    """Return what protects a cluster.

    `cluster` is the cluster; `None` is one that quotaform.yaml does not have. `policy_digests` are the digests of the
    policy files, by path.
    """
    return Safeguards(
        limits=config.guard_limits,
        prune=config.prune,
        scope=config.scope,
        pinned_id=cluster.cluster_id if cluster else None,
        must_confirm=cluster is not None and cluster.confirm == "name",
        policies=tuple(path.text for path in config.policies),
        policy_digests=policy_digests,
        roots=tuple(path.text for path in config.roots),
    )
