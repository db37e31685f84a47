"""Planning, comparing, reading and applying clusters on Spark, a cluster in each task.

The driver reads the files, and lists of commits, into a `Bundle`; an executor parses the files of the cluster that it
plans, and those that all clusters have in common once.

Spark may run a task that applies a plan more than once, also while another attempt still runs. That does no harm, as
docs/spark.md explains: every attempt reads the entities of the plan first, and an alteration sets values and does not
add to them. A task writes its receipts at once where it sees the driver's folders; elsewhere the driver writes them as
soon as the task has ended. The driver holds the locks, not the tasks: else a task that Spark has given up, and that
still runs, would keep the next attempt out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from quotaform.apply.audit import Applier, AuditFile
from quotaform.apply.ledger import Applied, ClusterPlan, ReceiptKeeper, receipt_keepers, show_nothing
from quotaform.apply.run import apply_cluster, require_applyable, require_plan_id
from quotaform.desired.loader import LoadedFiles
from quotaform.fleet.job import (
    Bundle,
    BundledFiles,
    ShippedJob,
    in_few_tasks,
    kept_rows,
    opened_bundle,
    run_job,
    ship_job,
    work_on,
)
from quotaform.fleet.options import LOCAL_SESSION, SessionOptions
from quotaform.fleet.principals import load_principals
from quotaform.fleet.session import spark_session
from quotaform.fleet.table import located
from quotaform.model.errors import ApplyLostError, ClusterError, EngineError, QuotaformError
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, loaded, no_progress
from quotaform.model.quotas import Snapshot
from quotaform.plan.blast_radius import RadiusCounts, changed_values, count_changes
from quotaform.plan.digest import FleetStatus
from quotaform.plan.plan import Plan
from quotaform.plan.principals import PrincipalList
from quotaform.plan.receipt import Receipt
from quotaform.plan.run import PlanRequest, plan_cluster, read_plan_source, with_same_clusters
from quotaform.plan.source import Source
from quotaform.plan.spark import blast_radius, cluster_radii, distinct_principals
from quotaform.repository.gateway import open_gateway, open_pinned_gateway
from quotaform.repository.repository import Repository
from quotaform.repository.run import snapshot_of
from quotaform.resolve.spark import CLUSTER, packed, unpacked
from quotaform.system.clock import SYSTEM_CLOCK, Clock, today
from quotaform.system.process import held_signals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quotaform.desired.config import Cluster


def plan(
    request: PlanRequest,
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    warn: Callable[[str], None] = lambda _: None,
    make: Callable[..., Any] = plan_cluster,
) -> list[ClusterOutcome[Any]]:
    """Plan clusters on Spark, or do as `make` does with each of them; see `quotaform.plan.run.plan`.

    `warn` is called with what is odd about a table of principals. Raises `EngineError`, `InvalidFilesError` or
    `BaseError`.
    """
    with opened_bundle(session, progress) as (spark, bundle):
        progress("Reading files", 0, 0)
        repository = structs.replace(request.repository, keep=partial(BundledFiles, bundle))
        files = repository.load(request.config, today(clock), may_be_empty=request.is_guarded)
        source = read_plan_source(structs.replace(request, repository=repository), files, clock)
        work = partial(_made, request, files, source, clock, make)
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


def _made(
    request: PlanRequest, files: LoadedFiles, source: Source, clock: Clock, make: Callable[..., Any], cluster: Cluster
) -> Any:
    """Return what is made of a cluster, and release the files that only it has."""
    try:
        desired = files.desired(cluster.name, request.policies.problems)
        with open_gateway(cluster) as gateway:
            return make(request, cluster, gateway, desired, source, clock=clock)
    finally:
        files.release(cluster.name)
        if source.bases is not None:
            source.bases.release(cluster.name)


def _with_radii(
    outcomes: Sequence[ClusterOutcome[Kept[Plan]]], listed: PrincipalList, read: DataFrame, count: int
) -> list[ClusterOutcome[Kept[Plan]]]:
    """Return plans with whose limits they change, of a table of principals of which no process has all rows."""
    # One plan at a time is in memory.
    changed: dict[str | None, bytes] = {}
    for outcome in outcomes:
        if outcome.error is None and (kept := outcome.require()).digest.row.differences:
            made = kept.load()
            changed[outcome.cluster] = packed((made.actual or {}, changed_values(made.changes)))
    distinct = in_few_tasks(distinct_principals(read), count)
    with kept_rows(distinct) as principals:
        if listed.folder is not None:
            blast_radius(principals, changed).write.parquet(located(listed.folder))
        found = cluster_radii(principals, changed)
        if CLUSTER in principals.columns:
            totals = {row[CLUSTER]: row["count"] for row in principals.groupBy(CLUSTER).count().collect()}
        else:
            totals = dict.fromkeys((outcome.cluster for outcome in outcomes), principals.count())

    def with_radius(name: str, made: Kept[Plan]) -> Kept[Plan]:
        """Add what was found to a plan, and its counts to the digest of the plan."""
        radius = structs.replace(
            found.get(name) or count_changes("", ()),
            source=listed.table or "",
            principals=totals.get(name, 0),
            file=listed.folder,
        )
        row = structs.replace(made.digest.row, blast_radius=RadiusCounts.sum([radius]))
        digest = structs.replace(made.digest, row=row)
        return Kept(digest, lambda: replace(made.load(), actual=None, blast_radius=radius))

    return [outcome.map(partial(with_radius, outcome.cluster)) for outcome in outcomes]


def take_snapshots(
    clusters: Sequence[Cluster],
    *,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> list[ClusterOutcome[Kept[Snapshot]]]:
    """Read on Spark what clusters hold; see `quotaform.api.snapshot`. Raises `EngineError` if Spark cannot be used."""
    with opened_bundle(session, progress) as (spark, bundle):
        return work_on(spark, bundle, partial(_snapshot, clock), clusters, "Reading", progress)


def _snapshot(clock: Clock, cluster: Cluster) -> Snapshot:
    with open_pinned_gateway(cluster) as gateway:
        return snapshot_of(cluster, gateway, clock=clock)


class PlanToApply(Struct, frozen=True, kw_only=True):
    """The plan of one cluster."""

    file: str  # By which the bundle finds it
    plan_id: str  # The id of the plan that was shown or approved
    receipt: Path | None  # Where its receipt goes, seen from the driver


def apply_one(
    cluster: Cluster, *, plans: Mapping[str, PlanToApply], bundle: Bundle, home: str, applier: Applier, clock: Clock
) -> Applied[Receipt]:
    """Apply the plan of a cluster, and write the receipt where the driver's folders are seen.

    The started one is written before the first change is sent: it is there even if the driver is lost. A second attempt
    writes one of its own. `home`: the path of the bundle on the driver: who sees it there sees its folders, too.
    """
    own, path = plans[cluster.name], plans[cluster.name].receipt
    # Its id is that of its content, and not the one that it was sent with.
    plan: Plan = replace(unpacked(bundle.read(own.file)))
    require_plan_id(plan.plan_id, own.plan_id)
    # A pipe and `/dev/stdout` are those of the driver, which writes also what cannot be saved here.
    is_here = path is not None and Path(home).exists() and (path.is_file() or not path.exists())
    keeper = ReceiptKeeper(path if is_here and path and os.access(path.parent, os.W_OK) else None)
    return apply_cluster(ClusterPlan(cluster, plan), keeper, clock=clock, applier=applier)


ApplyOutcome = ClusterOutcome[Applied[Kept[Receipt]]]
AnyPlan = ClusterPlan[Plan | Kept[Plan]]
Show = Callable[["Cluster", Applied[Kept[Receipt]]], None]

_AT_ONCE: Final = 100
"""How many clusters one job applies: their locks are open files of the driver."""


def apply_plans(
    repository: Repository,
    plans: Sequence[AnyPlan],
    *,
    receipts: Mapping[str, Path] | None = None,
    audit: AuditFile | None = None,
    show: Show = show_nothing,
    session: SessionOptions = LOCAL_SESSION,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
) -> Iterator[ApplyOutcome]:
    """Apply plans on Spark, and yield one outcome per cluster, in order; see `quotaform.apply.run.apply_plans`.

    That of a cluster whose result is lost is an `ApplyLostError`. After an interrupt, or when Spark has failed, no
    further job is started. Raises `QuotaformError` if a receipt could not be written, `EngineError` if Spark does not
    start (nothing was written), and `KeyboardInterrupt` before an outcome is known, or after the last one.
    """
    keepers = receipt_keepers(repository, plans, receipts, audit)
    with opened_bundle(session, progress) as (spark, bundle):
        own = {}
        for each in plans:
            name = each.cluster.name
            file = bundle.add(packed(loaded(each.plan)))
            own[name] = PlanToApply(file=file, plan_id=each.digest.plan_id, receipt=keepers[name].path)
        home, applier = str(bundle.path), Applier.current()
        work = partial(apply_one, plans=own, bundle=bundle, home=home, applier=applier, clock=clock)
        job = ship_job(spark, bundle, work, [each.cluster for each in plans])
        end, is_lost = 0, False
        while end < len(plans) and not is_lost:
            # Of plans for one live cluster, no two are in one job.
            begin, seen = end, set[str]()
            while end < min(begin + _AT_ONCE, len(plans)) and plans[end].digest.cluster_id not in seen:
                seen.add(plans[end].digest.cluster_id)
                end += 1
            is_lost = yield from _applied(job, plans, range(begin, end), keepers, show, progress)
        unsent = ClusterError(
            "not applied: Spark failed while others were applied", remedy="run the same command again"
        )
        yield from (ClusterOutcome(each.cluster.name, error=unsent) for each in plans[end:])


def _applied(
    job: ShippedJob,
    plans: Sequence[AnyPlan],
    places: range,
    keepers: Mapping[str, ReceiptKeeper],
    show: Show,
    progress: Progress,
) -> Generator[ApplyOutcome, None, bool]:
    """Apply the plans of some places in one job, and yield an outcome each, in order; return whether Spark failed."""
    entered: dict[int, ExitStack] = {}
    outcomes: dict[int, ApplyOutcome] = {}
    names = {plans[place].cluster.name: place for place in places}
    interrupt: KeyboardInterrupt | None = None
    is_lost, why = False, ""

    def report(what: str, done: int, _total: int) -> None:
        progress(what, places.start + done, len(plans))

    with ExitStack() as all_entered:
        for place in places:
            each = plans[place]
            try:
                with ExitStack() as stack:
                    stack.enter_context(keepers[each.cluster.name].entered(each))
                    if each.digest.row.status is FleetStatus.BLOCKED:
                        require_applyable(loaded(each.plan))
                    # It stays so until the outcome of the cluster is known.
                    entered[place] = all_entered.enter_context(stack.pop_all())
            except QuotaformError as error:
                outcomes[place] = ClusterOutcome(each.cluster.name, error=error)
        try:
            # Here Spark's errors become one that says what happened.
            with spark_session() as spark:
                for outcome in run_job(spark, job, "Applying plans on Spark", report, list(entered)) if entered else ():
                    place = names[outcome.cluster]
                    with held_signals(holds_all=True):
                        outcomes[place] = _kept(outcome, entered.pop(place), keepers[outcome.cluster])
        except EngineError as error:
            is_lost, why = True, str(error).partition(";")[0]
        except KeyboardInterrupt as came:
            interrupt, why = came, "the run was interrupted while executors were at work"
        for place in entered:
            name = plans[place].cluster.name
            path = keepers[name].path
            lost = ApplyLostError(why, str(path) if path is not None and path.is_file() else None)
            outcomes[place] = ClusterOutcome(name, error=lost)
    try:
        for place in places:
            if (done := outcomes[place].value) is not None:
                show(plans[place].cluster, done)
    except KeyboardInterrupt as came:
        interrupt = interrupt or came
    yield from (outcomes[place] for place in places)
    if interrupt is not None:
        raise interrupt
    return is_lost


def _kept(outcome: ClusterOutcome[Kept[Applied[Receipt]]], entered: ExitStack, keeper: ReceiptKeeper) -> ApplyOutcome:
    """Leave what is around a cluster, and return its outcome once its receipt is on record."""
    try:
        with entered:
            kept = outcome.require()
            done = kept.load()
            saved = done.path if done.path is not None and done.path.is_file() else None
            on_record = keeper.keep(done.receipt, saved)
    except QuotaformError as error:
        return ClusterOutcome(outcome.cluster, error=error)
    receipt = Kept(kept.digest, lambda: kept.load().receipt)
    late = (*on_record.late, *done.late)
    return ClusterOutcome(outcome.cluster, Applied(receipt, on_record.path, on_record.unsaved, late))
