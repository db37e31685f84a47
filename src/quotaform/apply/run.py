"""Applying a plan to a live cluster, step by step.

The order is the contract: the plan is checked against the cluster, the broker checks every change without
making it, the cluster is checked once more, a started receipt is written, then the changes are sent once and read back
until they hold. Nothing is rolled back.

Kafka has no compare-and-set: a change by somebody else that comes after the last check and before the write is
overwritten, and cannot be detected. One that comes later is found when the changes are read back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from quotaform.apply.audit import Applier, AuditFile
from quotaform.apply.freshness import Freshness, check_fresh, require_fresh
from quotaform.apply.ledger import Applied, ClusterPlan, ReceiptKeeper, cluster_lock, receipt_keepers, show_nothing
from quotaform.apply.write import ChangeWriter
from quotaform.cluster.broker import with_alter_remedy
from quotaform.cluster.gateway import SETTLE_SECONDS, Gateway, is_same
from quotaform.model import rule
from quotaform.model.alteration import CLUSTER_AUTHORIZATION_FAILED, Outcome
from quotaform.model.entity import spell_name
from quotaform.model.errors import (
    NEW_PLAN,
    ArgumentError,
    AuthorizationError,
    BlockedError,
    ClusterError,
    NotApprovedError,
    NotReadError,
    PlanBlockedError,
    PlanIdError,
    QuotaformError,
    StaleError,
    UsageError,
    first_lines,
)
from quotaform.model.finding import APPROVALS_NAME, MOST_DAYS, Allowance, Finding
from quotaform.model.moment import duration_text
from quotaform.model.outcome import ClusterOutcome, Kept, Progress, loaded, no_progress
from quotaform.model.quotas import Action, Cause
from quotaform.model.text import listed, quote, require_items
from quotaform.plan.plan import EntityChange, Plan
from quotaform.plan.receipt import EntityResult, Receipt, Result
from quotaform.plan.receipt_file import load_plan_file
from quotaform.report.finding import FEW, render_findings
from quotaform.report.text import counted
from quotaform.repository.gateway import Connect, open_gateway, require_pinned
from quotaform.repository.repository import Repository
from quotaform.system.clock import SYSTEM_CLOCK, Clock, timestamp, today
from quotaform.system.process import held_signals, signal_name

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

_SETTLE_PAUSE = 0.25
_ID: Final = regex(r"(?:sha256:)?[0-9a-f]{64}").fullmatch


def read_plans(
    repository: Repository,
    plans: Iterable[Plan | Path],
    choose: Callable[[Path, str], Cluster | None] | None = None,
    *,
    max_age: timedelta | None = None,
    keep: Callable[[Plan], Any] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[list[ClusterPlan[Any]], list[QuotaformError]]:
    """Return plans with their clusters, and why they must not be applied, which `require_approved` raises.

    `choose` returns the cluster of a plan, given the file and what the plan calls it, or `None` to leave the plan out;
    without it, that is the one of quotaform.yaml. `keep` returns a plan as it is kept.

    Raises `UsageError`, and `SavedFileError` if a plan cannot be read.
    """
    found: dict[str, ClusterPlan[Any]] = {}
    problems: list[QuotaformError] = []
    for given in require_items(plans, (Plan, Path), "plans", "plans and pathlib.Paths of saved ones"):
        plan = load_plan_file(given) if isinstance(given, Path) else given
        name = plan.header.cluster.name
        if choose is None or not isinstance(given, Path):
            cluster = repository.config().clusters.get(name)
            if cluster is None:
                raise UsageError(
                    f"{repository.config_path} has no cluster {spell_name(name)}, for which a plan is; add it, with its"
                    " bootstrap_servers"
                )
            if cluster.snapshot is not None:
                problem = "is a snapshot file, which can be planned but not applied"
                raise UsageError(f"cluster {spell_name(name)} {problem}")
        else:
            cluster = choose(given, name)
        if cluster is None:
            continue
        if cluster.name in found:
            place = f"{given}: another plan is also" if isinstance(given, Path) else "two plans are"
            raise UsageError(f"{place} for cluster {spell_name(name)}; give one of them")
        found[cluster.name] = ClusterPlan(cluster, plan if keep is None else keep(plan))
        try:
            require_recent(plan, max_age, clock)
            if isinstance(given, Path):
                require_guards(plan, repository, clock)
        except QuotaformError as error:
            problems.append(error)
    return list(found.values()), problems


def read_plan_id(text: str) -> str:
    """Return the id of a plan; an empty one, of a variable that is not set, is refused. Raises `UsageError`."""
    if not _ID(text):
        problem = "{expect_plan_id}: {} is not a plan id; write sha256: and 64 hexadecimal digits"
        raise ArgumentError(problem, quote(text))
    return text


def require_plan_id(plan_id: str, expected: str | None) -> None:
    """Raise `PlanIdError` unless the id of a plan is that of the one which was approved elsewhere."""
    if expected is not None and plan_id.removeprefix("sha256:") != expected.removeprefix("sha256:"):
        raise PlanIdError(expected=expected, found=plan_id)


def require_guards(plan: Plan, repository: Repository, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a repository with a quotaform.yaml permits a plan: guards, approvals, scope and pruning.

    A plan file holds what it was made with, and its digests can be computed by anybody who writes one.

    Raises `StaleError` or `InvalidFilesError`.
    """
    if not os.path.lexists(repository.config_path):
        return
    config = repository.config()
    options = plan.header.options
    problems = [f"of the plan, {each}" for each in options.limits.looser_than(config.guard_limits)]
    if plan.approvals:
        held = repository.approvals(today(clock))
        problems.extend(
            f"{APPROVALS_NAME} does not hold the approval of {each.rule} for {each.target} ({each})"
            for each in plan.approvals
            if replace(each, new=None) not in held
        )
    outside = [change.entity.address for change in plan.changes if not config.scope.contains(change.entity)]
    if outside and Allowance(rule.REVERT_UNMANAGED.id) not in plan.allowances:
        problems.append(f"the plan changes {listed(outside, 5)}, out of scope")
    undeclared = sum(change.cause is Cause.UNDECLARED for change in plan.changes)
    if undeclared and options.prune.deletes_more_than(config.prune) and not options.is_prune_given:
        deleted = counted(undeclared, "undeclared entity")
        problems.append(f"the plan deletes {deleted}: its prune is {options.prune}, not {config.prune}")
    if problems:
        raise StaleError(
            "the plan was checked with other guards than those of this repository, so nothing was written:",
            *first_lines(problems),
            NEW_PLAN,
        )


