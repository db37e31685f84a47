"""Sending changes and reading them back: those of a plan, with what is known of every entity at any moment, and one by
hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import structs

from quotaform.apply.freshness import check_fresh, describe_difference
from quotaform.cluster.broker import with_alter_remedy
from quotaform.cluster.gateway import SETTLE_SECONDS, Gateway
from quotaform.model.alteration import Alteration, Altered, AlterRow, Ops, Outcome, apply_ops
from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError, AuthorizationError, ClusterError, PartialError, as_usage_error
from quotaform.model.filter import EntityFilter
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import NO_VALUES, Quotas, Values, same_values
from quotaform.model.text import did_you_mean, inert, quote
from quotaform.plan.plan import EntityChange
from quotaform.plan.receipt import EntityResult, Result
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.process import HeldSignals, signal_name

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 1.0
_SHORTEST_WATCH = 0.05
_SHOWN_PER_SECOND = 100_000
_CONVERGE_SECONDS = 30.0
_ENTITIES_PER_SECOND = 5_000
_LAST_READ_SECONDS = 5.0
_LAST_READS_SECONDS = 2.0
"""How long entities are read again after the first answer, before any is called unknown or unconfirmed."""
_LAST_PAUSE = 0.1
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

_ALREADY_APPLIED: Final[_Known] = (Result.ALREADY_APPLIED, "")
_NOT_ATTEMPTED: Final[_Known] = (Result.NOT_ATTEMPTED, "")


class ChangeWriter:
    """Applies changes once.

    A signal may interrupt it only where it waits: for an answer, for time to pass, for progress to be shown. Whatever
    it interrupts, the results are true: a change counts as unknown from before it is sent until its answer is noted.
    """

    def __init__(
        self, gateway: Gateway, progress: Progress, applied: Iterable[EntityChange], clock: Clock, signals: HeldSignals
    ) -> None:
        """Prepare. `applied` holds the changes that the cluster holds already."""
        self._gateway = gateway
        self._clock = clock
        self._progress = progress
        self._signals = signals
        self._results: dict[Entity, _Known] = {change.entity: _ALREADY_APPLIED for change in applied}
        self._in_flight: Sequence[Alteration] = ()
        """What is being sent, or was, without its answer being noted."""
        self._answered_at: float | None = None
        """When what was sent last was first read."""
        self._other_values: dict[Entity, str] = {}
        """What somebody else changed, by the last read: what it holds."""

    def apply(self, changes: list[EntityChange]) -> tuple[str | None, str | None]:
        """Send the changes and read them back, and raise nothing.

        Returns the name of the signal that cut it short, if one did, and the internal error, if there was one.
        """
        try:
            self._apply(changes)
        except KeyboardInterrupt as interrupt:
            self._read_back(changes)
            return signal_name(interrupt), None
        except Exception as error:
            self._read_back(changes)
            return None, f"{type(error).__name__}: {error}"
        return None, None

    def result_of(self, planned: EntityResult) -> EntityResult:
        """Return what became of a change, given its result before it was sent."""
        result, message = self._results.get(planned.entity, _NOT_ATTEMPTED)
        other = self._other_values.get(planned.entity)
        if other is not None and result is Result.UNCONFIRMED:
            result, message = Result.OVERWRITTEN, other
        elif other is not None and result in (Result.UNKNOWN, Result.NOT_ATTEMPTED):
            words = f"somebody else has changed it since: {other}"
            message = f"{message}; {words}" if message else words
        return structs.replace(planned, result=result, message=message or None)

    def _result(self, change: EntityChange) -> Result:
        return self._results.get(change.entity, _NOT_ATTEMPTED)[0]

    def _apply(self, changes: list[EntityChange]) -> None:
        """Send the changes, and after an unknown outcome read first and send again only what is not there."""
        todo = changes
        for attempt in range(_ATTEMPTS):
            is_certain = self._send(todo, done=len(changes) - len(todo), total=len(changes))
            actual = self._converge(changes)
            if is_certain or actual is None or attempt == _ATTEMPTS - 1:
                return
            is_open = (Result.UNKNOWN, Result.NOT_ATTEMPTED)
            open_changes = check_fresh(tuple(each for each in changes if self._result(each) in is_open), actual)
            self._results.update({change.entity: _ALREADY_APPLIED for change in open_changes.applied})
            todo = list(open_changes.pending)
            if not todo:
                return

    def _read_back(self, changes: Iterable[EntityChange]) -> None:
        """Read the entities again after an interrupt or an internal error; a second interrupt ends that.

        A broker shows an acknowledged change late, so that one read alone may show a state that is gone.
        """
        cut_short = (Result.UNKNOWN, "interrupted before the response of the broker was recorded")
        for alteration in self._in_flight:
            if self._results.get(alteration.entity, _NOT_ATTEMPTED)[0] is Result.NOT_ATTEMPTED:
                self._results[alteration.entity] = cut_short
        waiting = {change.entity: change for change in changes if self._is_awaited(change)}
        deadline = None
        with suppress(KeyboardInterrupt, Exception):
            while waiting:
                actual = self._describe(waiting, _LAST_READ_SECONDS)
                if actual is not None:
                    self._confirm(waiting, actual)
                    self._note_others(waiting.values(), actual)
                now = self._clock.monotonic()
                deadline = deadline or now + _LAST_READS_SECONDS
                if now >= deadline:
                    return
                self._sleep(_LAST_PAUSE)

    def _is_awaited(self, change: EntityChange) -> bool:
        return self._result(change) in (Result.UNCONFIRMED, Result.UNKNOWN)

    def _send(self, changes: list[EntityChange], done: int, total: int) -> bool:
        """Send changes in chunks; return whether the outcome of every chunk is known."""
        for change in changes:
            self._results.setdefault(change.entity, _NOT_ATTEMPTED)
        self._report_progress("Applying", done, total)
        is_certain = True
        chunks = self._gateway.alter_chunks([change.alteration() for change in changes], before_send=self._note_sending)
        while True:
            try:
                with self._signals.let_through():
                    rows = next(chunks, ())
            except ClusterError as error:
                self._in_flight = ()
                for change in changes:
                    result, reason = self._results[change.entity]
                    if result is Result.NOT_ATTEMPTED:
                        self._results[change.entity] = (result, reason or str(error))
                return False
            if not rows:
                return is_certain
            for row in rows:
                self._take(row)
            self._in_flight = ()
            is_certain = is_certain and not any(row.outcome in (Outcome.UNKNOWN, Outcome.NOT_SENT) for row in rows)
            done += len(rows)
            self._report_progress("Applying", done, total)

    def _note_sending(self, chunk: Sequence[Alteration]) -> None:
        self._in_flight = chunk

    def _take(self, row: AlterRow) -> None:
        """Take note of an answer; what was sent before with an unknown outcome stays unknown until it is accepted."""
        is_unknown = self._results[row.entity][0] is Result.UNKNOWN
        if is_unknown and row.outcome is Outcome.REFUSED:
            message = f"refused when it was sent again ({row.reason}); the first request may have taken effect"
            self._results[row.entity] = (Result.UNKNOWN, message)
        elif row.outcome is Outcome.OK and not row.message:
            self._results[row.entity] = (Result.UNCONFIRMED, "")
        elif not is_unknown or row.outcome is not Outcome.NOT_SENT:
            self._results[row.entity] = (_RESULTS[row.outcome], row.message)

    def _converge(self, changes: list[EntityChange]) -> Quotas | None:
        """Read until everything that was sent shows, or time is up.

        An entity of unknown outcome, or that holds what neither the plan says nor was there before, is waited for only
        for a few seconds.

        Returns the last read of what did not hold before it, or `None` when the cluster could not be read at the end.
        """
        waiting = {change.entity: change for change in changes if self._is_awaited(change)}
        total = len(waiting)
        now = self._clock.monotonic()
        longest_read = len(changes) / _ENTITIES_PER_SECOND
        deadline = now + _CONVERGE_SECONDS + longest_read
        settled_at = now + SETTLE_SECONDS
        self._answered_at = None
        pause = _FIRST_PAUSE
        while True:
            self._report_progress("Reading back", total - len(waiting), total)
            self._await_newest(waiting, deadline)
            # What was not sent is read as well: whether it is sent again follows from what is there.
            left = [change for change in changes if not self._result(change).holds]
            entities = [change.entity for change in left]
            actual = self._describe(entities, max(1.0, longest_read, deadline - self._clock.monotonic()))
            now = self._clock.monotonic()
            # After a broker's death the first answer may come late, and not show yet what was acknowledged.
            doubted_until = 0.0 if self._answered_at is None else self._answered_at + _LAST_READS_SECONDS
            is_over = now > max(deadline, doubted_until)
            if actual is not None:
                self._confirm(waiting, actual)
                is_settled = now > max(settled_at, doubted_until) and not self._is_expected(waiting, actual)
                if not waiting or is_settled or is_over:
                    self._note_others(left, actual)
                    return actual
            if is_over:
                return actual
            actual = None  # The result of a large read is released before the next one.
            self._sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _is_expected(self, waiting: dict[Entity, EntityChange], actual: Quotas) -> bool:
        """Whether something that was accepted still shows what was there before, so that it will change."""
        return any(
            self._results[entity][0] is Result.UNCONFIRMED and same_values(actual.get(entity, NO_VALUES), change.before)
            for entity, change in waiting.items()
        )

    def _await_newest(self, waiting: dict[Entity, EntityChange], deadline: float) -> None:
        """Of many accepted changes, wait until the last one shows, or cannot be read, or time is up.

        A broker shows changes in the order of the metadata log. As long as the last one is missing, to read all of them
        finds nothing new, and keeps a busy broker from taking them over.
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
            if actual is None or not same_values(actual.get(entity, NO_VALUES), change.before):
                return
            self._sleep(pause)
            pause = min(longest, pause * 2)

    def _report_progress(self, what: str, done: int, total: int) -> None:
        with self._signals.let_through():
            self._progress(what, done, total)

    def _sleep(self, seconds: float) -> None:
        with self._signals.let_through():
            self._clock.sleep(seconds)

    def _describe(self, entities: Collection[Entity], timeout: float) -> Quotas | None:
        try:
            with self._signals.let_through():
                actual = self._gateway.describe_entities(entities, timeout=timeout)
        except ClusterError as error:
            for entity in entities:
                result, reason = self._results.get(entity, _NOT_ATTEMPTED)
                self._results[entity] = (result, reason or f"it could not be read back: {error}")
            return None
        if self._answered_at is None:
            self._answered_at = self._clock.monotonic()
        return actual

    def _confirm(self, waiting: dict[Entity, EntityChange], actual: Quotas) -> None:
        for entity, change in list(waiting.items()):
            if same_values(actual.get(entity, NO_VALUES), change.after):
                self._results[entity] = (Result.APPLIED, "")
                del waiting[entity]

    def _note_others(self, changes: Iterable[EntityChange], actual: Quotas) -> None:
        """Take note of what holds neither what the plan says nor what was there before: somebody else changed it."""
        stale = check_fresh(tuple(changes), actual).stale
        self._other_values = {
            change.entity: describe_difference(change.after, actual.get(change.entity, NO_VALUES)) for change in stale
        }


