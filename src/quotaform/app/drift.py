"""Comparing clusters with what was last agreed, read-only."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.plan import Planner, PlanRequest
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.drift import Drift, make_drift
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan


def check_drift(
    request: PlanRequest, planner: Planner, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = no_progress
) -> Iterator[ClusterOutcome[Drift]]:
    """Compare clusters, all at a time: as `quotaform.app.plan.plan`, whose difference is read from the other side.

    Args:
        request: What to compare.
        planner: Plans the clusters.
        clock: The time.
        progress: Told what is being done.

    Yields:
        One outcome per cluster, in the order of the request; a cluster that could not be read is never in sync.

    Raises:
        InvalidFilesError: Nothing could be read for any cluster.
    """

    def read(plan: Plan) -> Drift:
        return make_drift(plan, ignores=request.config.drift_ignore, today=today(clock))

    for outcome in planner(request, clock=clock, progress=progress):
        yield outcome.map(read)