def require_recent(plan: Plan, longest: timedelta | None, clock: Clock = SYSTEM_CLOCK) -> None:
    """Make sure that a plan is not older than allowed.

    `longest` is how old it may be; `None` for any age. Raises `StaleError` if it is older, or was made more than five
    minutes in the future, so that its age is not known.
    """
    if longest is None:
        return
    created_at = plan.header.created_at
    age: timedelta | None = None
    with suppress(ValueError):
        age = clock.now() - datetime.strptime(created_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    if age is None:
        problem = "which is not a time"
    elif age < -timedelta(minutes=5):  # The clocks of two machines differ.
        problem = f"which is {duration_text(-age)} in the future: check the clocks"
    elif age > longest:
        problem = f"{duration_text(age)} ago, and may be {duration_text(longest)} old at most"
    else:
        return
    raise StaleError(f"the plan was made at {created_at}, {problem}; nothing was written: make a new plan")


def require_approved(
    plans: Sequence[ClusterPlan[Any]],
    audit: AuditFile,
    problems: Sequence[QuotaformError] = (),
    *,
    expect_plan_id: str | None = None,
    approve: Callable[[Sequence[ClusterPlan[Any]]], bool | None] | None = None,
) -> None:
    """Make sure that plans are what was approved; that one is refused is noted in the audit log.

    `problems` are why saved ones must not be applied. `approve` is called with the plans that would change something;
    it refuses them by a `NotApprovedError`, or by returning anything but `None` and `True`.

    Raises `NotApprovedError`, `UsageError` if there is an expected id and not one plan, or `PlanIdError`.
    """
    with audit.refusals([each.plan for each in plans]):
        if expect_plan_id is not None:
            if len(plans) != 1:
                raise ArgumentError("{expect_plan_id}: it is the id of one plan; apply the clusters one by one")
            require_plan_id(plans[0].digest.plan_id, expect_plan_id)
        for problem in problems:
            raise problem
        changing = [each for each in plans if each.is_written]
        if approve is not None and approve(changing) not in (None, True):
            raise NotApprovedError


def apply_plans(
    repository: Repository,
    plans: Sequence[ClusterPlan[Plan]],
    *,
    receipts: Mapping[str, Path] | None = None,
    audit: AuditFile | None = None,
    show: Callable[[Cluster, Applied[Receipt]], None] = show_nothing,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Applied[Receipt]]]:
    """Apply plans one after the other; a failure on one cluster does not keep the others from being applied.

    Each cluster is locked meanwhile, its receipt is written before the first change is sent and when all is done, and
    the audit log says that it began and how it ended. After an interrupt nothing more is sent to any cluster.

    `plans` has at most one plan per cluster. `show` is called with what was done once it is on record, with signals
    held back; a second one ends it.

    Raises `UsageError` or `QuotaformError` if a receipt could not be written (see `receipt_keepers`), and
    `KeyboardInterrupt` if it came before anything was sent to the cluster whose turn it was.
    """
    keepers = receipt_keepers(repository, plans, receipts, audit, show)
    is_interrupted = False
    for each in plans:
        name = each.cluster.name
        if is_interrupted:
            yield ClusterOutcome(name, error=NotReadError("not applied: the run was interrupted"))
            continue
        make = partial(apply_cluster, each, keepers[name], clock=clock, progress=progress, connect=connect)
        outcome = ClusterOutcome.of(name, make)
        yield outcome
        is_interrupted = outcome.value is not None and outcome.value.receipt.interrupted_by is not None


