"""Applying plans on Spark: `quotaform.apply.run`, a cluster in each task.

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

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quotaform.apply.applier import Applier
from quotaform.apply.audit import AuditFile
from quotaform.apply.ledger import Applied, ClusterPlan, Ledger
from quotaform.apply.records import Auditor
from quotaform.apply.run import apply_cluster, require_applyable
from quotaform.fleet.bundle import Bundle
from quotaform.fleet.job import DocumentStore, Made, ShippedJob, compressed, new_bundle, run_job, ship_job
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.session import spark_session
from quotaform.model.errors import ApplyLostError, ClusterError, EngineError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Progress, no_progress
from quotaform.plan.plan import Plan, PlanDigest
from quotaform.plan.plan_file import require_plan_id
from quotaform.plan.receipt import Receipt, ReceiptDigest
from quotaform.plan.receipt_file import start_receipt, write_receipt, write_receipt_lines
from quotaform.plan.records import load_plan, plan_lines
from quotaform.report.format import Document, StoredResult, render
from quotaform.repository.repository import Repository
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.process import held_signals

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


# Applying the plan of one cluster of many on an executor, by the code of `quotaform.apply.run`.
#
# Spark may run a task more than once: again, when its executor or its Python process was lost; twice at a time, when it
# is slow and speculation is on; and a task that Spark has given up may still be running. None of that does harm:
#
# * Every attempt reads the entities of the plan first. One that holds the planned values already counts as
# `already-applied`, and nothing is sent for it. One that holds neither those nor what was there before the plan ends
# the attempt before anything is written.
# * An alteration sets values and does not add to them, so that two attempts at the same time leave what one leaves.
#
# When an attempt has ended, Spark begins no other: its outcome is kept (`quotaform.fleet.job.final_rows`), and
# if that is lost with the executor before the driver has read it, the cluster ends with `ApplyLostError`.
#
# What remains is what remains of every apply: a change by somebody else between the last read of an attempt and its
# write is overwritten. An attempt that Spark has given up on and that stalls between the two can
# still overwrite a newer value.

_AUDIT: Final = "audit"
_SAVED: Final = "saved"
_LATE: Final = "late"
"""Documents beside those that are asked for: lines of the audit log; where the receipt was written, if it was; an error
that came when everything was done."""


class BundledPlan(NamedTuple):
    """A plan file in a bundle."""

    name: str  # By which the bundle finds it
    plan_id: str  # The id of the plan that was shown or approved


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyJob:
    """Applies plans."""

    clusters: Sequence[Cluster]
    plans: Sequence[BundledPlan]
    paths: Sequence[Path]  # Where the receipt of each goes, seen from the driver
    bundle: Bundle  # What has the plan files
    home: str  # The path of the bundle on the driver: who sees it there sees the driver's folders, too
    documents: tuple[Document, ...]
    applier: Applier
    auditor: Auditor | None
    clock: Clock

    def run(self, place: int, other: int | None = None) -> Made:
        """Apply the plan of a cluster, and render the receipt.

        The receipt is written at once where the driver's folders are seen, the started one before the first change is
        sent: it is there even if nobody is left to hear of it. A second attempt writes one of its own.
        """
        cluster = self.clusters[place]
        started: list[Path] = []
        saved: list[str] = []
        path = self.paths[place]
        # A pipe and `/dev/stdout` are those of the driver.
        is_here = Path(self.home).exists() and (path.is_file() or not path.exists())

        def start(receipt: Receipt) -> None:
            if is_here and os.access(path.parent, os.W_OK):
                started.extend(filter(None, [start_receipt(path, receipt)]))

        def keep(receipt: Receipt) -> None:
            if receipt.results and is_here:
                with suppress(OSError, QuotaformError):  # Then the driver writes it.
                    saved.append(str(write_receipt((*started, path)[0], receipt, is_started=bool(started))))

        receipt, problem = apply_cluster(
            ClusterPlan(cluster, self._plan(place)), keep, start=start, clock=self.clock, applier=self.applier
        )
        late = [] if problem is None else [str(problem)]
        documents: dict[str, Iterable[str]] = {each.name: _rendered(each, receipt) for each in self.documents}
        if self.auditor is not None:
            documents[_AUDIT] = self.auditor.ended(receipt)
        documents |= {name: found for name, found in ((_SAVED, saved), (_LATE, late)) if found}
        return Made(receipt.digest, documents)

    def release(self, place: int) -> None:
        """Nothing of a cluster is kept."""

    def _plan(self, place: int) -> Plan:
        bundled = self.plans[place]
        plan = load_plan(self.bundle.read(bundled.name), f"the plan of {self.clusters[place].name}")
        require_plan_id(plan.plan_id, bundled.plan_id)
        return plan


def _rendered(document: Document, receipt: Receipt) -> Iterator[str]:
    options: dict[str, Any] = dict(document.options)
    return render("receipt", document.format_name, receipt, **options)


def audit_lines(done: StoredResult[ReceiptDigest]) -> Iterator[str]:
    """Yield the lines of the audit log about an apply that ran on an executor."""
    if _AUDIT not in done.documents:
        return
    rest = ""
    for piece in done.documents[_AUDIT]():
        *lines, rest = f"{rest}{piece}".split("\n")
        yield from (f"{line}\n" for line in lines)


def saved_path(done: StoredResult[ReceiptDigest]) -> Path | None:
    """Return where an executor has written the receipt, if it has and the driver sees it there."""
    if _SAVED not in done.documents:
        return None
    path = Path("".join(done.documents[_SAVED]()))
    return path if path.is_file() else None


def late_error(done: StoredResult[ReceiptDigest]) -> QuotaformError | None:
    """Return the error that came when everything was done, if one did."""
    if _LATE not in done.documents:
        return None
    return QuotaformError(*"".join(done.documents[_LATE]()).split("\n"))


StoredPlan = StoredResult[PlanDigest]
"""A plan whose plan file is the document `json`."""
StoredReceipt = StoredResult[ReceiptDigest]
Outcome = ClusterOutcome[Applied[StoredReceipt]]

_AT_ONCE: Final = 100
"""How many clusters are applied by one job, whose results come to the driver when all of it is done."""


def store_plan(plan: Plan, store: DocumentStore) -> StoredPlan:
    """Put a plan on the driver's disk: what is left in memory does not grow with its entities."""
    for part in compressed(plan_lines(plan)):
        store.add("json", part)
    documents = store.take()
    stored = StoredResult(plan.digest, documents)
    documents["text"] = lambda: render("plan", "text", load_stored(stored))
    return stored


