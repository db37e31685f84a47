"""Applying a plan to a live cluster, step by step.

The order is the contract: the plan is checked against the cluster, the broker checks every change without
making it, then the changes are sent once and read back until they hold. Nothing is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from getpass import getuser
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from quotaform.app.actual import is_same
from quotaform.app.clock import SYSTEM_CLOCK, Clock, timestamp
from quotaform.app.each_cluster import Connect
from quotaform.app.repository import open_gateway, require_pinned
from quotaform.cluster.gateway import Gateway, Progress, no_progress
from quotaform.core.freshness import check_fresh, require_cluster, require_fresh
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import NO_VALUES, Action, EntityChange, Plan
from quotaform.core.receipt import EntityResult, Receipt, Result
from quotaform.errors import (
    ClusterError,
    PlanBlockedError,
    QuotaformError,
    RefusedError,
)
from quotaform.model.alteration import CLUSTER_AUTHORIZATION_FAILED, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_values

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 1.0
_SHORTEST_WATCH = 0.05
_SHOWN_PER_SECOND = 100_000
_SETTLE_PAUSE = 0.25
_CONVERGE_SECONDS = 30.0
_ENTITIES_PER_SECOND = 5_000
_SETTLE_SECONDS = 3.0
_LAST_READ_SECONDS = 5.0
_ATTEMPTS = 3

_MANY_ENTITIES: Final = 1_000
"""Beyond so many entities one of them is watched until it shows, instead of reading all of them again and again."""

_RESULTS = {
    Outcome.OK: Result.UNCONFIRMED,
    Outcome.REFUSED: Result.REFUSED,
    Outcome.UNKNOWN: Result.UNKNOWN,
    Outcome.NOT_SENT: Result.NOT_ATTEMPTED,
}

_Known: TypeAlias = tuple[Result, str]
"""What is known of an entity: the result, and the words that go with it."""

_APPLIED: Final[_Known] = (Result.APPLIED, "")
_ALREADY_APPLIED: Final[_Known] = (Result.ALREADY_APPLIED, "")
_UNCONFIRMED: Final[_Known] = (Result.UNCONFIRMED, "")
_NOT_ATTEMPTED: Final[_Known] = (Result.NOT_ATTEMPTED, "")


class ClusterPlan(NamedTuple):
    """A plan, and the cluster to apply it to."""

    cluster: Cluster
    plan: Plan


def apply_plans(
    plans: Sequence[ClusterPlan],
    keep: Callable[[Cluster, Receipt], None],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = no_progress,
    connect: Connect = open_gateway,
) -> tuple[ClusterOutcome[Receipt], ...]:
    """Apply plans one after the other; a failure on one cluster does not keep the others from being applied.

    After an interrupt nothing more is sent to any cluster.

    Args:
        plans: What to apply, at most one plan per cluster.
        keep: Called with each receipt at once, before anything else can go wrong.
        clock: The time.
        progress: Told what is being done.
        connect: Opens the gateway of a cluster.

    Returns:
        One outcome per cluster that was attempted.
    """
    outcomes: list[ClusterOutcome[Receipt]] = []
    for cluster, plan in plans:
        receipt: Receipt | None = None
        try:
            require_applyable(plan)
            with connect(cluster) as gateway:
                receipt = apply_plan(plan, gateway, progress, pinned_id=cluster.cluster_id, clock=clock)
                keep(cluster, receipt)
        except QuotaformError as error:
            if receipt is not None:
                raise
            outcomes.append(ClusterOutcome(cluster.name, error=error))
            continue
        outcomes.append(ClusterOutcome(cluster.name, receipt))
        if receipt.interruption is not None:
            break
    return tuple(outcomes)


def apply_plan(
    plan: Plan,
    gateway: Gateway,
    progress: Progress = no_progress,
    *,
    pinned_id: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Receipt:
    """Apply a plan and say what became of every entity.

    Until the first change is sent, whatever is wrong raises and nothing was written. From then on this
    returns a receipt, whatever happens: a lost connection, an interrupt, a mistake of our own.

    Args:
        plan: What to apply.
        gateway: To which cluster.
        progress: Told what is being done.
        pinned_id: The id that quotaform.yaml pins the cluster to, if it does.
        clock: The time.

    Raises:
        BlockedError: Something in the plan blocks it.
        StaleError: The cluster is another one, or no longer holds what the plan says.
        RefusedError: The broker's dry run refused entities.
        ClusterError: The cluster could not be read or did not answer the dry run.
    """
    require_applyable(plan)
    started_at = timestamp(clock)
    require_pinned(gateway.name, pinned_id, gateway.cluster_id())
    require_cluster(plan, gateway.cluster_id())
    progress("Reading quotas", 0, 0)
    pending, applied = _read_fresh(plan.changes, gateway, clock)
    _require_accepted(pending, gateway, progress)
    run = _Run(gateway, progress, applied, clock)
    interrupted_by = internal_error = None
    try:
        run.apply(sorted(pending, key=lambda change: change.action is Action.DELETE))
    except KeyboardInterrupt as interrupt:
        interrupted_by = getattr(interrupt, "signal_name", "SIGINT")
        run.read_back_once(pending)
    except Exception as error:
        internal_error = f"{type(error).__name__}: {error}"
        run.read_back_once(pending)
    return Receipt(
        plan=plan,
        results=tuple(run.result_of(change) for change in plan.changes),
        applied_by=_who(),
        started_at=started_at,
        finished_at=timestamp(clock),
        interrupted_by=interrupted_by,
        internal_error=internal_error,
    )


def require_applyable(plan: Plan) -> None:
    """Make sure that nothing blocks a plan.

    Raises:
        PlanBlockedError: Something does.
    """
    blocking = [finding for finding in plan.findings if finding.blocking]
    if blocking:
        raise PlanBlockedError(blocking)


def _who() -> str:
    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"


def _read_fresh(
    changes: tuple[EntityChange, ...], gateway: Gateway, clock: Clock
) -> tuple[tuple[EntityChange, ...], tuple[EntityChange, ...]]:
    """Read the touched entities; a read that contradicts the plan counts only when a later one agrees with it.

    A broker shows an acknowledged change late, so that one read alone may show a state that is gone.
    """
    entities = [change.entity for change in changes]
    actual = gateway.describe_entities(entities)
    freshness = check_fresh(changes, actual)
    deadline = clock.monotonic() + _SETTLE_SECONDS
    while freshness.stale and clock.monotonic() < deadline:
        clock.sleep(_SETTLE_PAUSE)
        again = gateway.describe_entities(entities)
        settled = is_same(actual, again)
        actual, freshness = again, check_fresh(changes, again)
        if settled:
            break
    require_fresh(freshness)
    return freshness.pending, freshness.applied


def _require_accepted(changes: tuple[EntityChange, ...], gateway: Gateway, progress: Progress) -> None:
    """Let the broker check every change and make none.

    Raises:
        RefusedError: It refuses some; the message has a line for each of them.
        ClusterError: It gave no usable answer.
    """
    if not changes:
        return
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


class _Run:
    """The writing part of an apply, and what is known of every entity at any moment."""

    def __init__(self, gateway: Gateway, progress: Progress, applied: Iterable[EntityChange], clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._progress = progress
        self._results: dict[Entity, _Known] = {change.entity: _ALREADY_APPLIED for change in applied}

    def result_of(self, change: EntityChange) -> EntityResult:
        result, message = self._results.get(change.entity, _NOT_ATTEMPTED)
        return EntityResult(change.entity, change.action, result, message)

    def _result(self, change: EntityChange) -> Result:
        return self._results.get(change.entity, _NOT_ATTEMPTED)[0]

    def apply(self, changes: list[EntityChange]) -> None:
        """Send the changes, and after an unknown outcome read first and send again only what is not there."""
        todo = changes
        for attempt in range(_ATTEMPTS):
            is_certain = self._send(todo, done=len(changes) - len(todo), total=len(changes))
            actual = self._converge(changes)
            if is_certain or actual is None or attempt == _ATTEMPTS - 1:
                return
            open_changes = check_fresh(tuple(change for change in changes if self._is_open(change)), actual)
            self._results.update({change.entity: _ALREADY_APPLIED for change in open_changes.applied})
            todo = list(open_changes.pending)
            if not todo:
                return

    def read_back_once(self, changes: Iterable[EntityChange]) -> None:
        """Read the entities once more after an interrupt or an internal error.

        Raises nothing; a second interrupt ends the read.

        All of them are read: an interrupt may come after a response was received and before it was recorded.
        """
        waiting = {change.entity: change for change in changes if not self._result(change).holds}
        with suppress(KeyboardInterrupt, Exception):
            actual = self._describe(waiting, _LAST_READ_SECONDS) if waiting else None
            if actual is not None:
                self._confirm(waiting, actual)

    def _is_open(self, change: EntityChange) -> bool:
        return self._result(change) in (Result.UNKNOWN, Result.NOT_ATTEMPTED)

    def _send(self, changes: list[EntityChange], done: int, total: int) -> bool:
        """Send changes in chunks; return whether the outcome of every chunk is known."""
        for change in changes:
            self._results.setdefault(change.entity, _NOT_ATTEMPTED)
        self._progress("Applying", done, total)
        is_certain = True
        try:
            for rows in self._gateway.alter_chunks([change.alteration() for change in changes]):
                for row in rows:
                    self._take(row)
                is_certain = is_certain and not any(_is_uncertain(row) for row in rows)
                done += len(rows)
                self._progress("Applying", done, total)
        except ClusterError as error:
            self._note(changes, str(error))
            return False
        return is_certain

    def _take(self, row: AlterRow) -> None:
        """Take note of an answer; what was sent before with an unknown outcome stays unknown until it is accepted."""
        is_unknown = self._results[row.entity][0] is Result.UNKNOWN
        if is_unknown and row.outcome is Outcome.REFUSED:
            message = f"refused when it was sent again ({row.reason}); the first request may have been carried out"
            self._results[row.entity] = (Result.UNKNOWN, message)
        elif row.outcome is Outcome.OK and not row.message:
            self._results[row.entity] = _UNCONFIRMED
        elif not is_unknown or row.outcome is not Outcome.NOT_SENT:
            self._results[row.entity] = (_RESULTS[row.outcome], row.message)

    def _note(self, changes: list[EntityChange], message: str) -> None:
        for change in changes:
            result, reason = self._results[change.entity]
            if result is Result.NOT_ATTEMPTED:
                self._results[change.entity] = (result, reason or message)

    def _converge(self, changes: list[EntityChange]) -> Quotas | None:
        """Read until everything that was sent shows, or time is up.

        An entity of unknown outcome is waited for only for a few seconds.

        Returns:
            The last read of what did not hold before it, or `None` when the cluster could not be read at the end.
        """
        waiting = {change.entity: change for change in changes if self._is_awaited(change)}
        total = len(waiting)
        now = self._clock.monotonic()
        longest_read = len(changes) / _ENTITIES_PER_SECOND
        deadline = now + _CONVERGE_SECONDS + longest_read
        settled_at = now + _SETTLE_SECONDS
        pause = _FIRST_PAUSE
        while True:
            self._progress("Reading back", total - len(waiting), total)
            self._await_newest(waiting, deadline)
            # What was not sent is read as well: whether it is sent again follows from what is there.
            left = [change.entity for change in changes if not self._result(change).holds]
            actual = self._describe(left, max(1.0, longest_read, deadline - self._clock.monotonic()))
            if actual is not None:
                self._confirm(waiting, actual)
                is_sent = any(self._results[entity][0] is Result.UNCONFIRMED for entity in waiting)
                if not waiting or (not is_sent and self._clock.monotonic() > settled_at):
                    return actual
            if self._clock.monotonic() > deadline:
                return actual
            actual = None  # A read of very many is let go of before there is another one.
            self._clock.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _await_newest(self, waiting: dict[Entity, EntityChange], deadline: float) -> None:
        """Of many accepted changes, wait until the last one shows, or cannot be read, or time is up.

        A broker shows changes in the order of the metadata log. As long as the last one is missing, to read all of them
        is in vain, and keeps a busy broker from taking them over.
        """
        accepted = (item for item in reversed(waiting.items()) if self._results[item[0]][0] is Result.UNCONFIRMED)
        if len(waiting) <= _MANY_ENTITIES or (newest := next(accepted, None)) is None:
            return
        entity, change = newest
        # A broker looks through all entities to find one: the more there are, the rarer it is asked.
        longest = min(_LONGEST_PAUSE, max(_SHORTEST_WATCH, len(waiting) / _SHOWN_PER_SECOND))
        pause = _FIRST_PAUSE
        while (left := deadline - self._clock.monotonic()) > 0:
            actual = self._describe([entity], max(1.0, left))
            if actual is None or same_values(actual.get(entity, NO_VALUES), change.after):
                return
            self._clock.sleep(pause)
            pause = min(longest, pause * 2)

    def _is_awaited(self, change: EntityChange) -> bool:
        return self._result(change) in (Result.UNCONFIRMED, Result.UNKNOWN)

    def _describe(self, entities: Collection[Entity], timeout: float) -> Quotas | None:
        try:
            return self._gateway.describe_entities(entities, timeout=timeout)
        except ClusterError as error:
            for entity in entities:
                result, reason = self._results.get(entity, _NOT_ATTEMPTED)
                self._results[entity] = (result, reason or f"it could not be read back: {error}")
            return None

    def _confirm(self, waiting: dict[Entity, EntityChange], actual: Quotas) -> None:
        for entity, change in list(waiting.items()):
            if same_values(actual.get(entity, NO_VALUES), change.after):
                self._results[entity] = _APPLIED
                del waiting[entity]


def _is_uncertain(row: AlterRow) -> bool:
    return row.outcome in (Outcome.UNKNOWN, Outcome.NOT_SENT)
