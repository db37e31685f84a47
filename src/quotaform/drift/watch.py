"""Comparing clusters again and again, each on its own, with files that are read again when they change.

A cluster that cannot be reached is asked less often and keeps no other waiting: its check runs in a thread, and no
second one begins meanwhile. Every check has a connection of its own, so that nothing outlives a broker's restart.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import date, datetime
from functools import cache, partial
from hashlib import sha256
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from quotaform.cluster.gateway import Gateway
from quotaform.desired.loader import LoadedFiles
from quotaform.desired.tree import Layout
from quotaform.drift.alert import DriftReporter, known_drift
from quotaform.drift.drift import Drift
from quotaform.drift.report import drift_line
from quotaform.drift.run import drift_cluster
from quotaform.git import GitError, TimeLeft, find_work_tree, open_objects
from quotaform.model.entity import spell_name
from quotaform.model.errors import BaseError, ClusterError, FileReadError, InvalidFilesError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.plan.base import BaseChoice, read_chosen_base
from quotaform.plan.plan import PlanSource
from quotaform.plan.receipt_file import is_receipt
from quotaform.plan.run import PlanRequest
from quotaform.plan.source import Source
from quotaform.repository.gateway import AT_ONCE, Connect
from quotaform.repository.repository import Repository, read_claims, root_trees
from quotaform.system.clock import Clock, today
from quotaform.system.files import RECEIPT_LIMIT, read_bytes
from quotaform.system.process import in_thread

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster, Config


Compare: TypeAlias = Callable[[Gateway], Drift]
"""Compares one cluster with its files."""


def _base_key(repository: Repository, choice: BaseChoice) -> str | None:
    """Return what changes when the baseline does; `None` when it cannot be read."""
    ref = choice.refs[0]
    try:
        if is_receipt(ref):
            return sha256(read_bytes(ref, RECEIPT_LIMIT)).hexdigest()
        top = find_work_tree(repository.directory)
        if top is None:
            return None
        with open_objects(top, TimeLeft()) as objects:
            commit = objects.commit(f"{ref}^{{commit}}")
            return None if commit is None else commit.id
    except (FileReadError, GitError):
        return None


JITTER: Final = 0.1
"""A round begins earlier or later by up to this share of the interval, so that many processes do not ask at once."""
LONGEST_BACKOFF: Final = 300.0
"""The longest pause in seconds, or one interval, before a cluster that cannot be reached is asked again."""


class ClusterWatch(Struct):
    """What is known of one cluster."""

    status: str = "waiting"  # `waiting`, `in-sync`, `drift` or `failed`
    checked_at: datetime | None = None  # When it was last compared
    failures: int = 0  # How many checks in a row failed because the cluster could not be read
    skips: int = 0  # In how many rounds it is not asked
    logged: object = None  # What the last line about it was about; an equal one is not logged again
    check: Future[None] | None = None  # The one that runs, or the last one


class Watch(Struct):
    """Compares clusters until it is interrupted."""

    request: PlanRequest  # What to compare; its configuration and clusters are read again
    choose: Callable[[Config], tuple[Cluster, ...]]  # Returns the clusters that are meant, of a configuration
    reporter: DriftReporter
    connect: Connect
    clock: Clock
    interval: float  # Seconds from one round to the next
    jitter: Callable[[], float]  # Returns a random number from 0 to 1
    log: Callable[[str], None]  # Called with what has happened, as a line without its time
    is_alone: bool = False  # Whether all clusters of quotaform.yaml are meant, so that metrics of others are removed
    _files: LoadedFiles | None = None
    _key: tuple[object, ...] | None = None  # What is equal as long as the files are
    _compare: Mapping[str, Compare | QuotaformError] = {}  # By cluster; an error if its files are invalid
    _problem: str | None = None
    _metrics_problem: str | None = None
    _clusters: dict[str, ClusterWatch] = {}
    _checks: list[Future[None]] = []
    _round_at: float | None = None
    _slots: Semaphore = field(default_factory=lambda: Semaphore(AT_ONCE))
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> NoReturn:
        """Make rounds until a `KeyboardInterrupt` comes; checks that run are given up."""
        while True:
            started = self.clock.monotonic()
            self.make_round()
            pause = self.interval * (1 + JITTER * (2 * self.jitter() - 1))
            self.clock.sleep(max(0.0, started + pause - self.clock.monotonic()))

    def make_round(self) -> None:
        """Read the files and compare every cluster that is due; wait for those that answer within an interval."""
        self._round_at = self.clock.monotonic()
        if self._reload():
            checks = []
            for cluster in self.request.clusters:
                watched = self._clusters[cluster.name]
                if watched.check is not None and not watched.check.done():
                    continue
                if watched.skips:
                    watched.skips -= 1
                    continue
                compare = self._compare[cluster.name]  # Files that are read again meanwhile concern the next check.
                watched.check = in_thread(partial(self._check, cluster, compare), "quotaform-watch")
                checks.append(watched.check)
            self._checks += checks
            wait(checks, timeout=self.interval)
        # What a check raised that has ended, in this round or since the last one, is raised here.
        ended = [check for check in self._checks if check.done()]
        self._checks = [check for check in self._checks if check not in ended]
        for check in ended:
            check.result()
        problem = None
        try:
            self.reporter.metrics.write()
        except QuotaformError as error:
            problem = str(error)
            if problem != self._metrics_problem:
                self.log(_on_one_line(error))
        self._metrics_problem = problem
        # Commands collect cycles rarely, as they end soon; this one does not.
        gc.collect(1)

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
        late = max(3 * self.interval, LONGEST_BACKOFF)
        is_alive = self._round_at is None or self.clock.monotonic() - self._round_at < late
        status = "degraded" if self._problem is not None or "failed" in statuses else "ok"
        if not is_alive:
            status = "stalled"
        elif status == "ok" and (not statuses or "waiting" in statuses):
            status = "starting"
        is_invalid = any(isinstance(each, QuotaformError) for each in self._compare.values())
        has_files = self._problem is None and not is_invalid
        return is_alive, {"status": status, "files": "ok" if has_files else "invalid", "clusters": clusters}

    def _reload(self) -> bool:
        """Read the files; when they cannot be used, log that once: no cluster is compared with earlier ones."""
        had_files = self._files is not None
        try:
            has_changed = self._load(today(self.clock))
        except QuotaformError as error:
            if str(error) != self._problem:
                self.log(f"the files cannot be used: {_on_one_line(error)}")
            self._problem = str(error)
            for name in self._clusters:
                self._take(name, ClusterOutcome(name, error=error), 0.0, is_logged=False)
            return False
        if had_files and has_changed:
            # Cycles of the files as they were are too old for the collection of each round.
            gc.collect()
            self.log("the files have changed and were read again")
        elif self._problem is not None:
            self.log("the files can be used again")
        self._problem = None
        names = [cluster.name for cluster in self.request.clusters]
        with self._lock:
            self._clusters = {name: self._clusters.get(name) or ClusterWatch() for name in names}
        self.reporter.metrics.keep_only(names)
        if self.is_alone:
            self.reporter.keep_only(names)
        return True

    def _load(self, today: date) -> bool:
        """Read the files, if they or the baseline have changed, and return whether they have.

        Raises `QuotaformError` if quotaform.yaml is invalid, or the baseline cannot be read.
        """
        repository = self.request.repository
        config = repository.config()
        if config != self.request.config:
            self.request = replace(self.request, config=config, clusters=self.choose(config))
        tree = repository.revision.read_tree(repository.directory)
        request, base = self.request, self.request.base
        roots = root_trees(repository, config)
        key = (request, today, None if base is None else _base_key(repository, base), roots, tree)
        if key == self._key:
            return False
        files = LoadedFiles(Layout(tree, config.clusters), config.profiles, today, config.scope, similar=self._files)
        bases = None
        if base is not None:
            found = read_chosen_base(request, base, today, files)
            bases = replace(found, of=cache(found.of))
        claims = read_claims(repository, config, today)
        source = Source(PlanSource(directory=repository.directory.as_posix()), bases=bases, claims=claims)
        compare: dict[str, Compare | QuotaformError] = {}
        for cluster in request.clusters:
            try:
                desired = files.desired(cluster.name)
                compare[cluster.name] = partial(
                    drift_cluster, request, cluster, desired=desired, source=source, clock=self.clock
                )
            except QuotaformError as error:
                # A traceback would hold on to this frame, and so to the files as they were before.
                compare[cluster.name] = error.with_traceback(None)
        self._files, self._compare, self._key = files, compare, key
        return True

    def _check(self, cluster: Cluster, compare: Compare | QuotaformError) -> None:
        def make() -> Drift:
            if isinstance(compare, QuotaformError):
                # It is raised at each round, and a traceback only grows: it would hold on to the frames of all.
                raise compare.with_traceback(None)
            with self.connect(cluster) as gateway:
                return compare(gateway)

        with self._slots:
            started = self.clock.monotonic()
            try:
                outcome = ClusterOutcome.of(cluster.name, make)
            except Exception as error:
                # An internal error; the other clusters are still watched.
                problem = QuotaformError(f"internal error: {type(error).__name__}: {error}; please report it")
                outcome = ClusterOutcome(cluster.name, error=problem)
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
            # After so many failures in a row it is not asked in 0, 0, 1, 3, 7, ... rounds.
            most = max(0, int(LONGEST_BACKOFF / self.interval) - 1)
            watched.skips = min((1 << min(max(0, watched.failures - 1), 30)) - 1, most)
            found: object = type(outcome.error)
            if drift is not None:
                found = (drift.fingerprint, len(drift.pending), drift.summary.ignored)
            elif isinstance(outcome.error, (InvalidFilesError, BaseError)):
                # Another message about the files is another problem; a cluster that is down may fail in many ways.
                found = error
            is_new = is_logged and (watched.status, found) != watched.logged
            watched.logged = (watched.status, found)
        if is_new:
            what = _on_one_line(outcome.error or error or "") if drift is None else drift_line(drift)
            self.log(f"{spell_name(name)}: {what}")
        self.reporter.report([outcome], seconds, writes=False)


def _on_one_line(reason: QuotaformError | str) -> str:
    """Return what is wrong as one line: of invalid files the first problem, and how many more there are."""
    if isinstance(reason, InvalidFilesError) and reason.problems:
        more = len(reason.problems) - 1
        return f"{reason.problems[0]}{f' (and {more:,} more)' if more else ''}"
    return "; ".join(str(reason).splitlines())
