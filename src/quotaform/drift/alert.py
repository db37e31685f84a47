"""What follows from a comparison: metrics in files, and receivers notified once per change."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Self

from msgspec import Struct, field, structs
from msgspec.structs import replace

from quotaform import __version__
from quotaform.drift.drift import Drift
from quotaform.drift.metric import MetricSample, RunFacts, keep_clusters, merge_run
from quotaform.drift.records import (
    ClusterState,
    Notification,
    Notified,
    Warn,
    choose_event,
    dump_notification,
    dump_notify_state,
    load_notify_state,
)
from quotaform.drift.report import render_slack
from quotaform.http.client import Retry, Timeouts, send, send_again
from quotaform.http.message import HttpRequest, Url
from quotaform.model import rule
from quotaform.model.entity import spell_name
from quotaform.model.errors import FileReadError, HttpError, NotReadError, QuotaformError, UsageError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.scope import matches_glob
from quotaform.model.text import MIB, Secret
from quotaform.model.variable import OwnSecret
from quotaform.system.clock import Clock
from quotaform.system.files import read_text, update_lock, write_text_atomically

# Notifications posted to webhooks, signed, and sent again for a bounded time.
#
# With a key, a request has the header `X-Quotaform-Signature: t=TIME,v1=HEX`: the time in seconds since 1970, and the
# HMAC-SHA256 of the time, a dot and the body, byte for byte as it is sent.

SIGNATURE_HEADER: Final = "X-Quotaform-Signature"
_LIMITS: Final = Timeouts(connect=5.0, total=10.0)
_ATTEMPTS: Final = 3
_TOTAL: Final = 30.0


class MessageFormat(StrEnum):
    """What a receiver takes."""

    GENERIC = "generic"
    SLACK = "slack"


class Receiver(Struct, frozen=True):
    """Who receives notifications. It prints without its path, which may hold a token."""

    url: Url
    format: MessageFormat = MessageFormat.GENERIC

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read URL, generic=URL or slack=URL.

        Raises `ValueError` if it is not one of these; the message does not show it.
        """
        for each in MessageFormat:
            prefix = f"{each.value}="
            if text.startswith(prefix):
                return cls(Url.parse(text.removeprefix(prefix)), each)
        if "=" in text.partition(":")[0]:
            raise ValueError(
                f"it must be a URL, alone or after {' or '.join(f'{each.value}=' for each in MessageFormat)}"
            )
        return cls(Url.parse(text))

    @property
    def id(self) -> str:
        """A digest that identifies it; the URL does not follow from it."""
        return sha256(f"{self.format} {self.url.reveal()}".encode()).hexdigest()[:16]


def read_receivers(given: Iterable[tuple[str, str]]) -> tuple[Receiver, ...]:
    """Read receivers, each given with what messages call its source; one that is given twice is one.

    Raises `UsageError` if a text is none; the message does not show it.
    """
    receivers = {}
    for source, text in given:
        try:
            receiver = Receiver.parse(text)
        except ValueError as error:
            # Not shown: it may hold a token.
            raise UsageError(f"{source} is not the URL of a webhook: {error}") from None
        receivers[receiver.id] = receiver
    return tuple(receivers.values())


def read_key(environ: Mapping[str, str]) -> Secret | None:
    """Return what notifications are signed with; `None` if the environment has no key. Raises `UsageError`."""
    text = environ.get(OwnSecret.NOTIFY_SECRET)
    if text == "":
        raise UsageError(f"{OwnSecret.NOTIFY_SECRET} is empty; set it to the key that the receiver has, or unset it")
    return None if text is None else Secret(text)


def sign(body: bytes, key: Secret, moment: datetime) -> str:
    """Return the value of the signature header.

    >>> from datetime import UTC
    >>> sign(b"{}", Secret("key"), datetime(2026, 11, 20, tzinfo=UTC))[:20]
    't=1795132800,v1=e8ba'
    """
    seconds = int(moment.timestamp())
    signed = hmac.new(key.reveal().encode(), f"{seconds}.".encode() + body, sha256)
    return f"t={seconds},v1={signed.hexdigest()}"


