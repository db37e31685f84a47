"""Where plans are made and applied: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from quotaform.app.rendering import Document
from quotaform.cli.documents import documents_of
from quotaform.cli.option.engine import SPARK
from quotaform.core.outcome import ClusterOutcome
from quotaform.errors import ApplyLostError
from quotaform.views.style import counted

if TYPE_CHECKING:
    from quotaform.app.apply.apply import ClusterPlan
    from quotaform.app.plan.request import PlanRequest
    from quotaform.cli.apply.settings import ApplySettings
    from quotaform.cli.apply.steps import ApplySteps
    from quotaform.cluster.gateway import Progress
    from quotaform.core.plan import Plan
    from quotaform.spark.session.options import SessionOptions


class ApplyEngine(Protocol):
    """What makes and applies plans."""

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster: a `Plan`, or a `StoredResult` of one."""

    def keep(self, plan: Plan) -> Any:
        """Return a saved plan as `apply` takes it."""

    def apply(
        self, settings: ApplySettings, plans: Sequence[ClusterPlan[Any]], steps: ApplySteps
    ) -> Iterator[ClusterOutcome[Any]]:
        """Yield the receipt of each cluster: a `Receipt`, or a `StoredResult` of one."""


class LocalEngine:
    """This process: one cluster after the other."""

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster."""
        from quotaform.app.plan.plan import plan

        return plan(request, progress=settings.console.progress)

    def keep(self, plan: Plan) -> Any:
        """Return the plan as it is."""
        return plan

    def apply(
        self, settings: ApplySettings, plans: Sequence[ClusterPlan[Any]], steps: ApplySteps
    ) -> Iterator[ClusterOutcome[Any]]:
        """Yield the receipt of each cluster."""
        from quotaform.app.apply.apply import apply_plans

        return apply_plans(
            plans,
            steps.keep,
            steps.show,
            start=steps.start,
            around=steps.around,
            report_late=steps.report_late,
            progress=settings.console.progress,
        )


class SparkEngine:
    """A Spark session, which starts when it is needed and serves what is planned and what is applied."""

    def __init__(self, session: SessionOptions, stack: ExitStack) -> None:
        """Prepare.

        Args:
            stack: What ends the session.
        """
        from quotaform.spark.job.document_store import DocumentStore

        self._session = session
        self._store = DocumentStore()
        self._stack = stack
        self._is_started = False

    def plan(self, settings: ApplySettings, request: PlanRequest) -> Iterator[ClusterOutcome[Any]]:
        """Yield the plan of each cluster, with its text and its plan file."""
        from quotaform.spark.plan import plan

        progress = self._progress(settings, f"Planning {counted(len(request.clusters), 'cluster')}")
        self._start(progress)
        style = {"style": settings.console.style()} if settings.is_text else {}
        documents = (Document("text", "text", style), Document("json", "json", {}))
        return iter(plan(request, documents, progress=progress))

    def keep(self, plan: Plan) -> Any:
        """Return the plan with its content on disk."""
        from quotaform.spark.apply import store_plan

        return store_plan(plan, self._store)

    def apply(
        self, settings: ApplySettings, plans: Sequence[ClusterPlan[Any]], steps: ApplySteps
    ) -> Iterator[ClusterOutcome[Any]]:
        """Yield the receipt of each cluster, with what is printed and written of it."""
        from quotaform.spark.apply import SparkSteps, apply_plans

        progress = self._progress(settings, f"Applying {counted(len(plans), 'plan')}")
        self._start(progress)
        printed = {**settings.ci.options, "style": settings.console.style()}
        applied = apply_plans(
            plans,
            documents_of(settings.format_name, printed, ["json"], settings.ci, steps.clusters),
            SparkSteps(
                paths=steps.paths,
                keep=steps.keep,
                show=steps.show,
                around=steps.around,
                report_late=steps.report_late,
                auditor=settings.audit.auditor if settings.audit.is_kept else None,
            ),
            progress=progress,
        )
        for outcome in applied:
            if isinstance(outcome.error, ApplyLostError):
                settings.has_written.set()
            yield outcome

    def _progress(self, settings: ApplySettings, work: str) -> Progress:
        from quotaform.cli.job_progress import JobProgress

        return JobProgress(settings.console, work, self._session)

    def _start(self, progress: Progress) -> None:
        from quotaform.spark.session.session import spark_session

        if not self._is_started:
            self._stack.enter_context(spark_session(self._session, progress))
            self._is_started = True


@contextmanager
def apply_engine(settings: ApplySettings, clusters: int, size: Callable[[], int]) -> Iterator[ApplyEngine]:
    """Yield the engine that was asked for.

    Args:
        size: Returns how many bytes their files have.
    """
    if settings.is_dry_run or settings.engine.choose(settings.console, clusters, size) != SPARK:
        yield LocalEngine()
        return
    with ExitStack() as stack:
        yield SparkEngine(settings.engine.session(), stack)
