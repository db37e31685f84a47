"""Planning on Spark: the plans of `quotaform.app.plan.plan`, byte for byte.

The files are parsed on the executors, the cluster is read there, and joins make the rows; what follows from the
rows (effects, order, findings) is made of them in the one place, `quotaform.app.plan.cluster_plan.make_cluster_plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import EngineError, QuotaformError
from quotaform.spark.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quotaform.app.plan.request import PlanRequest
    from quotaform.app.repository.source import Source
    from quotaform.core.plan import Plan
    from quotaform.desired.config import Cluster
    from quotaform.desired.tree import Layout
    from quotaform.model.quotas import Quotas


def plan(
    request: PlanRequest,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[ClusterOutcome[Plan]]:
    """Plan clusters on Spark, in one session; see `quotaform.app.plan.plan.plan`.

    Raises:
        EngineError: Spark is missing, does not start or failed.
        InvalidFilesError: Nothing could be read for any cluster.
    """
    from quotaform.app.plan.plan import with_same_clusters

    outcomes = _outcomes(request, session, clock, progress)
    yield from with_same_clusters(outcomes) if request.is_guarded else outcomes


def _outcomes(
    request: PlanRequest, session: SessionOptions, clock: Clock, progress: Progress
) -> Iterator[ClusterOutcome[Plan]]:
    from quotaform.app.plan.plan import read_plan_source

    layout = request.repository.layout(request.config, may_be_empty=request.is_guarded)
    source = read_plan_source(request, layout.tree, clock)
    progress("Starting Spark", 0, 0)
    with spark_session(session) as spark:
        for cluster in request.clusters:
            try:
                made = _plan_cluster(spark, request, cluster, layout, source, clock, progress)
            except EngineError:
                raise
            except QuotaformError as error:
                yield ClusterOutcome(cluster.name, error=error)
            else:
                yield ClusterOutcome(cluster.name, made)


def _plan_cluster(
    spark: SparkSession,
    request: PlanRequest,
    cluster: Cluster,
    layout: Layout,
    source: Source,
    clock: Clock,
    progress: Progress,
) -> Plan:
    from quotaform.app.actual import read_settled
    from quotaform.app.plan.cluster_plan import make_cluster_plan
    from quotaform.app.plan.plan import bulk_of_plan
    from quotaform.app.plan.request import Reading
    from quotaform.spark.change import changes, collect_changes
    from quotaform.spark.entry import entries, read_desired
    from quotaform.spark.reading import SparkReading

    progress("Reading files", 0, 0)
    desired = read_desired(spark, layout, cluster.name, request.config, today(clock), request.policies.problems)
    reading = SparkReading(spark, cluster)
    principals = request.principals_of(cluster)

    def make(actual: Quotas) -> Plan:
        progress("Comparing", 0, 0)
        rows = collect_changes(changes(entries(spark, desired, cluster.name), reading.quotas))
        return make_cluster_plan(
            request,
            cluster,
            Reading(reading.cluster_id(), actual, reading.snapshot, principals),
            rows,
            desired,
            source=source,
            clock=clock,
        )

    return read_settled(reading, make, bulk_of_plan, clock=clock, progress=progress)