def post(receiver: Receiver, body: bytes, *, key: Secret | None, clock: Clock) -> None:
    """Post a notification, signed with a key if there is one; it may arrive twice when an answer is lost.

    Raises `HttpError` if it was not delivered within some 35 seconds.
    """
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers[SIGNATURE_HEADER] = sign(body, key, clock.now())
    request = HttpRequest(method="POST", url=receiver.url, headers=headers, body=body, is_repeatable=True)
    retry = Retry(clock=clock, attempts=_ATTEMPTS, total=_TOTAL, longest_wait=5.0)
    response = send_again(request, lambda each: send(each, _LIMITS), retry)
    if not response.is_success:
        raise HttpError(receiver.url.origin, f"answered with status {response.status}", status=response.status)


_STATE_LIMIT: Final = 16 * MIB
_PAUSE: Final = 60.0
"""For how many seconds a receiver that could not be reached is not tried again, for whatever cluster."""


class AlertOptions(Struct, frozen=True, kw_only=True):
    """Who is notified of drift, and how."""

    receivers: tuple[Receiver, ...] = ()
    state_path: Path | None = None  # The file that keeps what they were notified of; `None`: the process remembers it
    notifies_failures: bool = False  # Whether they are notified of a check that failed
    key: Secret | None = None  # What notifications are signed with, if anything
    run: str | None = None  # The address of the run's log, if a CI system says it


