"""Planning and comparing clusters on Spark, a cluster in each task; for a table of principals, what changes.

The driver reads the files, and lists of commits, into a `Bundle`; an executor parses the files of the cluster that it
plans, and those that all clusters have in common once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from quotaform.desired.loader import LoadedFiles
from quotaform.drift.drift import Drift
from quotaform.drift.run import drift_of, without_baseline
from quotaform.fleet.job import (
    Bundle,
    ShippedJob,
    in_few_tasks,
    in_order,
    new_bundle,
    repeatable_rows,
    run_job,
    ship_job,
)
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import load_principals
from quotaform.fleet.session import spark_session
from quotaform.fleet.table import located
from quotaform.model.errors import BaseError
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, no_progress
from quotaform.plan.blast_radius import BlastRadius, RadiusTally, changed_values
from quotaform.plan.plan import Plan
from quotaform.plan.principals import PrincipalList
from quotaform.plan.run import PlanRequest, plan_cluster, read_plan_source, with_same_clusters
from quotaform.plan.source import Source
from quotaform.plan.spark import blast_radius, changed_cluster, distinct_principals, tallies
from quotaform.repository.gateway import open_gateway
from quotaform.resolve.spark_quotas import CLUSTER
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster


class PlanWork(Struct, frozen=True, kw_only=True):
    """Plans a cluster, or compares it, as its job is for."""

    request: PlanRequest
    files: LoadedFiles
    source: Source  # Where they came from, and what the base declares
    clock: Clock
    is_drift: bool = False

    def __call__(self, cluster: Cluster) -> Plan | Drift:
        """Return the plan of a cluster, or its drift, and release the files that only it has."""
        try:
            desired = self.files.desired(cluster.name, self.request.policies.problems)
            with open_gateway(cluster) as gateway:
                made = plan_cluster(self.request, cluster, gateway, desired, self.source, clock=self.clock)
        finally:
            self.files.release(cluster.name)
            if self.source.bases is not None:
                self.source.bases.release(cluster.name)
        if not self.is_drift:
            return made
        return drift_of(self.request, ClusterOutcome(cluster.name, made), today(self.clock)).require()


def no_warning(text: str) -> None:
    """Ignore a warning."""


def plan(
    request: PlanRequest,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = no_warning,
) -> list[ClusterOutcome[Plan | Kept[Plan]]]:
    """Plan clusters on Spark; see `quotaform.plan.run.plan`.

    Raises `EngineError`, `InvalidFilesError` or `BaseError`.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        work, bundle = _work(folder, request, clock, progress)
        job = ship_job(spark, bundle, work, request.clusters)
        if request.principals is not None and request.principals.table is not None:
            outcomes = plan_with_table(spark, job, request.principals, progress, warn)
        else:
            outcomes = in_order(run_job(spark, job, "Planning clusters on Spark", progress), job.names)
        return list(with_same_clusters(outcomes) if request.is_guarded else outcomes)


def check_drift(
    request: PlanRequest,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[ClusterOutcome[Kept[Drift]]]:
    """Compare clusters on Spark; see `quotaform.drift.run.check_drift`.

    Raises `EngineError` or `InvalidFilesError`.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder:
        try:
            work, bundle = _work(folder, request, clock, progress, is_drift=True)
        except BaseError as error:
            return list(without_baseline([cluster.name for cluster in request.clusters], error))
        with spark_session(session, progress) as spark:
            job = ship_job(spark, bundle, work, request.clusters)
            return in_order(run_job(spark, job, "Comparing clusters on Spark", progress), job.names)


def _work(
    folder: str, request: PlanRequest, clock: Clock, progress: Progress, *, is_drift: bool = False
) -> tuple[PlanWork, Bundle]:
    """Return what executors are to do, and the archive that has the files for it."""
    progress("Reading files", 0, 0)
    bundle = new_bundle(folder)
    repository = structs.replace(request.repository, keep=bundle.keep)
    files = repository.load(request.config, today(clock), may_be_empty=request.is_guarded)
    source = read_plan_source(structs.replace(request, repository=repository), files.layout.tree, clock, files)
    return PlanWork(request=request, files=files, source=source, clock=clock, is_drift=is_drift), bundle


def plan_with_table(
    spark: SparkSession,
    job: ShippedJob,
    principal_list: PrincipalList,
    progress: Progress,
    warn: Callable[[str], None],
) -> list[ClusterOutcome[Kept[Plan]]]:
    """Plan clusters with a table of principals, of which no process has all rows; one outcome per cluster, in order.

    Raises `InvalidFilesError`: The table cannot be read, or something is wrong in it.
    """
    table = principal_list.table or ""
    progress("Reading principals", 0, 0)
    read, counts = load_principals(spark, table, warn)
    outcomes = in_order(run_job(spark, job, "Planning clusters on Spark", progress), job.names)
    progress("Resolving principals before and after the plans", 0, 0)
    changed, distinct = _changed(outcomes), in_few_tasks(distinct_principals(read), counts.total)
    with repeatable_rows(distinct) as principals:
        if principal_list.folder is not None:
            blast_radius(principals, changed).write.parquet(located(principal_list.folder))
        found, totals = tallies(principals, changed), _totals(principals, job.names)
    radii = {
        name: found.get(name, RadiusTally()).radius(table, total, principal_list.folder)
        for name, total in totals.items()
    }
    return [_with_radius(outcome, radii[outcome.cluster]) for outcome in outcomes]


def _changed(outcomes: Iterable[ClusterOutcome[Kept[Plan]]]) -> dict[str | None, bytes]:
    """Return the clusters whose plans change anything, as executors get them; one plan at a time is in memory."""
    found: dict[str | None, bytes] = {}
    for outcome in outcomes:
        if outcome.error is None and (kept := outcome.require()).digest.row.differences:
            made = kept.load()
            found[outcome.cluster] = changed_cluster(made.actual or {}, changed_values(made.changes))
    return found


def _with_radius(outcome: ClusterOutcome[Kept[Plan]], radius: BlastRadius) -> ClusterOutcome[Kept[Plan]]:
    """Add what was found to a plan, and its counts to the numbers of it."""

    def completed(made: Kept[Plan]) -> Kept[Plan]:
        row = structs.replace(made.digest.row, blast_radius=radius.without_changes())
        digest = structs.replace(made.digest, row=row)
        return Kept(digest, lambda: replace(made.load(), actual=None, blast_radius=radius))

    return outcome.map(completed)


def _totals(principals: DataFrame, clusters: Sequence[str]) -> Mapping[str, int]:
    """Return how many principals each cluster has: all of them, unless the table says which cluster is theirs."""
    if CLUSTER not in principals.columns:
        return dict.fromkeys(clusters, principals.count())
    counts = {row[CLUSTER]: row["count"] for row in principals.groupBy(CLUSTER).count().collect()}
    return {name: counts.get(name, 0) for name in clusters}
