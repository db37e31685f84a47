"""What follows from a comparison: metrics in files, and receivers notified once per change."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from quotaform.drift.drift import Drift
from quotaform.drift.metric import MetricStore, RunFacts
from quotaform.drift.records import (
    ClusterState,
    Notification,
    Notified,
    choose_event,
    dump_notify_state,
    load_notify_state,
    make_notification,
)
from quotaform.drift.report import render_slack
from quotaform.http.client import HttpRequest, Transport, Url
from quotaform.model import rule
from quotaform.model.entity import spell_name
from quotaform.model.errors import FileReadError, HttpError, NotReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.records.document import json_line
from quotaform.model.scope import matches_glob
from quotaform.model.text import MIB, Secret
from quotaform.system.clock import Clock
from quotaform.system.files import read_text, update_lock, write_atomically

# Notifications posted to webhooks, signed, and sent again for a bounded time.
#
# With a key, a request has the header `X-Quotaform-Signature: t=TIME,v1=HEX`: the time in seconds since 1970, and the
# HMAC-SHA256 of the time, a dot and the body, byte for byte as it is sent.

SIGNATURE_HEADER: Final = "X-Quotaform-Signature"
_TOTAL: Final = 30.0
_FORMATS: Final = ("generic", "slack")


class Receiver(Struct, frozen=True):
    """Who receives notifications. It prints without its path, which may hold a token."""

    url: Url
    format: str = "generic"  # What it takes: one of `_FORMATS`

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read URL, generic=URL or slack=URL.

        Raises `ValueError` if it is not one of these; the message does not show it.
        """
        name, separator, url = text.partition("=")
        if not separator or ":" in name:
            return cls(Url.parse(text))
        if name not in _FORMATS:
            raise ValueError("it must be a URL, alone or after generic= or slack=")
        return cls(Url.parse(url), name)

    @property
    def id(self) -> str:
        """A digest that identifies it; the URL does not follow from it."""
        return sha256(f"{self.format} {self.url.reveal()}".encode()).hexdigest()[:16]


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
    transport = Transport(connect=5.0, total=10.0, attempts=3, patience=_TOTAL, clock=clock)
    response = transport.send(request)
    if not response.is_success:
        raise HttpError(receiver.url.origin, f"answered with status {response.status}", status=response.status)


_STATE_LIMIT: Final = 16 * MIB
_PAUSE: Final = 60.0
"""For how many seconds a receiver that could not be reached is not tried again, for whatever cluster."""


