"""Where clusters are read and compared for `plan` and `drift`: in this process, or on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quotaform.cli.option.engine import SPARK
from quotaform.cli.outcomes import Gathered, gather

if TYPE_CHECKING:
    from quotaform.app.plan.request import PlanRequest
    from quotaform.app.rendering import Document
    from quotaform.cli.console import Console
    from quotaform.cli.option.engine import Engine
    from quotaform.cluster.gateway import Progress
    from quotaform.spark.history.against import Past
    from quotaform.spark.session.options import SessionOptions


class PlanEngine(Protocol):
    """What makes plans and finds drift. Documents are what an engine renders that does not return whole plans."""

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster: a `Plan`, or a `StoredResult` of one."""

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster: a `Drift`, or a `StoredResult` of one."""


@dataclass(frozen=True, slots=True)
class LocalPlanEngine:
    """This process: one cluster after the other."""

    console: Console

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""
        return False

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster; after an interrupt, of those that are done."""
        if request.revert is not None:
            from quotaform.app.plan.revert import plan_revert as plan
        else:
            from quotaform.app.plan.plan import plan
        return gather(plan(request, progress=self.console.progress), _names(request))

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster; after an interrupt, of those that are done."""
        from quotaform.app.drift.drift import check_drift
        from quotaform.app.plan.plan import plan

        return gather(check_drift(request, plan, progress=self.console.progress), _names(request))


@dataclass(frozen=True, slots=True)
class SparkPlanEngine:
    """Spark.

    Attributes:
        past: What of a history clusters are compared with instead.
    """

    console: Console
    session: SessionOptions
    past: Past | None = None

    @property
    def is_spark(self) -> bool:
        """Whether Spark does the work."""
        return True

    def plan(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the plan of each cluster."""
        from quotaform.spark.plan import plan

        return Gathered(
            tuple(
                plan(
                    request,
                    documents,
                    session=self.session,
                    progress=self._progress("Planning", request),
                    warn=lambda text: self.console.warn(f"Warning: {text}"),
                )
            )
        )

    def check_drift(self, request: PlanRequest, documents: Sequence[Document]) -> Gathered[Any]:
        """Return the drift of each cluster."""
        if self.past is not None:
            from quotaform.spark.history.against import check_drift_against

            check = partial(check_drift_against, request, self.past, documents)
        else:
            from quotaform.spark.plan import check_drift

            check = partial(check_drift, request, documents)
        return Gathered(tuple(check(session=self.session, progress=self._progress("Comparing", request))))

    def _progress(self, verb: str, request: PlanRequest) -> Progress:
        from quotaform.cli.job_progress import JobProgress
        from quotaform.views.style import counted

        return JobProgress(self.console, f"{verb} {counted(len(request.clusters), 'cluster')}", self.session)


def plan_engine(console: Console, engine: Engine, request: PlanRequest, past: Past | None = None) -> PlanEngine:
    """Return the engine that was asked for.

    Args:
        past: What of a history clusters are compared with instead of the files.

    Raises:
        UsageError: There is no such engine, or options exclude each other or cannot be used.
        EngineError: Spark is asked for, and not installed.
    """
    if past is not None:
        return SparkPlanEngine(console, engine.session(), past=past)
    if engine.choose(console, len(request.clusters), partial(quota_bytes, request)) == SPARK:
        return SparkPlanEngine(console, engine.session())
    return LocalPlanEngine(console)


def quota_bytes(request: PlanRequest) -> int:
    """Return how many bytes the quota files of a request have, about: files that are not read count, too."""
    sizes = 0
    for folder, _, names in os.walk(request.repository.directory):
        for name in names:
            with suppress(OSError):
                sizes += Path(folder, name).stat().st_size
    return sizes


def _names(request: PlanRequest) -> list[str]:
    return [cluster.name for cluster in request.clusters]
