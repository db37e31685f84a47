"""Planning one cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quotaform.app.actual import make_at_rest
from quotaform.app.clock import plan_timestamp
from quotaform.app.git import read_source
from quotaform.app.repository import Repository
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.check.facts import Facts
from quotaform.core.check.plan import with_findings
from quotaform.core.plan import Plan, PlanHeader, diff, make_plan
from quotaform.core.scope import Selection
from quotaform.model.entry import Desired
from quotaform.model.quotas import Quotas

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What to plan.

    Attributes:
        repository: Where the files are.
        config: The content of quotaform.yaml.
        cluster: The cluster to plan for.
        selection: The part of it that was asked for.
    """

    repository: Repository
    config: Config
    cluster: Cluster
    selection: Selection = field(default_factory=Selection)


def plan_cluster(request: PlanRequest, desired: Desired, gateway: Gateway, progress: Progress = no_progress) -> Plan:
    """Plan a cluster in this process.

    Raises:
        ClusterError: The cluster could not be read.
    """
    cluster_id = gateway.cluster_id()

    def make(actual: Quotas) -> Plan:
        plan = make_plan(
            diff(desired, actual),
            desired,
            actual,
            make_header(request, cluster_id),
            scope=request.config.scope,
            selection=request.selection,
        )
        return with_findings(plan, make_facts(request, desired, actual))

    return make_at_rest(gateway, desired, make, progress)


def make_header(request: PlanRequest, cluster_id: str) -> PlanHeader:
    """Say what a plan is made of."""
    return PlanHeader(
        cluster_name=request.cluster.name,
        cluster_id=cluster_id,
        created_at=plan_timestamp(),
        source=read_source(request.repository.directory, request.repository.config_path),
        options={
            "prune": request.config.prune,
            "select": list(request.selection.select),
            "exclude": list(request.selection.exclude),
        },
    )


def make_facts(request: PlanRequest, desired: Desired, actual: Quotas) -> Facts:
    """Return what the checks of a plan need to know beside it."""
    return Facts(desired=desired, actual=actual, pinned_id=request.cluster.cluster_id, selection=request.selection)
