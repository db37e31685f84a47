"""Applying plans on Spark: `quotaform.app.apply.apply`, a cluster in each task; see `quotaform.spark.apply_job`.

What was done is on record as far as possible, whoever dies:

| killed | the receipts of clusters that are done |
| --- | --- |
| a task, or its executor | the next attempt leaves one: what the first had written is `already-applied` in it, and, \
where executors see the driver's folders, in the receipt with which the first began |
| an executor whose tasks have ended | as for a driver that is killed; see below |
| the driver, and executors see its folders: those of this machine | are there: every task writes its own at once |
| the driver, and executors are elsewhere | are there up to the last job of `_AT_ONCE` clusters that has ended |

A task that has ended does not run again. If its executor is lost before the driver has the outcome, the cluster ends
with `ApplyLostError`, and no further job is started.

The driver holds the locks of the clusters, not the tasks: else a task that Spark has given up, and that still runs,
would keep the next attempt out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from quotaform.app.apply.apply import ClusterPlan, require_applyable
from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.app.rendering import Document, StoredResult, render
from quotaform.app.run import Applier
from quotaform.cluster.gateway import Progress, no_progress
from quotaform.core.digest import PlanDigest, ReceiptDigest, digest_plan
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.document.audit import Auditor
from quotaform.document.plan import load_plan, plan_lines
from quotaform.errors import ApplyLostError, ClusterError, EngineError, QuotaformError
from quotaform.interrupt import held_signals
from quotaform.spark.apply_job import ApplyJob, BundledPlan, late_error
from quotaform.spark.job.cluster_job import ShippedJob, compressed, new_bundle, run_job, ship_job
from quotaform.spark.job.document_store import DocumentStore
from quotaform.spark.session.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session.session import spark_session

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

StoredPlan = StoredResult[PlanDigest]
"""A plan whose plan file is the document `json`."""
StoredReceipt = StoredResult[ReceiptDigest]
Applied = ClusterOutcome[StoredReceipt]

_AT_ONCE: Final = 100
"""How many clusters are applied by one job, whose results come to the driver when all of it is done."""


def store_plan(plan: Plan, store: DocumentStore) -> StoredPlan:
    """Put a plan on the driver's disk: what is left in memory does not grow with its entities."""
    for part in compressed(plan_lines(plan)):
        store.add("json", part)
    documents = store.take()
    stored = StoredResult(digest_plan(plan), documents)
    documents["text"] = lambda: render("plan", "text", _loaded(stored))
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSteps:
    """What is done beside applying, in the driver; see `quotaform.app.apply.apply.apply_plans`.

    Attributes:
        paths: Where the receipt of each cluster goes.
        keep: Called with each receipt, to save it, with signals held back.
        show: Called with it afterwards.
        around: Returns what is entered before a cluster is connected to and left when it is done.
        report_late: Called with an error that came when everything was done.
        auditor: Creates the lines of the audit log; `None` if there is none.
    """

    paths: Mapping[str, Path]
    keep: Callable[[Cluster, StoredReceipt], None]
    show: Callable[[Cluster, StoredReceipt], None]
    around: Callable[[Cluster, PlanDigest], AbstractContextManager[None]]
    report_late: Callable[[Cluster, QuotaformError], None]
    auditor: Auditor | None = None