def apply_cluster(
    each: ClusterPlan[Plan],
    keeper: ReceiptKeeper,
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
    applier: Applier | None = None,
) -> Applied[Receipt]:
    """Connect to a cluster and apply its plan; return what was done.

    What `keeper` enters is held from before the connection is made until it is closed.

    Raises as `apply_plan` does, and only if nothing was sent.
    """
    interrupted_by: str | None = None
    late: tuple[QuotaformError, ...] = ()
    try:
        with keeper.entered(each):
            require_applyable(each.plan)
            with connect(each.cluster) as gateway:
                pinned_id = each.cluster.cluster_id
                apply_plan(
                    each.plan, gateway, progress, pinned_id=pinned_id, clock=clock, keeper=keeper, applier=applier
                )
    except QuotaformError as error:
        if keeper.done is None:
            raise
        late = (error,)
    except KeyboardInterrupt as interrupt:
        if keeper.done is None:
            raise
        interrupted_by = signal_name(interrupt)  # It came when all was done.
    done = keeper.done
    if done is None:
        raise AssertionError("an apply that does not raise has a receipt")
    receipt = replace(done.receipt, interrupted_by=done.receipt.interrupted_by or interrupted_by)
    return replace(done, receipt=receipt, late=done.late + late)


def check_plans(
    repository: Repository,
    plans: Sequence[ClusterPlan[Plan | Kept[Plan]]],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Freshness]]:
    """Do for each plan what an apply does before its first change, one after the other; yield what would follow.

    Raises `QuotaformError` if an apply could keep no receipt.
    """

    def check(each: ClusterPlan[Any], plan: Plan) -> Freshness:
        cluster = each.cluster
        if each.is_written:
            with cluster_lock(repository.config_path.parent, cluster.name, each.digest.cluster_id, is_made=False):
                pass  # It is not held, so that a dry run keeps no apply from running.
        require_applyable(plan)
        with connect(cluster) as gateway:
            return check_plan(plan, gateway, progress, pinned_id=cluster.cluster_id, clock=clock)

    receipt_keepers(repository, plans, makes_folders=False)
    yield from (ClusterOutcome.of(each.cluster.name, partial(check, each, loaded(each.plan))) for each in plans)


def apply_plan(
    plan: Plan,
    gateway: Gateway,
    progress: Progress = no_progress,
    *,
    pinned_id: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
    keeper: ReceiptKeeper | None = None,
    applier: Applier | None = None,
) -> Receipt:
    """Apply a plan and say what became of every entity.

    Until the first change is sent, whatever is wrong raises and nothing was written. From then on there is a receipt,
    whatever happens: a lost connection, an interrupt, an internal error. Signals are held back meanwhile, but where
    the cluster is waited for.

    `keeper` saves the started receipt before the first change is sent, which may end the apply, then that of what was
    done, which no signal interrupts, and shows it, which a second signal interrupts. `applier` is by default the user
    who runs this process.

    Raises as `check_plan` does, and `KeyboardInterrupt` before anything was sent, or when the receipt was kept.
    """
    at = timestamp(clock)
    applier, keeper = applier or Applier.current(), keeper or ReceiptKeeper(None)
    freshness = check_plan(plan, gateway, progress, pinned_id=pinned_id, clock=clock)
    applied = {change.entity for change in freshness.applied}
    planned = [
        EntityResult.of(each, Result.ALREADY_APPLIED if each.entity in applied else Result.UNKNOWN)
        for each in plan.changes
    ]
    receipt = Receipt(
        plan=plan,
        results=tuple(planned),
        applied_by=applier.name,
        started_at=at,
        finished_at=at,
        run=applier.run,
        is_started=True,
    )
    pending = sorted(freshness.pending, key=lambda change: change.action is Action.DELETE)
    with held_signals(holds_all=True) as signals:
        if pending:
            keeper.start(receipt)
        run = ChangeWriter(gateway, progress, freshness.applied, clock, signals)
        interrupted_by, internal_error = run.apply(pending)
        receipt = replace(
            receipt,
            results=tuple(map(run.result_of, planned)),
            finished_at=timestamp(clock),
            interrupted_by=interrupted_by,
            internal_error=internal_error,
            is_started=False,
        )
        keeper.keep(receipt)
        signals.let_second_through()
        keeper.show()
    return receipt