def _nothing(*arguments: object) -> None:
    """Do nothing with what was applied."""


def apply_plans(
    repository: Repository,
    plans: Sequence[ClusterPlan[StoredPlan]],
    documents: Sequence[Document],
    *,
    receipts: Mapping[str, Path] | None = None,
    audit: AuditFile | None = None,
    show: Callable[[Cluster, Applied[StoredReceipt]], None] = _nothing,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[Outcome]:
    """Apply plans on Spark; a failure on one cluster does not keep the others from being applied.

    The arguments are those of `quotaform.apply.run.apply_plans`, with what to render of each receipt, `json` among it.

    Yields one outcome per cluster, in order; that of a cluster of which nobody knows is an `ApplyLostError`. After an
    interrupt, or when Spark has failed, no further job is started.

    Raises `UsageError` or `QuotaformError` if a receipt could not be written, `EngineError` if Spark is missing or does
    not start (nothing was written), and `KeyboardInterrupt` if it came before an outcome was known, or after the last
    that is yielded.
    """
    ledger = Ledger(repository, plans, receipts, audit)
    with TemporaryDirectory(prefix="quotaform-") as folder, spark_session(session, progress) as spark:
        bundle = new_bundle(folder)
        job = ApplyJob(
            clusters=[each.cluster for each in plans],
            plans=[BundledPlan(bundle.add(_content(each.plan)), each.digest.plan_id) for each in plans],
            paths=[ledger.path(each.cluster) for each in plans],
            bundle=bundle,
            home=str(bundle.path),
            documents=tuple(documents),
            applier=Applier.current(),
            auditor=ledger.audit.auditor if ledger.audit.is_kept else None,
            clock=clock,
        )
        shipped = ship_job(spark, bundle, job)
        end, is_lost = 0, False
        while end < len(plans) and not is_lost:
            with _Part(plans, places := _together(plans, end), ledger, show, progress) as part:
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
    """The clusters of one job."""

    plans: Sequence[ClusterPlan[StoredPlan]]
    places: range
    ledger: Ledger
    show: Callable[[Cluster, Applied[StoredReceipt]], None]
    progress: Progress
    is_lost: bool = False  # Whether Spark failed, so that no other job is to be started
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
        each = self.plans[place]
        try:
            with ExitStack() as stack:
                stack.enter_context(self.ledger.entered(each))
                if not each.digest.is_applyable:
                    require_applyable(load_stored(each.plan))
                self._entered[place] = stack.pop_all()
        except QuotaformError as error:
            self._refused[place] = error

    def outcomes(self, job: ShippedJob) -> Iterator[Outcome]:
        """Run the job, and yield one outcome per cluster, in order."""
        found: dict[int, ClusterOutcome[StoredReceipt]] = {}
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

    def _kept(self, place: int, outcome: ClusterOutcome[StoredReceipt] | None, why: str) -> Outcome:
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
                receipt = outcome.require()
                applied = self.ledger.keep_as(cluster, receipt, partial(_written, receipt), audit_lines(receipt))
        except QuotaformError as error:
            return ClusterOutcome(cluster.name, error=error)
        if (late := late_error(receipt)) is not None:
            applied = replace(applied, late=(*applied.late, late))
        return ClusterOutcome(cluster.name, applied)

    def _show(self, outcomes: Sequence[Outcome]) -> None:
        for place, outcome in zip(self.places, outcomes, strict=True):
            if outcome.value is not None:
                self.show(self.plans[place].cluster, outcome.value)

    def _receipt(self, cluster: Cluster) -> str | None:
        """Return where the task of a lost cluster has left a receipt, if it has."""
        path = self.ledger.path(cluster)
        return str(path) if path.is_file() else None


def _written(receipt: StoredReceipt, path: Path, is_started: bool) -> Path:
    """Write a receipt, unless the task has; return where it is."""
    return saved_path(receipt) or write_receipt_lines(path, receipt.documents["json"], is_started=is_started)


def _content(plan: StoredPlan) -> bytes:
    return "".join(plan.documents["json"]()).encode(errors="surrogatepass")


def load_stored(plan: StoredPlan) -> Plan:
    """Return a plan that was made on Spark, of its document `json`."""
    return load_plan(_content(plan), f"the plan of {plan.digest.cluster_name}")