class DriftAlerts(Struct):
    """Notifies receivers of what is new about clusters; threads may share it, and processes its state file.

    `warn` is called with what went wrong; nothing of it changes the result of a run.
    """

    options: AlertOptions
    clock: Clock
    warn: Warn
    _states: dict[str, ClusterState] = field(default_factory=dict)
    _kept: frozenset[str] | None = None
    _failing: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _said: dict[str, str | None] = field(default_factory=dict)  # What is wrong with the file, by what was done with it

    def record(self, cluster: str, drift: Drift) -> str | None:
        """Record what was found on a cluster, and return since when there has been drift, if there is any."""
        before, state = self._update(cluster, lambda known: known.with_drift(drift))
        if before.cluster_id is not None and before.cluster_id != drift.cluster_id:
            self.warn(
                f"{spell_name(cluster)}: the state is that of another cluster "
                f"({spell_name(before.cluster_id)}); its notification state is reset"
            )
        return state.first_seen

    def notify(self, cluster: str, drift: Drift | None, error: str | None) -> bool:
        """Notify receivers of what is new about a cluster, and return whether everything that was due was delivered.

        What was not delivered is tried again at the next run. `drift` is what was found and recorded before; `None`
        when it could not be compared. `error` is why it could not be.
        """
        _, state = self._update(cluster, lambda known: known)
        is_delivered = True
        for receiver in self.options.receivers:
            notified = state.notified.get(receiver.id, Notified())
            event = choose_event(notified, drift, notifies_failures=self.options.notifies_failures)
            if event is None:
                continue
            notification = Notification(
                event=event,
                cluster=cluster,
                drift=drift,
                error=error,
                first_seen=state.first_seen,
                run=self.options.run,
            )
            if not self._deliver(receiver, notification):
                is_delivered = False
                continue
            change = partial(ClusterState.with_notified, receiver=receiver.id, notified=notified.after(drift))
            self._update(cluster, change)
        return is_delivered

    def clusters_remembered(self) -> frozenset[str]:
        """Return the clusters that the state file holds."""
        path = self.options.state_path
        with self._lock:
            return frozenset(self._states if path is None else self._read(path))

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some, and receivers that are not notified any more."""
        with self._lock:
            self._kept = frozenset(clusters)
            self._states = self._without_others(self._states)

    def _deliver(self, receiver: Receiver, notification: Notification) -> bool:
        """Post a notification, unless the receiver has just failed; return whether it arrived."""
        failed_at = self._failing.get(receiver.id)
        if failed_at is not None and self.clock.monotonic() - failed_at < _PAUSE:
            return False
        render = render_slack if receiver.format is MessageFormat.SLACK else dump_notification
        try:
            post(receiver, render(notification).encode(), key=self.options.key, clock=self.clock)
        except HttpError as error:
            if failed_at is None:
                self.warn(f"{spell_name(notification.cluster)}: not notified: {error}. The next run tries again")
            self._failing[receiver.id] = self.clock.monotonic()
            return False
        if self._failing.pop(receiver.id, None) is not None:
            # The path of its URL may be a secret.
            self.warn(f"{receiver.url.origin} is notified again")
        return True

    def _update(
        self, cluster: str, change: Callable[[ClusterState], ClusterState]
    ) -> tuple[ClusterState, ClusterState]:
        """Change what is remembered of a cluster, in the file as it is now, and return it as it was and as it is."""
        path = self.options.state_path
        with self._lock, nullcontext(True) if path is None else update_lock(path) as is_locked:
            self._say("lock", None if is_locked else _not_locked(path))
            if path is not None:
                self._states = self._without_others(self._read(path))
            before = self._states.get(cluster, ClusterState())
            after = change(before)
            if after != before:
                self._states = {**self._states, cluster: after}
                if path is not None:
                    self._write(path)
        return before, after

    def _without_others(self, states: Mapping[str, ClusterState]) -> dict[str, ClusterState]:
        if self._kept is None:
            return dict(states)
        ids = {receiver.id for receiver in self.options.receivers}
        return {
            name: structs.replace(state, notified={each: last for each, last in state.notified.items() if each in ids})
            for name, state in states.items()
            if name in self._kept
        }

    def _read(self, path: Path) -> dict[str, ClusterState]:
        """Return what the file holds, which other processes write too, and else what this process remembers."""
        found, problem = self._states, None
        try:
            found = load_notify_state(read_text(path, _STATE_LIMIT))
        except FileReadError as error:
            problem = None if error.is_missing else f"cannot be read: {error.reason}"
        except ValueError as error:
            problem = f"cannot be used: {error}"
        self._say("read", problem and f"{path} {problem}; the notification state is reset")
        return {**found, **self._states} if self._said.get("write") else found

    def _write(self, path: Path) -> None:
        problem = None
        try:
            write_text_atomically(path, dump_notify_state(self._states))
        except (OSError, QuotaformError) as error:
            reason = str(error.strerror or error) if isinstance(error, OSError) else str(error)
            problem = f"{path} cannot be written: {reason}; notifications may be repeated"
        self._say("write", problem)

    def _say(self, what: str, problem: str | None) -> None:
        """Warn of a problem, once as long as it stays."""
        if problem is not None and problem != self._said.get(what):
            self.warn(problem)
        self._said[what] = problem


def _not_locked(path: Path | None) -> str:
    return (
        f"{path} is written without a lock, because another process keeps its folder locked; "
        "what other runs write to it at the same time may be lost"
    )


_LIMIT: Final = 32 * MIB


class MetricStore(Struct):
    """The metrics of clusters; threads may share it."""

    path_of: Callable[[str], Path | None]  # The file of a cluster, which several may share; `None`: in memory only
    warn: Warn  # Called with what is wrong with a file that exists
    is_deferred: bool = False  # Whether files are written by `write` alone: once for many clusters
    samples: dict[MetricSample, float] = field(default_factory=dict)
    _unwritten: list[RunFacts] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, runs: Iterable[RunFacts], *, only: Collection[str] | None = None) -> None:
        """Take up runs, and write the files of their clusters unless that is deferred.

        `only` holds all clusters that there are, if others are to be left out. Raises `QuotaformError` if a file cannot
        be written.
        """
        with self._lock:
            for run in runs:
                self.samples = merge_run(self.samples, run)
                self._unwritten.append(run)
        if not self.is_deferred:
            self.write(only=only)

    def write(self, *, only: Collection[str] | None = None) -> None:
        """Write the files of the clusters that runs were taken up of since the last time.

        What a file says of other clusters stays, and of a cluster that could not be compared, too. Other processes may
        write the same file. `only` holds all clusters that there are, if others are to be left out. Raises
        `QuotaformError` if a file cannot be written.
        """
        with self._lock:
            runs, self._unwritten = self._unwritten, []
            files: dict[Path, list[RunFacts]] = {}
            for run in runs:
                path = self.path_of(run.cluster)
                if path is not None:
                    files.setdefault(path, []).append(run)
            for path, of_file in files.items():
                self._update(path, of_file, only)

    def clusters_in(self, paths: Iterable[Path]) -> frozenset[str]:
        """Return the clusters whose metrics stand in some files; a file that cannot be used has none."""
        from quotaform.drift.prometheus import parse_metrics

        found: set[str] = set()
        for path in paths:
            try:
                names = {labels[0] for _, labels in parse_metrics(read_text(path, _LIMIT))}
            except (FileReadError, ValueError):
                continue
            # A folder of node_exporter has files of other jobs, too.
            found |= {name for name in names if self.path_of(name) == path}
        return frozenset(found)

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some; files stay as they are."""
        with self._lock:
            self.samples = keep_clusters(self.samples, clusters)

    def _update(self, path: Path, runs: Iterable[RunFacts], only: Collection[str] | None) -> None:
        from quotaform.drift.prometheus import render_metrics

        with update_lock(path) as is_locked:
            if not is_locked:
                self.warn(_not_locked(path))
            samples = self._read(path)
            for run in runs:
                samples = merge_run(samples, run)
            try:
                write_text_atomically(path, render_metrics(samples if only is None else keep_clusters(samples, only)))
            except OSError as error:
                raise QuotaformError(f"{path} cannot be written: {error.strerror or error}") from error

    def _read(self, path: Path) -> dict[MetricSample, float]:
        from quotaform.drift.prometheus import parse_metrics

        try:
            return parse_metrics(read_text(path, _LIMIT))
        except FileReadError as error:
            if not error.is_missing:
                self.warn(f"{path} cannot be read: {error.reason}; earlier metrics in it are lost")
        except ValueError as error:
            self.warn(f"{path} cannot be used: {error}; earlier metrics in it are lost")
        return {}


