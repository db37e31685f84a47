"""Comparing clusters again and again: one round after another, each cluster on its own.

A cluster that cannot be reached is asked less often and keeps no other waiting: its check runs in a thread, and no
second one begins meanwhile. Every check has a connection of its own, so that nothing outlives a broker's restart.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import datetime
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn

from quotaform.app.clock import Clock, today
from quotaform.app.drift.drift import drift_of
from quotaform.app.drift.report import DriftReporter, known_drift
from quotaform.app.drift.watched_files import WatchedFiles, WatchedState
from quotaform.app.each_cluster import AT_ONCE, Connect
from quotaform.app.plan.plan import plan_cluster
from quotaform.core.drift.drift import Drift
from quotaform.core.drift.log_event import (
    CheckFailed,
    ClusterCompared,
    FilesRecovered,
    FilesReloaded,
    FilesUnusable,
    Log,
    MetricsNotWritten,
)
from quotaform.core.outcome import ClusterOutcome
from quotaform.core.plan import Plan
from quotaform.errors import BaseError, ClusterError, InvalidFilesError, QuotaformError

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster


class Workers:
    """Threads that end with the process; there are at most as many as clusters are worked on at a time."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], None], Future[None]]] = SimpleQueue()
        self._count = 0
        self._free = 0
        """How many threads have nothing to do; below zero, how much waits for a thread."""
        self._lock = Lock()

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Have something done."""
        done: Future[None] = Future()
        with self._lock:
            # Counted here and not by the thread that takes it: until then it would seem free, and what comes next would
            # wait for it to end.
            is_needed = self._free <= 0 and self._count < AT_ONCE
            self._count += is_needed
            self._free += is_needed - 1
        self._todo.put((work, done))
        if is_needed:
            Thread(target=self._run, name="quotaform-watch", daemon=True).start()
        return done

    def _run(self) -> None:
        while True:
            work, done = self._todo.get()
            problem: BaseException | None = None
            try:
                work()
            except BaseException as error:
                problem = error
            with self._lock:
                self._free += 1
            if problem is None:
                done.set_result(None)
            else:
                done.set_exception(problem)
            del work, done, problem


JITTER: Final = 0.1
"""By which share of the interval a round begins earlier or later, so that many processes do not ask at one time."""
LONGEST_BACKOFF: Final = 300.0
"""After at most how many seconds, or one interval, a cluster that cannot be reached is asked again."""
_STALLED_ROUNDS: Final = 3


@dataclass(slots=True)
class ClusterWatch:
    """What is known of one cluster.

    Attributes:
        status: `waiting`, `in-sync`, `drift` or `failed`.
        checked_at: When it was last compared; `None` if it never was.
        failures: How many checks in a row failed because the cluster could not be read.
        skips: In how many rounds it is not asked.
        logged: What the last event that was logged about it was about; an equal one is not logged again.
        check: The check that runs, or the last one.
    """

    status: str = "waiting"
    checked_at: datetime | None = None
    failures: int = 0
    skips: int = 0
    logged: object = None
    check: Future[None] | None = None


@dataclass(slots=True)
class Watch:
    """Compares clusters until it is interrupted.

    Attributes:
        interval: Seconds from one round to the next.
        jitter: A random number from 0 to 1.
        log: Called with what changes.
        is_alone: Whether all clusters of quotaform.yaml are meant, so that metrics of others are removed.
    """

    files: WatchedFiles
    reporter: DriftReporter
    connect: Connect
    clock: Clock
    interval: float
    jitter: Callable[[], float]
    log: Log
    is_alone: bool = False
    _state: WatchedState | None = None
    _problem: str | None = None
    _metrics_problem: str | None = None
    _clusters: dict[str, ClusterWatch] = field(default_factory=dict)
    _checks: list[Future[None]] = field(default_factory=list)
    _round_at: float | None = None
    _workers: Workers = field(default_factory=Workers)
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> NoReturn:
        """Make rounds until an interrupt comes.

        Raises:
            KeyboardInterrupt: It came. Checks that run are given up.
        """
        while True:
            started = self.clock.monotonic()
            self.make_round()
            pause = self.interval * (1 + JITTER * (2 * self.jitter() - 1))
            self.clock.sleep(max(0.0, started + pause - self.clock.monotonic()))

    def make_round(self) -> None:
        """Read the files and compare every cluster that is due; wait for those that answer within an interval."""
        self._round_at = self.clock.monotonic()
        state = self._reload()
        if state is not None:
            due = [cluster for cluster in state.request.clusters if self._is_due(cluster.name)]
            checks = [self._begin(state, cluster) for cluster in due]
            self._checks += checks
            wait(checks, timeout=self.interval)
        self._require_sound_checks()
        self._write_metrics()
        # Commands collect cycles rarely, as they end soon; this one does not.
        gc.collect(1)

    def _require_sound_checks(self) -> None:
        """Raise what a check raised that has ended, in this round or since the last one."""
        ended = [check for check in self._checks if check.done()]
        self._checks = [check for check in self._checks if check not in ended]
        for check in ended:
            check.result()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Return whether rounds are made, and what is known, as JSON holds it; no entity and no address is in it."""
        with self._lock:
            clusters = {
                name: {
                    "status": each.status,
                    "checked_at": None if each.checked_at is None else each.checked_at.isoformat(timespec="seconds"),
                }
                for name, each in self._clusters.items()
            }
        statuses = {each["status"] for each in clusters.values()}
        late = max(_STALLED_ROUNDS * self.interval, LONGEST_BACKOFF)
        is_alive = self._round_at is None or self.clock.monotonic() - self._round_at < late
        status = "degraded" if self._problem is not None or "failed" in statuses else "ok"
        if not is_alive:
            status = "stalled"
        elif status == "ok" and (not statuses or "waiting" in statuses):
            status = "starting"
        has_files = self._problem is None and (self._state is None or self._state.is_valid)
        return is_alive, {"status": status, "files": "ok" if has_files else "invalid", "clusters": clusters}

    def _reload(self) -> WatchedState | None:
        """Read the files; when they cannot be used, log that once: no cluster is compared with earlier ones."""
        before = self._state
        try:
            self._state = self.files.load(today(self.clock))
        except QuotaformError as error:
            if str(error) != self._problem:
                self.log(FilesUnusable(error))
            self._problem = str(error)
            for name in self._clusters:
                self._take(name, ClusterOutcome(name, error=error), 0.0, is_logged=False)
            return None
        is_reloaded = before is not None and self._state is not before
        if is_reloaded:
            # Cycles of the files as they were are too old for the collection of each round.
            del before
            gc.collect()
            self.log(FilesReloaded())
        elif self._problem is not None:
            self.log(FilesRecovered())
        self._problem = None
        names = [cluster.name for cluster in self._state.request.clusters]
        with self._lock:
            self._clusters = {name: self._clusters.get(name) or ClusterWatch() for name in names}
        self.reporter.metrics.keep_only(names)
        if self.is_alone:
            self.reporter.alerts.keep_only(names)
        return self._state

    def _write_metrics(self) -> None:
        """Write the files of `--metrics`, once for all clusters that were checked; log once that it is not possible."""
        try:
            self.reporter.metrics.write(only=list(self._clusters) if self.is_alone else None)
        except QuotaformError as problem:
            if str(problem) != self._metrics_problem:
                self.log(MetricsNotWritten(problem))
            self._metrics_problem = str(problem)
        else:
            self._metrics_problem = None

    def _is_due(self, name: str) -> bool:
        watched = self._clusters[name]
        if watched.check is not None and not watched.check.done():
            return False
        if watched.skips:
            watched.skips -= 1
            return False
        return True

    def _begin(self, state: WatchedState, cluster: Cluster) -> Future[None]:
        check = self._workers.submit(lambda: self._check(state, cluster))
        self._clusters[cluster.name].check = check
        return check

    def _check(self, state: WatchedState, cluster: Cluster) -> None:
        started = self.clock.monotonic()
        planned: ClusterOutcome[Plan]
        try:
            declared = state.declared(cluster.name)
            with self.connect(cluster) as gateway:
                plan = plan_cluster(
                    state.request,
                    cluster,
                    gateway,
                    desired=lambda: declared,
                    source=lambda: state.source,
                    clock=self.clock,
                )
            planned = ClusterOutcome(cluster.name, plan)
        except QuotaformError as error:
            planned = ClusterOutcome(cluster.name, error=error)
        except Exception as error:
            # A mistake of our own; the other clusters are still watched.
            problem = QuotaformError(f"internal error: {type(error).__name__}: {error}; please report it")
            planned = ClusterOutcome(cluster.name, error=problem)
        outcome = drift_of(state.request, planned, today(self.clock))
        self._take(cluster.name, outcome, self.clock.monotonic() - started)

    def _take(self, name: str, outcome: ClusterOutcome[Drift], seconds: float, *, is_logged: bool = True) -> None:
        """Take up what a check found: count, log if it is new, write metrics and notify."""
        drift, error = known_drift(outcome)
        with self._lock:
            watched = self._clusters.get(name)
            if watched is None:
                return
            watched.status = "failed" if drift is None else drift.status
            if drift is not None:
                watched.checked_at = self.clock.now()
            watched.failures = watched.failures + 1 if isinstance(outcome.error, ClusterError) else 0
            watched.skips = self._skips(watched.failures)
            log_key = (watched.status, _failure_log_key(outcome.error) if drift is None else _log_key(drift))
            is_new = is_logged and log_key != watched.logged
            watched.logged = log_key
        if is_new:
            self.log(CheckFailed(name, outcome.error or error or "") if drift is None else ClusterCompared(name, drift))
        self.reporter.report([outcome], seconds)

    def _skips(self, failures: int) -> int:
        """Return in how many rounds a cluster is not asked after so many failures in a row: 0, 0, 1, 3, 7, ..."""
        most = max(0, int(LONGEST_BACKOFF / self.interval) - 1)
        return min((1 << min(max(0, failures - 1), 30)) - 1, most)


def _log_key(drift: Drift) -> tuple[object, ...]:
    """Return what is equal as long as there is nothing new to log about what was found."""
    return drift.fingerprint, len(drift.pending), drift.ignored_entities


def _failure_log_key(error: QuotaformError | None) -> object:
    """Return what is equal as long as there is nothing new to log about a failure.

    Another message about the files is another problem; a cluster that is down may fail in another way each time.
    """
    return str(error) if isinstance(error, (InvalidFilesError, BaseError)) else type(error)