# Changing one entity by hand.

_DEADLINE = 30.0
_LONGEST_ALTER_PAUSE = 0.25


def alter_entity(
    admin: QuotaAdmin,
    entity: Entity,
    ops: Ops,
    *,
    validate_only: bool = False,
    progress: Progress = no_progress,
    clock: Clock = SYSTEM_CLOCK,
) -> Altered:
    """Change one entity and read it until it holds what was asked for.

    `ops`: what to set and remove; removing what is not there is fine. `validate_only`: let the broker check, and say
    what would be.

    Raises `ClusterError` if the broker refused, in its words, or could not be asked; nothing was changed;
    `PartialError` if it is not known whether it was changed, or the change does not show; `UsageError` if the entity
    cannot be sent; also if a key is to be removed that is unknown and the entity does not hold.
    """
    with as_usage_error():
        try:
            before = _read(admin, entity)
        except AuthorizationError as error:
            raise with_alter_remedy(error) from None
        # To remove an unknown key that the entity does not hold is most likely a typo.
        for name, value in ops.items():
            if value is None and name not in before and (hint := unknown_key_hint(name)):
                raise ArgumentError("{delete}: {} does not have {}{}", entity.address, quote(name), hint)
        progress("Validating on the broker" if validate_only else "Applying", 0, 0)
        result = admin.alter([Alteration(entity, ops)], validate_only=validate_only)
    is_certain = not any(row.outcome is Outcome.UNKNOWN for row in result)
    if is_certain or validate_only:
        try:
            result.raise_for_errors()
        except ClusterError as error:
            hints = [unknown_key_hint(name) for name, value in ops.items() if value is not None]
            raise error.with_more(f"; nothing was changed{''.join(hints)}") from error
    if validate_only:
        return Altered(entity=entity, ops=ops, before=before, after=apply_ops(before, ops), is_validation=True)
    progress("Reading back", 0, 0)
    status = f"the broker accepted the change of {entity.address}"
    if not is_certain:
        status = f"it is not known whether {entity.address} was changed ({inert(result.rows[0].message)})"
    live = _read_back(admin, entity, before, ops, status, clock)
    return Altered(entity=entity, ops=ops, before=before, after=live, is_late=not is_certain)


