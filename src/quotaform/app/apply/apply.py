"""Applying a plan to a live cluster, step by step.

The order is the contract: the plan is checked against the cluster, the broker checks every change without
making it, the cluster is checked once more, a started receipt is written, then the changes are sent once and read back
until they hold. Nothing is rolled back.

Kafka has no compare-and-set: a change by somebody else that comes after the last check and before the write is
overwritten, and nobody can tell. One that comes later is found when the changes are read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from quotaform.app.actual import SETTLE_SECONDS, is_same
from quotaform.app.apply.run import ApplyRun
from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp, today
from quotaform.app.each_cluster import Connect
from quotaform.app.rendering import digest_of
from quotaform.app.repository.gateway import open_gateway, require_pinned
from quotaform.app.run import Applier
from quotaform.cluster.error_code import asking_for_alter
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.change import Action
from quotaform.core.check import rule
from quotaform.core.entity_change import EntityChange
from quotaform.core.freshness import Freshness, check_fresh, require_cluster, require_fresh
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.core.receipt import Receipt
from quotaform.errors import (
    AuthorizationError,
    ClusterError,
    PlanBlockedError,
    QuotaformError,
    RefusedError,
)
from quotaform.interrupt import held_signals, signal_name
from quotaform.model.alteration import CLUSTER_AUTHORIZATION_FAILED, Outcome
from quotaform.model.approval import MOST_DAYS
from quotaform.model.entity import spell_name

if TYPE_CHECKING:
    from quotaform.core.digest import PlanDigest
    from quotaform.desired.config import Cluster

P = TypeVar("P")

_SETTLE_PAUSE = 0.25


class ClusterPlan(NamedTuple, Generic[P]):
    """A plan, as it is or as a `StoredResult`, and the cluster to apply it to."""

    cluster: Cluster
    plan: P

    @property
    def digest(self) -> PlanDigest:
        """What the plan amounts to."""
        made: PlanDigest = digest_of(self.plan)
        return made


def _nothing(*arguments: object) -> None:
    """Do nothing with a receipt or an error."""


def nothing_around(cluster: Cluster, plan: PlanDigest) -> AbstractContextManager[None]:
    """Do nothing before and after an apply."""
    return nullcontext()


def apply_plans(
    plans: Sequence[ClusterPlan[Plan]],
    keep: Callable[[Cluster, Receipt], None],
    show: Callable[[Cluster, Receipt], None] = _nothing,
    *,
    start: Callable[[Cluster, Receipt], None] = _nothing,
    around: Callable[[Cluster, PlanDigest], AbstractContextManager[None]] = nothing_around,
    report_late: Callable[[Cluster, QuotaformError], None] = _nothing,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
    applier: Applier | None = None,
) -> Iterator[ClusterOutcome[Receipt]]:
    """Apply plans one after the other; a failure on one cluster does not keep the others from being applied.

    After an interrupt nothing more is sent to any cluster.

    Args:
        plans: What to apply, at most one plan per cluster.
        keep: Called with each receipt, to save it, before anything can interrupt it.
        show: Called with each receipt that was kept, to show it; a second interrupt ends it.
        start: Called with the started receipt before the first change is sent to a cluster, to save it; if it raises,
            nothing is sent to the cluster.
        around: Returns what is entered before a cluster is connected to and left when it is done; if that
            raises, nothing is sent to the cluster.
        report_late: Called with an error that came when everything was done, as one of closing the connection; the
            receipt is the outcome all the same.
        applier: Who applies them; by default the user who runs this process.

    Yields:
        One outcome per cluster that was attempted.

    Raises:
        KeyboardInterrupt: It came before anything was sent to the cluster whose turn it was.
    """
    for cluster, plan in plans:
        kept: list[Receipt] = []

        def keep_one(receipt: Receipt, cluster: Cluster = cluster, kept: list[Receipt] = kept) -> None:
            kept.append(receipt)
            keep(cluster, receipt)

        try:
            with around(cluster, digest_of(plan)), _connected(cluster, plan, connect) as gateway:
                apply_plan(
                    plan,
                    gateway,
                    progress,
                    pinned_id=cluster.cluster_id,
                    clock=clock,
                    start=partial(start, cluster),
                    keep=keep_one,
                    show=partial(show, cluster),
                    applier=applier,
                )
        except QuotaformError as error:
            if not kept:
                yield ClusterOutcome(cluster.name, error=error)
                continue
            report_late(cluster, error)
        except KeyboardInterrupt as interrupt:
            if not kept:
                raise
            # It came when all was done.
            kept[0] = replace(kept[0], interrupted_by=kept[0].interrupted_by or signal_name(interrupt))
        yield ClusterOutcome(cluster.name, kept[0])
        if kept[0].interruption is not None:
            break


def _connected(cluster: Cluster, plan: Plan, connect: Connect) -> Gateway:
    require_applyable(plan)
    return connect(cluster)


def check_plans(
    plans: Iterable[ClusterPlan[Plan]],
    *,
    around: Callable[[Cluster, PlanDigest], AbstractContextManager[None]] = nothing_around,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> Iterator[ClusterOutcome[Freshness]]:
    """Do for each plan what an apply does before its first change, one after the other; yield what would follow.

    The arguments are those of `apply_plans`.
    """
    for cluster, plan in plans:
        try:
            with around(cluster, digest_of(plan)), _connected(cluster, plan, connect) as gateway:
                checked = check_plan(plan, gateway, progress, pinned_id=cluster.cluster_id, clock=clock)
        except QuotaformError as error:
            yield ClusterOutcome(cluster.name, error=error)
        else:
            yield ClusterOutcome(cluster.name, checked)


def apply_plan(
    plan: Plan,
    gateway: Gateway,
    progress: Progress = no_progress,
    *,
    pinned_id: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
    start: Callable[[Receipt], None] = _nothing,
    keep: Callable[[Receipt], None] = _nothing,
    show: Callable[[Receipt], None] = _nothing,
    applier: Applier | None = None,
) -> Receipt:
    """Apply a plan and say what became of every entity.

    Until the first change is sent, whatever is wrong raises and nothing was written. From then on there is a receipt,
    whatever happens: a lost connection, an interrupt, a mistake of our own. Signals are held back meanwhile, but where
    the cluster is waited for.

    Args:
        pinned_id: The id that quotaform.yaml pins the cluster to, if it does.
        start: Called with the started receipt before the first change is sent, to save it; its error ends the apply.
        keep: Called with the receipt, to save it; no signal interrupts it.
        show: Called with it afterwards; a second signal interrupts it.
        applier: Who applies it; by default the user who runs this process.

    Raises:
        BlockedError: Something in the plan blocks it.
        StaleError: The cluster is another one, or no longer holds what the plan says.
        RefusedError: The broker's dry run refused entities.
        ClusterError: The cluster could not be read or did not answer the dry run.
        KeyboardInterrupt: Before anything was sent; or a signal came when the receipt was made already, and it was
            kept.
    """
    at = timestamp(clock)
    applier = applier or Applier.current()
    freshness = check_plan(plan, gateway, progress, pinned_id=pinned_id, clock=clock)
    applied = {change.entity for change in freshness.applied}
    receipt = Receipt.started(plan, applied=applied, applied_by=applier.name, at=at, run=applier.run)
    pending = sorted(freshness.pending, key=lambda change: change.action is Action.DELETE)
    with held_signals(holds_all=True) as signals:
        if pending:
            start(receipt)
        run = ApplyRun(gateway, progress, freshness.applied, clock, signals)
        interrupted_by, internal_error = run.apply(pending)
        receipt = replace(
            receipt,
            results=tuple(run.result_of(change) for change in plan.changes),
            finished_at=timestamp(clock),
            interrupted_by=interrupted_by,
            internal_error=internal_error,
            is_started=False,
        )
        keep(receipt)
        signals.let_second_through()
        show(receipt)
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

    Returns:
        What is left to send, and what the cluster holds already.

    Raises:
        BlockedError: Something in the plan blocks it.
        StaleError: The cluster is another one, or no longer holds what the plan says.
        RefusedError: The broker's dry run refused entities.
        ClusterError: The cluster could not be read or did not answer the dry run.
    """
    require_applyable(plan)
    _require_valid_approvals(plan, today(clock))
    require_cluster(plan, gateway.cluster_id())
    require_pinned(plan.header.cluster_name, pinned_id, gateway.cluster_id())
    progress(f"Reading quotas of {spell_name(gateway.name)}", 0, 0)
    try:
        freshness = _read_fresh(plan.changes, gateway, clock)
    except AuthorizationError as error:
        raise asking_for_alter(error) from None
    if freshness.pending:
        _require_accepted(freshness.pending, gateway, progress)
        # A dry run takes its time, and others may have changed something meanwhile.
        freshness = _read_fresh(plan.changes, gateway, clock)
    return freshness