def apply_plans(
    plans: Sequence[ClusterPlan[StoredPlan]],
    documents: Sequence[Document],
    steps: SparkSteps,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[Applied]:
    """Apply plans on Spark; a failure on one cluster does not keep the others from being applied.

    Args:
        plans: What to apply, at most one plan per cluster.
        documents: What to render of each receipt; `json` among it.

    Yields:
        One outcome per cluster, in order; that of a cluster of which nobody knows is an `ApplyLostError`. After an
        interrupt, or when Spark has failed, no further job is started.

    Raises:
        EngineError: Spark is missing or does not start; nothing was written.
        KeyboardInterrupt: It came before an outcome was known, or after the last that is yielded.
    """
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        bundle = new_bundle(folder)
        job = ApplyJob(
            clusters=[each.cluster for each in plans],
            plans=[BundledPlan(bundle.add(_content(each.plan)), each.digest.plan_id) for each in plans],
            paths=[steps.paths[each.cluster.name] for each in plans],
            bundle=bundle,
            home=str(bundle.path),
            documents=tuple(documents),
            applier=Applier.current(),
            auditor=steps.auditor,
            clock=clock,
        )
        shipped = ship_job(spark, bundle, job)
        end, is_lost = 0, False
        while end < len(plans) and not is_lost:
            with _Part(plans, places := _together(plans, end), steps, progress) as part:
                yield from part.outcomes(shipped)
            end, is_lost = places.stop, part.is_lost
        left = plans[end:]
        unsent = ClusterError(
            "not applied: Spark failed while others were applied", remedy="run the same command again"
        )
        yield from (ClusterOutcome(each.cluster.name, error=unsent) for each in left)


def _together(plans: Sequence[ClusterPlan[StoredPlan]], begin: int) -> range:
    """Return the places of the plans that one job applies: of those for one live cluster, no two."""
    seen: set[str] = set()
    end = begin
    while end < min(begin + _AT_ONCE, len(plans)) and plans[end].digest.cluster_id not in seen:
        seen.add(plans[end].digest.cluster_id)
        end += 1
    return range(begin, end)


@dataclass(slots=True)
class _Part:
    """The clusters of one job.

    Attributes:
        places: The places of those of this job.
        is_lost: Whether Spark failed, so that no other job is to be started.
    """

    plans: Sequence[ClusterPlan[StoredPlan]]
    places: range
    steps: SparkSteps
    progress: Progress
    is_lost: bool = False
    _entered: dict[int, ExitStack] = field(default_factory=dict)
    _refused: dict[int, QuotaformError] = field(default_factory=dict)

    def __enter__(self) -> _Part:
        try:
            for place in self.places:
                self._enter(place)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_arguments: object) -> None:
        for stack in self._entered.values():
            stack.close()

    def _enter(self, place: int) -> None:
        """Enter what is around a cluster; it stays so until its outcome is known."""
        cluster, plan = self.plans[place]
        try:
            with ExitStack() as stack:
                stack.enter_context(self.steps.around(cluster, plan.digest))
                if not plan.digest.is_applyable:
                    require_applyable(_loaded(plan))
                self._entered[place] = stack.pop_all()
        except QuotaformError as error:
            self._refused[place] = error

    def outcomes(self, job: ShippedJob) -> Iterator[Applied]:
        """Run the job, and yield one outcome per cluster, in order."""
        found: dict[int, Applied] = {}
        chosen = [(place, None) for place in self.places if place in self._entered]
        interrupt: KeyboardInterrupt | None = None
        why = ""
        try:
            # Here Spark's errors become one that says what happened.
            with spark_session() as spark:
                what = "Applying plans on Spark"
                ran = run_job(spark, job, what, self._report, chosen, is_final=True) if chosen else ()
                for (place, _), outcome in zip(chosen, ran, strict=True):
                    found[place] = outcome
        except EngineError as error:
            self.is_lost, why = True, str(error).partition(";")[0]
        except KeyboardInterrupt as came:
            interrupt, why = came, "the run was interrupted while executors were at work"
        try:
            with held_signals(holds_all=True):
                outcomes = [self._kept(place, found.get(place), why) for place in self.places]
            self._show(outcomes)
        except KeyboardInterrupt as came:
            interrupt = interrupt or came
        yield from outcomes
        if interrupt is not None:
            raise interrupt

    def _report(self, what: str, done: int, _total: int) -> None:
        """Report progress as that of all plans."""
        self.progress(what, self.places.start + done, len(self.plans))

    def _kept(self, place: int, outcome: Applied | None, why: str) -> Applied:
        """Leave what is around a cluster, and return its outcome once its receipt is kept."""
        cluster = self.plans[place].cluster
        if place in self._refused:
            return ClusterOutcome(cluster.name, error=self._refused[place])
        stack = self._entered.pop(place)
        if outcome is None:
            stack.close()
            return ClusterOutcome(cluster.name, error=ApplyLostError(why, self._receipt(cluster)))
        try:
            with stack:
                self.steps.keep(cluster, outcome.require())
        except QuotaformError as error:
            return ClusterOutcome(cluster.name, error=error)
        return outcome

    def _show(self, outcomes: Sequence[Applied]) -> None:
        for place, outcome in zip(self.places, outcomes, strict=True):
            if outcome.value is not None:
                cluster = self.plans[place].cluster
                late = late_error(outcome.value)
                if late is not None:
                    self.steps.report_late(cluster, late)
                self.steps.show(cluster, outcome.value)

    def _receipt(self, cluster: Cluster) -> str | None:
        """Return where the task of a lost cluster has left a receipt, if it has."""
        path = self.steps.paths[cluster.name]
        return str(path) if path.is_file() else None


def _content(plan: StoredPlan) -> bytes:
    return "".join(plan.documents["json"]()).encode(errors="surrogatepass")


def _loaded(plan: StoredPlan) -> Plan:
    return load_plan(_content(plan), f"the plan of {plan.digest.cluster_name}")
