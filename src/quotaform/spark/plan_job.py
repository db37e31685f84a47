"""Planning one cluster of many on an executor, by the code of `quotaform.app.plan.plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quotaform.app.base.cluster_bases import ClusterBases
from quotaform.app.clock import Clock, today
from quotaform.app.drift.drift import drift_of
from quotaform.app.plan.plan import plan_cluster, with_same_clusters
from quotaform.app.plan.request import PlanRequest
from quotaform.app.rendering import Document, StoredResult, digest_of, render
from quotaform.app.repository.gateway import open_gateway
from quotaform.app.repository.source import Source
from quotaform.core.digest import PlanDigest
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.desired.loader import LoadedFiles
from quotaform.spark.job.cluster_job import Made

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

PLAN: Final = "plan"
DRIFT: Final = "drift"
QUOTA_LINES: Final = "quota-lines"
"""The document of what a cluster holds and what its plan changes, if that is needed outside of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """Plans clusters.

    Attributes:
        subject: What is made of a plan, and rendered: `plan` or `drift`.
        source: Where they came from, and what the base declares.
    """

    subject: str
    request: PlanRequest
    files: LoadedFiles
    source: Source
    clock: Clock
    documents: tuple[Document, ...]

    @property
    def names(self) -> Sequence[str]:
        """The names of the clusters."""
        return [cluster.name for cluster in self.request.clusters]

    def run(self, place: int, beside: int | None = None) -> Made:
        """Plan a cluster, and render what was asked for.

        Args:
            beside: The place of an earlier cluster that turned out to be the same live cluster.
        """
        outcome = self._plan(place)
        if beside is not None:
            *_, outcome = with_same_clusters([self._plan(beside), outcome])
        value: object = outcome.require()
        if self.subject == DRIFT:
            value = drift_of(self.request, outcome, today(self.clock)).require()
        rendered = {each.name: self._rendered(each, value) for each in self.documents}
        if isinstance(value, Plan) and value.actual is not None:
            from quotaform.spark.radius.planned_quotas import planned_quota_lines

            rendered[QUOTA_LINES] = planned_quota_lines(value)
        return Made(digest_of(value), rendered)

    def release(self, place: int) -> None:
        """Let go of the files of one cluster."""
        name = self.request.clusters[place].name
        self.files.release(name)
        if isinstance(self.source.bases, ClusterBases):
            self.source.bases.release(name)

    def _plan(self, place: int) -> ClusterOutcome[Plan]:
        cluster: Cluster = self.request.clusters[place]
        desired = self.files.desired(cluster.name, self.request.policies.problems)
        with open_gateway(cluster) as gateway:
            made = plan_cluster(
                self.request,
                cluster,
                gateway,
                desired=lambda: desired,
                source=lambda: self.source,
                clock=self.clock,
            )
        return ClusterOutcome(cluster.name, made)

    def _rendered(self, document: Document, value: object) -> Iterable[str]:
        options: dict[str, Any] = dict(document.options)
        return render(document.subject or self.subject, document.format_name, value, **options)


def same_clusters(outcomes: Iterable[ClusterOutcome[StoredResult[PlanDigest]]]) -> list[tuple[int, int]]:
    """Return the plans whose live cluster an earlier plan of another name is for, too: their places, and its."""
    first: dict[str, int] = {}
    same: list[tuple[int, int]] = []
    for place, outcome in enumerate(outcomes):
        if outcome.value is not None and not outcome.value.digest.is_snapshot:
            earlier = first.setdefault(outcome.value.digest.cluster_id, place)
            if earlier != place:
                same.append((place, earlier))
    return same