def require_applyable(plan: Plan) -> None:
    """Raise `PlanBlockedError` if something blocks a plan."""
    blocking = [finding for finding in plan.findings if finding.blocking]
    if blocking:
        raise PlanBlockedError(plan.header.cluster_name, blocking, approvable=rule.APPROVABLE)


def _require_valid_approvals(plan: Plan, today: date) -> None:
    """Make sure that the approvals which a plan depends on are valid today; a plan file may be old, or edited.

    Raises `PlanBlockedError` if one has expired, or could not have been given.
    """
    expired = [
        rule.EXPIRED_APPROVAL.finding(
            f"the plan depends on an approval of {each.rule} for {each.target} that expires on {each.expires}, "
            f"and today is {today} (at most {MOST_DAYS} days ahead); ask for a new one, and make a new plan"
        )
        for each in plan.approvals
        if not today < each.expires <= today + timedelta(MOST_DAYS)
    ]
    if expired:
        raise PlanBlockedError(plan.header.cluster_name, expired)


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
    require_fresh(freshness)
    return freshness


def _require_accepted(changes: tuple[EntityChange, ...], gateway: Gateway, progress: Progress) -> None:
    """Let the broker check every change and make none.

    Raises `RefusedError` if it refuses some; the message has a line for each of them, and `ClusterError` if it gave no
    usable answer.
    """
    result = gateway.alter([change.alteration() for change in changes], validate_only=True, progress=progress)
    refused = [row for row in result if row.outcome is Outcome.REFUSED]
    if refused:
        codes = {row.code for row in refused}
        if codes == {CLUSTER_AUTHORIZATION_FAILED}:
            result.raise_for_errors()
        raise RefusedError({row.entity: row.reason for row in refused}, len(changes))
    unanswered = [row for row in result if row.outcome is not Outcome.OK]
    if unanswered:
        raise ClusterError(
            f"the broker did not answer the dry run of {len(unanswered)} entities ({unanswered[0].reason}); "
            "nothing was written: try again"
        )
