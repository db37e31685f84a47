"""What is asked of planning, and what it finds on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quotaform.app.repository.policy import NO_POLICIES, LoadedPolicies
from quotaform.app.repository.repository import Repository
from quotaform.core.prune import PruneMode
from quotaform.core.receipt import SavedReceipt
from quotaform.core.scope import ALL, Selection
from quotaform.model.allowance import Allowance
from quotaform.model.approval import Approval
from quotaform.model.quotas import Quotas
from quotaform.model.snapshot import SnapshotFile

if TYPE_CHECKING:
    from quotaform.app.base.base import BaseChoice
    from quotaform.app.plan.principals import PrincipalList
    from quotaform.core.blast_radius import Principals
    from quotaform.desired.config import Cluster, Config


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What to plan.

    Attributes:
        policies: The policies that the plans are checked against.
        base: What to compare the files with, if anything.
        prune: What happens to entities that no file declares, if not what quotaform.yaml says.
        revert: What is to be put back, for `quotaform.app.plan.revert`.
        is_guarded: Whether guards are checked: a plan that only drift is read from is not going to be applied.
        principals: Whose effective limits are compared before and after, if anybody's.
        keeps_actual: Whether the plans keep everything that the clusters hold, for a backtest.
    """

    repository: Repository
    config: Config
    clusters: tuple[Cluster, ...]
    selection: Selection = ALL
    policies: LoadedPolicies = NO_POLICIES
    base: BaseChoice | None = None
    prune: PruneMode | None = None
    revert: SavedReceipt | None = None
    has_lints: bool = True
    allowances: tuple[Allowance, ...] = ()
    approvals: tuple[Approval, ...] = ()
    is_guarded: bool = True
    principals: PrincipalList | None = None
    keeps_actual: bool = False

    @property
    def prune_mode(self) -> PruneMode:
        """What happens to entities that no file declares."""
        return self.prune or self.config.prune

    def principals_of(self, cluster: Cluster) -> Principals | None:
        """Return who connects to a cluster, if the plan is to say whose limits change.

        Raises: As `quotaform.app.plan.principals.PrincipalList.of_cluster`.
        """
        return None if self.principals is None else self.principals.of_cluster(cluster)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a cluster. `principals` is who connects to it, if the plan is to say whose limits change."""

    cluster_id: str
    quotas: Quotas
    snapshot: SnapshotFile | None = None
    principals: Principals | None = None
