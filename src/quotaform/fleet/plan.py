"""Planning and comparing clusters on Spark, a cluster in each task; for a table of principals, what changes.

The driver reads the files, and lists of commits, into a `Bundle`; an executor parses the files of the cluster that it
plans, and those that all clusters have in common once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from quotaform.desired.loader import LoadedFiles
from quotaform.fleet.job import in_few_tasks, opened_bundle, repeatable_rows, work_on
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import load_principals
from quotaform.fleet.table import located
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, no_progress
from quotaform.plan.blast_radius import BlastRadius, RadiusTally, changed_values
from quotaform.plan.plan import Plan
from quotaform.plan.principals import PrincipalList
from quotaform.plan.run import MakeOfCluster, PlanRequest, plan_cluster, read_plan_source, with_same_clusters
from quotaform.plan.source import Source
from quotaform.plan.spark import blast_radius, changed_cluster, distinct_principals, tallies
from quotaform.repository.gateway import open_gateway
from quotaform.resolve.spark_quotas import CLUSTER
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.desired.config import Cluster


class PlanWork(Struct, frozen=True, kw_only=True):
    """Plans a cluster, or compares it, as `make` says."""

    request: PlanRequest
    files: LoadedFiles
    source: Source  # Where they came from, and what the base declares
    clock: Clock
    make: MakeOfCluster

    def __call__(self, cluster: Cluster) -> Any:
        """Return what is made of a cluster, and release the files that only it has."""
        try:
            desired = self.files.desired(cluster.name, self.request.policies.problems)
            with open_gateway(cluster) as gateway:
                return self.make(self.request, cluster, gateway, desired, self.source, clock=self.clock)
        finally:
            self.files.release(cluster.name)
            if self.source.bases is not None:
                self.source.bases.release(cluster.name)


def plan(
    request: PlanRequest,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = lambda _: None,
    make: MakeOfCluster = plan_cluster,
) -> list[ClusterOutcome[Any]]:
    """Plan clusters on Spark, or do as `make` does with each of them; see `quotaform.plan.run.plan`.

    `warn` is called with what is odd about a table of principals. Raises `EngineError`, `InvalidFilesError` or
    `BaseError`.
    """
    with opened_bundle(session, progress) as (spark, bundle):
        progress("Reading files", 0, 0)
        repository = structs.replace(request.repository, keep=bundle.keep)
        files = repository.load(request.config, today(clock), may_be_empty=request.is_guarded)
        source = read_plan_source(structs.replace(request, repository=repository), files, clock)
        work = PlanWork(request=request, files=files, source=source, clock=clock, make=make)
        listed, read = request.principals, None
        if listed is not None and listed.table is not None:
            progress("Reading principals", 0, 0)
            read = load_principals(spark, listed.table, warn)
        what = "Planning" if make is plan_cluster else "Comparing"
        outcomes = work_on(spark, bundle, work, request.clusters, what, progress)
        if listed is not None and read is not None:
            progress("Resolving principals before and after the plans", 0, 0)
            principals, clients, ips = read
            outcomes = _with_radii(outcomes, listed, principals, clients + ips)
        return list(with_same_clusters(outcomes)) if request.is_guarded else outcomes


def _with_radii(
    outcomes: Sequence[ClusterOutcome[Kept[Plan]]], listed: PrincipalList, read: DataFrame, count: int
) -> list[ClusterOutcome[Kept[Plan]]]:
    """Return plans with whose limits they change, of a table of principals of which no process has all rows."""
    names = [outcome.cluster for outcome in outcomes]
    # One plan at a time is in memory.
    changed: dict[str | None, bytes] = {}
    for outcome in outcomes:
        if outcome.error is None and (kept := outcome.require()).digest.row.differences:
            made = kept.load()
            changed[outcome.cluster] = changed_cluster(made.actual or {}, changed_values(made.changes))
    distinct = in_few_tasks(distinct_principals(read), count)
    with repeatable_rows(distinct) as principals:
        if listed.folder is not None:
            blast_radius(principals, changed).write.parquet(located(listed.folder))
        found, totals = tallies(principals, changed), dict.fromkeys(names, 0)
        if CLUSTER in principals.columns:
            totals |= {row[CLUSTER]: row["count"] for row in principals.groupBy(CLUSTER).count().collect()}
        else:
            totals = dict.fromkeys(names, principals.count())
    radii = {
        name: found.get(name, RadiusTally()).radius(listed.table or "", totals[name], listed.folder) for name in names
    }
    return [_with_radius(outcome, radii[outcome.cluster]) for outcome in outcomes]


def _with_radius(outcome: ClusterOutcome[Kept[Plan]], radius: BlastRadius) -> ClusterOutcome[Kept[Plan]]:
    """Add what was found to a plan, and its counts to the numbers of it."""

    def completed(made: Kept[Plan]) -> Kept[Plan]:
        row = structs.replace(made.digest.row, blast_radius=radius.without_changes())
        digest = structs.replace(made.digest, row=row)
        return Kept(digest, lambda: replace(made.load(), actual=None, blast_radius=radius))

    return outcome.map(completed)
