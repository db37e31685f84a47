"""Resolving requests on one cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.check.resolution import (
    CALLBACK,
    ResolutionChecks,
    check_assumed_plan,
    check_callbacks,
    check_shapes,
)
from quotaform.core.freshness import require_cluster
from quotaform.core.plan import Plan
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.resolution import FULL_DETAIL, Detail, Resolution, ResolveHeader, make_resolution
from quotaform.core.resolve.resolver import Resolver
from quotaform.errors import UsageError
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import IP, Entity, spell_name
from quotaform.model.finding import Finding, by_weight
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Quotas
from quotaform.model.text import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRequest:
    """What to resolve.

    Attributes:
        entities: Who makes the requests: concrete entities, which are gone through once.
        has_clients: Whether some of them are users or client-ids.
        has_ips: Whether some of them are addresses.
        plan: A plan to assume as applied.
    """

    entities: Iterable[Entity]
    has_clients: bool
    has_ips: bool
    plan: Plan | None = None
    detail: Detail = FULL_DETAIL


class ResolveRun:
    """Resolves requests one by one, so that any number of them takes no memory.

    `header` is what is resolved against what.
    """

    def __init__(
        self,
        request: ResolveRequest,
        gateway: Gateway,
        progress: Progress = no_progress,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Read a cluster.

        Raises:
            ClusterError: The cluster could not be read.
            StaleError: The plan is for another cluster.
            UsageError: A quota key is wanted that no request can have.
        """
        cluster_id = gateway.cluster_id()
        if request.plan is not None:
            require_cluster(request.plan, cluster_id)
        progress(f"Reading quotas of {spell_name(gateway.name)}", 0, 0)
        actual = gateway.describe()
        _require_keys(request, actual)
        self.header = ResolveHeader(
            cluster_name=gateway.name,
            cluster_id=cluster_id,
            read_at=timestamp(clock),
            plan_id=request.plan.plan_id if request.plan else None,
            detail=request.detail,
            snapshot=gateway.snapshot,
        )
        self._entities = request.entities
        index = QuotaIndex(actual)
        self._actual, self._planned = Resolver(index), None
        if request.plan is not None:
            index = index.altered(_planned(request.plan, actual))
            self._planned = Resolver(index)
        self._checks = ResolutionChecks(index)
        self._general = check_shapes(actual)
        if request.plan is not None:
            self._general += check_assumed_plan(request.plan, actual)
        if request.has_clients and gateway.is_live:
            progress("Reading the configuration of the brokers", 0, 0)
            found = gateway.broker_config(CALLBACK)
            self._general += check_callbacks(found.values, found.errors)

    def __iter__(self) -> Iterator[Resolution]:
        for entity in self._entities:
            resolution = make_resolution(entity, self._actual, self._planned, self.header.detail)
            self._checks.add(resolution)
            yield resolution

    def findings(self) -> list[Finding]:
        """Return the findings about what was resolved so far."""
        return by_weight([*self._general, *self._checks.findings()])


def _planned(plan: Plan, actual: Quotas) -> Quotas:
    """Return the entities that a plan changes, as they will be on this cluster."""
    return {change.entity: apply_ops(actual.get(change.entity, {}), change.alteration().ops) for change in plan.changes}


def _require_keys(request: ResolveRequest, actual: Quotas) -> None:
    for key in request.detail.keys:
        is_held = any(key in values for values in actual.values())
        require_key(key, is_held, has_clients=request.has_clients, has_ips=request.has_ips)


def require_key(key: str, is_held: bool, *, has_clients: bool, has_ips: bool) -> None:
    """Make sure that requests can have a quota key.

    Args:
        is_held: Whether an entity on the cluster has it.
        has_clients: Whether some requests are of users or client-ids.
        has_ips: Whether some are of addresses.

    Raises:
        UsageError: None of them can, or nobody knows the key.
    """
    known = QUOTA_KEYS.get(key)
    if known is None and not is_held:
        raise UsageError(
            f"{quote(key)} is not a known quota key, and no entity on the cluster has it; "
            f"choose from {', '.join(QUOTA_KEYS)}"
        )
    is_for_ips = known is not None and IP in known.entity_types
    if known is not None and not (has_ips if is_for_ips else has_clients):
        limited = "ip entities" if is_for_ips else "users and client-ids"
        raise UsageError(f"{key} is only valid for {limited}, but no request names one")
