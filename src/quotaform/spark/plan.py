"""Planning on Spark: the plans of `quotaform.app.plan.plan`, byte for byte, a cluster in each task.

The driver reads the files, and lists of commits, into a `Bundle`; an executor parses the files of the cluster that it
plans, and those that all clusters have in common once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TypeVar

from quotaform.app.clock import SYSTEM_CLOCK, Clock, today
from quotaform.app.drift.drift import without_baseline
from quotaform.app.plan.plan import read_plan_source
from quotaform.app.plan.request import PlanRequest
from quotaform.app.rendering import Document, StoredResult
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.digest import DriftDigest, PlanDigest
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import BaseError
from quotaform.spark.job.bundle import Bundle
from quotaform.spark.job.cluster_job import new_bundle, run_job, ship_job
from quotaform.spark.plan_job import DRIFT, PLAN, PlanJob, same_clusters
from quotaform.spark.session.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session.session import spark_session

D = TypeVar("D")

Stored = ClusterOutcome[StoredResult[D]]


def no_warning(text: str) -> None:
    """Warn nobody."""


def plan(
    request: PlanRequest,
    documents: Iterable[Document],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = no_warning,
) -> list[Stored[PlanDigest]]:
    """Plan clusters on Spark; see `quotaform.app.plan.plan.plan`.

    Args:
        warn: Called with a sentence about what is left out.

    Returns:
        One outcome per cluster, in the order of the request.

    Raises:
        EngineError: Spark is missing, does not start or failed.
        InvalidFilesError: Nothing could be read for any cluster.
        BaseError: The base that somebody named cannot be read.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        people = request.principals
        if people is not None and people.table is not None:
            from quotaform.spark.plan_radius import PLAN_FILE, plan_beside_table

            job, bundle = _job(folder, PLAN, request, [PLAN_FILE], clock, progress)
            shipped = ship_job(spark, bundle, job)
            return list(plan_beside_table(spark, shipped, people, tuple(documents), progress, warn))
        job, bundle = _job(folder, PLAN, request, documents, clock, progress)
        shipped = ship_job(spark, bundle, job)
        outcomes = list(run_job(spark, shipped, "Planning clusters on Spark", progress))
        if request.is_guarded and (same := same_clusters(outcomes)):
            # What two plans disagree about is not in their digests: such a plan is made again beside the earlier one.
            again = run_job(spark, shipped, "Comparing plans for the same live cluster", progress, same)
            for (place, _), outcome in zip(same, again, strict=True):
                outcomes[place] = outcome
    return outcomes


def check_drift(
    request: PlanRequest,
    documents: Iterable[Document],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[Stored[DriftDigest]]:
    """Compare clusters on Spark; see `quotaform.app.drift.drift.check_drift`.

    Args:
        request: What to compare; its base is the baseline.

    Returns:
        One outcome per cluster, in the order of the request.

    Raises:
        EngineError: Spark is missing, does not start or failed.
        InvalidFilesError: Nothing could be read for any cluster.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder:
        try:
            job, bundle = _job(folder, DRIFT, request, documents, clock, progress)
        except BaseError as error:
            return list(without_baseline([cluster.name for cluster in request.clusters], error))
        with spark_session(session, progress) as spark:
            shipped = ship_job(spark, bundle, job)
            return list(run_job(spark, shipped, "Comparing clusters on Spark", progress))


def _job(
    folder: str,
    subject: str,
    request: PlanRequest,
    documents: Iterable[Document],
    clock: Clock,
    progress: Progress,
) -> tuple[PlanJob, Bundle]:
    """Return what executors are to do, and the archive that has the files for it."""
    progress("Reading files", 0, 0)
    bundle = new_bundle(folder)
    day = today(clock)
    repository = replace(request.repository, keep=bundle.keep)
    files = repository.load(request.config, day, may_be_empty=request.is_guarded)
    source = read_plan_source(replace(request, repository=repository), files.layout.tree, clock, files)
    job = PlanJob(subject=subject, request=request, files=files, source=source, clock=clock, documents=tuple(documents))
    return job, bundle