def unknown_key_hint(name: str) -> str:
    """Return what to add to a message about a quota key if this version does not know it."""
    return "" if name in QUOTA_KEYS else f"; {quote(name)} is not known to this version{did_you_mean(name, QUOTA_KEYS)}"


def _read(admin: QuotaAdmin, entity: Entity) -> Values:
    return admin.describe(EntityFilter.contains_only(entity.names)).get(entity, {})


def _read_back(admin: QuotaAdmin, entity: Entity, before: Values, ops: Ops, status: str, clock: Clock) -> Values:
    """Return what the entity holds once it shows the change: an acknowledged one may take a moment to show.

    As in an apply, what holds neither what was there before nor what was asked for is waited for only for a few
    seconds: somebody else changed it.
    """
    was = {key: before[key] for key in ops if key in before}
    wanted = apply_ops(was, ops)
    now = clock.monotonic()
    deadline, settled_at = now + _DEADLINE, now + SETTLE_SECONDS
    pause = _FIRST_PAUSE
    while True:
        is_other = False
        try:
            seen = _read(admin, entity)
        except ClusterError as error:
            found = f"it could not be read back: {error}; describe it again"
        else:
            held = {key: seen[key] for key in ops if key in seen}
            if same_values(held, wanted):
                return seen
            is_other = not same_values(held, was)
            difference = describe_difference(wanted, held)
            found = (
                f"after {_DEADLINE:.0f} s the change is not visible: {difference}; it may become visible later, or "
                "somebody else reverted it: run quotaform describe"
            )
            if is_other:
                found = f"somebody else has changed it since: {difference}"
        if clock.monotonic() > (settled_at if is_other else deadline):
            raise PartialError(f"{status}, and {found}", [entity])
        clock.sleep(pause)
        pause = min(_LONGEST_ALTER_PAUSE, 2 * pause)