class DriftReporter(Struct, kw_only=True):
    """Writes metrics, and notifies receivers of what is new about clusters; threads may share it, processes its files.

    `warn` is called with what went wrong, which changes the result of no run.
    """

    metrics: MetricStore
    receivers: tuple[Receiver, ...] = ()
    state_path: Path | None = None  # The file that keeps what they were notified of; `None`: the process remembers it
    notifies_failures: bool = False  # Whether they are notified of a check that failed
    key: Secret | None = None  # What notifications are signed with, if anything
    run: str | None = None  # The address of the run's log, if a CI system says it
    clock: Clock
    warn: Callable[[str], None]
    _states: dict[str, ClusterState] = field(default_factory=dict)
    _failing: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _said: dict[str, str | None] = field(default_factory=dict)  # What is wrong with the file, by what was done with it

    def report(
        self,
        outcomes: Sequence[ClusterOutcome[Drift]],
        seconds: float,
        *,
        only: Collection[str] | None = None,
        writes: bool = True,
    ) -> None:
        """Report what a run found. Metrics are written before anybody is notified, which may take long, and after it.

        An outcome that an interrupt left unread is left out. `seconds` is how long the run took. `only` holds all
        clusters that there are, if nothing is to be kept of others. `writes` is whether metrics are written here; else
        the caller does it. Raises `QuotaformError` if they cannot be; receivers were notified.
        """
        if only is not None:
            self.keep_only(only)
        found = {
            outcome.cluster: known_drift(outcome) for outcome in outcomes if not isinstance(outcome.error, NotReadError)
        }
        runs = []
        for cluster, (drift, _) in found.items():
            first_seen = None if drift is None else self.record(cluster, drift)
            run = RunFacts(
                cluster=cluster,
                finished_at=round(self.clock.now().timestamp(), 3),
                duration=seconds,
                drift=drift,
                first_seen=None if first_seen is None else datetime.fromisoformat(first_seen).timestamp(),
            )
            runs.append(run)
        self.metrics.add(runs)
        problem = None
        try:
            if writes:
                self.metrics.write()
        except QuotaformError as error:
            problem = error
        if self.receivers:
            told = [replace(run, is_notified=self.notify(run.cluster, *found[run.cluster])) for run in runs]
            self.metrics.add(told)
        if problem is not None:
            raise problem
        if writes:
            self.metrics.write()

    def clusters_known(self, metric_files: Iterable[Path], patterns: Sequence[str] = ()) -> set[str]:
        """Return the clusters of earlier runs, of which files of metrics or the state know; those that globs match."""
        with self._lock:
            remembered = self._states if self.state_path is None else self._read(self.state_path)
        known = self.metrics.clusters_in(metric_files).union(remembered)
        return {name for name in known if not patterns or any(matches_glob(name, pattern) for pattern in patterns)}

    def record(self, cluster: str, drift: Drift) -> str | None:
        """Record what was found on a cluster, and return since when there has been drift, if there is any."""
        with self._remembered() as states:
            before = states.get(cluster, ClusterState())
            states[cluster] = state = before.with_drift(drift)
        if before.cluster_id is not None and before.cluster_id != drift.cluster.id:
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
        with self._remembered() as states:
            state = states.get(cluster, ClusterState())
        is_delivered = True
        for receiver in self.receivers:
            notified = state.notified.get(receiver.id, Notified())
            event = choose_event(notified, drift, notifies_failures=self.notifies_failures)
            if event is None:
                continue
            notification = make_notification(
                event, cluster, drift, error=error, first_seen=state.first_seen, run=self.run
            )
            if not self._deliver(receiver, notification):
                is_delivered = False
                continue
            latest = replace(notified, is_failure=True)
            if drift is not None:
                latest = Notified(fingerprint=drift.fingerprint if drift.entities else None)
            with self._remembered() as states:
                known = states.get(cluster, ClusterState())
                states[cluster] = replace(known, notified={**known.notified, receiver.id: latest})
        return is_delivered

    def keep_only(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some, and receivers that are not notified any more."""
        with self._lock:
            self.metrics.only = frozenset(clusters)
            self._states = self._without_others(self._states)

    def _deliver(self, receiver: Receiver, notification: Notification) -> bool:
        """Post a notification, unless the receiver has just failed; return whether it arrived."""
        failed_at = self._failing.get(receiver.id)
        if failed_at is not None and self.clock.monotonic() - failed_at < _PAUSE:
            return False
        render = render_slack if receiver.format == "slack" else json_line
        try:
            post(receiver, render(notification).encode(), key=self.key, clock=self.clock)
        except HttpError as error:
            if failed_at is None:
                self.warn(f"{spell_name(notification.cluster.name)}: not notified: {error}. The next run tries again")
            self._failing[receiver.id] = self.clock.monotonic()
            return False
        if self._failing.pop(receiver.id, None) is not None:
            # The path of its URL may be a secret.
            self.warn(f"{receiver.url.origin} is notified again")
        return True

    @contextmanager
    def _remembered(self) -> Iterator[dict[str, ClusterState]]:
        """Yield what is remembered of clusters, as the file has it now; what a block changes is kept."""
        path = self.state_path
        with self._lock, nullcontext() if path is None else update_lock(path) as unlocked:
            self._say("lock", unlocked)
            states = self._states if path is None else self._without_others(self._read(path))
            before, self._states = dict(states), states
            yield states
            if path is None or states == before:
                return
            problem = None
            try:
                write_atomically(path, dump_notify_state(states))
            except (OSError, QuotaformError) as error:  # A folder is wrong usage.
                reason = str(error.strerror or error) if isinstance(error, OSError) else str(error)
                problem = f"{path} cannot be written: {reason}; notifications may be repeated"
            self._say("write", problem)

    def _without_others(self, states: Mapping[str, ClusterState]) -> dict[str, ClusterState]:
        if self.metrics.only is None:
            return dict(states)
        ids = {receiver.id for receiver in self.receivers}
        return {
            name: replace(state, notified={each: last for each, last in state.notified.items() if each in ids})
            for name, state in states.items()
            if name in self.metrics.only
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

    def _say(self, what: str, problem: str | None) -> None:
        """Warn of a problem, once as long as it stays."""
        if problem is not None and problem != self._said.get(what):
            self.warn(problem)
        self._said[what] = problem


def known_drift(outcome: ClusterOutcome[Drift]) -> tuple[Drift | None, str | None]:
    """Return what was found on a cluster, or why nothing is known of it."""
    if outcome.error is not None:
        return None, str(outcome.error)
    drift = outcome.require()
    if drift.is_known:
        return drift, None
    return None, next(finding.message for finding in drift.findings if finding.rule == rule.CLUSTER_ID.id)
