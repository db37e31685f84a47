"""Planning one cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quotaform.app.actual import make_at_rest
from quotaform.app.clock import plan_timestamp
from quotaform.app.git import read_source
from quotaform.app.repository import Repository
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.check import rule
from quotaform.core.check.live import live_findings
from quotaform.core.plan import Plan, PlanHeader, diff, make_plan
from quotaform.core.scope import Selection
from quotaform.model.entry import Desired
from quotaform.model.finding import Finding
from quotaform.model.quotas import Quotas
from quotaform.model.text import quote

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
        return make_plan(
            diff(desired, actual),
            desired,
            actual,
            make_header(request, cluster_id),
            scope=request.config.scope,
            selection=request.selection,
            findings=make_findings(request, cluster_id, desired, actual),
        )

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


def make_findings(request: PlanRequest, cluster_id: str, desired: Desired, actual: Quotas) -> list[Finding]:
    """Say what is worth knowing of the live cluster, and what blocks a plan for it."""
    findings = live_findings(actual, desired)
    findings += [
        rule.NO_MATCH.finding(f"--select {quote(glob)} matches no entity")
        for glob in request.selection.select
        if not _matches_any(glob, desired, actual)
    ]
    pinned = request.cluster.cluster_id
    if pinned and pinned != cluster_id:
        findings.append(
            rule.CLUSTER_ID.finding(
                f"cluster {request.cluster.name} is pinned to id {pinned}, and the live id is {cluster_id}; "
                "check bootstrap_servers, or correct cluster_id in quotaform.yaml.",
            )
        )
    return findings


def _matches_any(glob: str, desired: Desired, actual: Quotas) -> bool:
    selection = Selection((glob,))
    return any(selection.contains(entity) for entities in (desired, actual) for entity in entities)
