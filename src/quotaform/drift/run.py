"""Comparing clusters with what was last agreed, read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from quotaform.cluster.gateway import Gateway
from quotaform.drift.drift import Drift, make_drift
from quotaform.model import rule
from quotaform.model.errors import BaseError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.model.quotas import Desired
from quotaform.plan.run import PlanRequest, plan, plan_cluster
from quotaform.plan.source import Source
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


def check_drift(
    request: PlanRequest, make_each: Callable[..., Iterable[ClusterOutcome[Any]]] = plan, **options: Any
) -> Iterator[ClusterOutcome[Any]]:
    """Compare clusters, all at a time: as plans are made, whose difference is read from the other side.

    `request`: what to compare; its base is the baseline. `make_each`: `quotaform.plan.run.plan`, or that of
    `quotaform.fleet.run`, with its `options`; the results of the latter are `Kept`.

    Yields one outcome per cluster, in the order of the request. A cluster that could not be read is never in sync, nor
    is one whose baseline could not be.

    Raises `InvalidFilesError` if nothing could be read for any cluster.
    """
    left = [cluster.name for cluster in request.clusters]
    try:
        for outcome in make_each(request, make=drift_cluster, **options):
            left.remove(outcome.cluster)
            yield outcome
    except BaseError as error:
        yield from (ClusterOutcome(name, error=BaseError(error.ref, error.reason, role="baseline")) for name in left)


def drift_cluster(
    request: PlanRequest,
    cluster: Cluster,
    gateway: Gateway,
    desired: Desired,
    source: Source,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Drift:
    """Compare one cluster with what the files declare for it; see `quotaform.plan.run.plan_cluster`.

    Raises `BaseError` if there is no baseline for it.
    """
    made = plan_cluster(request, cluster, gateway, desired, source, clock=clock, progress=progress)
    if request.base is not None and made.base is None:
        reason = next((each.message for each in made.findings if each.rule == rule.BASE_INVALID.id), "it is invalid")
        raise BaseError(request.base.name, reason, role="baseline")
    return make_drift(made, ignores=request.config.drift_ignore, today=today(clock))