COMMAND: Final = "drift"


class DriftReporter(Struct, frozen=True):
    """Writes metrics and notifies receivers."""

    metrics: MetricStore
    alerts: DriftAlerts
    clock: Clock

    def report(
        self, outcomes: Sequence[ClusterOutcome[Drift]], seconds: float, *, only: Collection[str] | None = None
    ) -> None:
        """Report what a run found. Metrics are written before anybody is notified, which may take long, and after it.

        An outcome that an interrupt left unread is left out. `only` holds all clusters that there are, if nothing is to
        be kept of others. Raises `QuotaformError` if metrics cannot be written; receivers were notified.
        """
        if only is not None:
            self.alerts.keep_only(only)
        read = [outcome for outcome in outcomes if not isinstance(outcome.error, NotReadError)]
        found = {outcome.cluster: known_drift(outcome) for outcome in read}
        runs = [self._facts(name, drift, seconds) for name, (drift, _) in found.items()]
        problem = None
        try:
            self.metrics.add(runs, only=only)
        except QuotaformError as error:
            problem = error
        if self.alerts.options.receivers:
            runs = [replace(run, is_notified=self.alerts.notify(run.cluster, *found[run.cluster])) for run in runs]
            if problem is None:
                self.metrics.add(runs, only=only)
        if problem is not None:
            raise problem

    def clusters_known(self, metric_files: Iterable[Path], patterns: Sequence[str] = ()) -> set[str]:
        """Return the clusters of earlier runs, of which files of metrics or the state know; those that globs match."""
        known = self.metrics.clusters_in(metric_files) | self.alerts.clusters_remembered()
        return {name for name in known if not patterns or any(matches_glob(name, pattern) for pattern in patterns)}

    def _facts(self, cluster: str, drift: Drift | None, seconds: float) -> RunFacts:
        first_seen = None if drift is None else self.alerts.record(cluster, drift)
        return RunFacts(
            cluster=cluster,
            command=COMMAND,
            version=__version__,
            finished_at=round(self.clock.now().timestamp(), 3),
            duration=seconds,
            drift=drift,
            first_seen=None if first_seen is None else datetime.fromisoformat(first_seen).timestamp(),
        )


def known_drift(outcome: ClusterOutcome[Drift]) -> tuple[Drift | None, str | None]:
    """Return what was found on a cluster, or why nothing is known of it."""
    if outcome.error is not None:
        return None, str(outcome.error)
    drift = outcome.require()
    if drift.is_known:
        return drift, None
    return None, next(finding.message for finding in drift.findings if finding.rule == rule.CLUSTER_ID.id)
