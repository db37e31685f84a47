"""Comparing clusters with what was last agreed, read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

from quotaform.drift.drift import Drift, make_drift
from quotaform.model import rule
from quotaform.model.errors import BaseError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.plan.plan import Plan
from quotaform.plan.run import PlanRequest, plan
from quotaform.repository.cluster_work import Connect
from quotaform.repository.gateway import open_gateway
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today


def check_drift(
    request: PlanRequest,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Drift]]:
    """Compare clusters, all at a time: as `quotaform.plan.run.plan`, whose difference is read from the other side.

    `request`: what to compare; its base is the baseline.

    Yields one outcome per cluster, in the order of the request. A cluster that could not be read is never in sync, nor
    is one whose baseline could not be.

    Raises `InvalidFilesError` if nothing could be read for any cluster.
    """
    left = [cluster.name for cluster in request.clusters]
    try:
        for outcome in plan(request, clock=clock, progress=progress, connect=connect):
            left.remove(outcome.cluster)
            yield drift_of(request, outcome, today(clock))
    except BaseError as error:
        yield from without_baseline(left, error)


def drift_of(request: PlanRequest, planned: ClusterOutcome[Plan], today: date) -> ClusterOutcome[Drift]:
    """Return a plan read as drift. `planned` is the plan, made with the baseline as its base."""
    if planned.error is None and request.base is not None and planned.require().base is None:
        findings = planned.require().findings
        reason = next((each.message for each in findings if each.rule == rule.BASE_INVALID.id), "it is invalid")
        return ClusterOutcome(planned.cluster, error=_of_baseline(request.base.name, reason))
    return planned.map(lambda plan: make_drift(plan, ignores=request.config.drift_ignore, today=today))


def without_baseline(clusters: Iterable[str], error: BaseError) -> Iterator[ClusterOutcome[Any]]:
    """Yield the outcomes of clusters whose baseline cannot be read."""
    yield from (ClusterOutcome(name, error=_of_baseline(error.ref, error.reason)) for name in clusters)


def _of_baseline(ref: str, reason: str) -> BaseError:
    return BaseError(ref, reason, role="baseline")