def check_plan(
    plan: Plan,
    gateway: Gateway,
    progress: Progress = no_progress,
    *,
    pinned_id: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Freshness:
    """Do everything that comes before the first change is sent, which is all of a dry run.

    Returns what is left to send, and what the cluster holds already.

    Raises `BlockedError` if something in the plan blocks it, or the broker's dry run refused entities; `StaleError` if
    the cluster is another one, or no longer holds what the plan says; `ClusterError` if the cluster could not be read
    or did not answer the dry run.
    """
    require_applyable(plan)
    day = today(clock)
    # A plan file may be old, or edited.
    expired = [
        rule.EXPIRED_APPROVAL.finding(
            f"the plan depends on an approval of {each.rule} for {each.target} that expires on {each.expires}, "
            f"and today is {day} (at most {MOST_DAYS} days ahead); ask for a new one, and make a new plan"
        )
        for each in plan.approvals
        if not day < each.expires <= day + timedelta(MOST_DAYS)
    ]
    if expired:
        raise _blocked(expired)
    plan.require_cluster(gateway.cluster_id())
    require_pinned(plan.header.cluster.name, pinned_id, gateway.cluster_id())
    progress(f"Reading quotas of {spell_name(gateway.name)}", 0, 0)
    try:
        freshness = _read_fresh(plan.changes, gateway, clock)
    except AuthorizationError as error:
        raise with_alter_remedy(error) from None
    if freshness.pending:
        _require_accepted(freshness.pending, gateway, progress)
        # A dry run takes its time, and others may have changed something meanwhile.
        freshness = _read_fresh(plan.changes, gateway, clock)
    return freshness


def require_applyable(plan: Plan) -> None:
    """Raise `PlanBlockedError` if something blocks a plan."""
    blocking = [finding for finding in plan.findings if finding.blocking]
    if blocking:
        raise _blocked(blocking)


def _blocked(findings: Sequence[Finding]) -> PlanBlockedError:
    listed = "quotaform plan, or quotaform show of a saved one"
    _, *lines = render_findings(findings, most=FEW, most_others=FEW, listed=listed)
    return PlanBlockedError(findings, lines)


def _read_fresh(changes: tuple[EntityChange, ...], gateway: Gateway, clock: Clock) -> Freshness:
    """Read the touched entities; a read that contradicts the plan counts only when a later one agrees with it.

    A broker shows an acknowledged change late, so that one read alone may show a state that is gone.
    """
    entities = [change.entity for change in changes]
    actual = gateway.describe_entities(entities)
    freshness = check_fresh(changes, actual)
    deadline = clock.monotonic() + SETTLE_SECONDS
    while freshness.stale and clock.monotonic() < deadline:
        clock.sleep(_SETTLE_PAUSE)
        again = gateway.describe_entities(entities)
        settled = is_same(actual, again)
        actual, freshness = again, check_fresh(changes, again)
        if settled:
            break
    require_fresh(freshness, actual)
    return freshness


def _require_accepted(changes: tuple[EntityChange, ...], gateway: Gateway, progress: Progress) -> None:
    """Let the broker check every change and make none.

    Raises `BlockedError` if it refuses some; the message has a line for each of them, and `ClusterError` if it gave no
    usable answer.
    """
    result = gateway.alter([change.alteration() for change in changes], validate_only=True, progress=progress)
    refused = [row for row in result if row.outcome is Outcome.REFUSED]
    if refused:
        if {row.code for row in refused} == {CLUSTER_AUTHORIZATION_FAILED}:
            result.raise_for_errors()
        raise BlockedError(
            f"the broker would reject {len(refused):,} of {len(changes):,} entities, so nothing was written:",
            *first_lines([f"{row.entity.address}: {row.reason}" for row in refused]),
        )
    unanswered = [row for row in result if row.outcome is not Outcome.OK]
    if unanswered:
        raise ClusterError(
            f"the broker did not answer the dry run of {len(unanswered)} entities ({unanswered[0].reason}); "
            "nothing was written: try again"
        )
