"""Notifying receivers of drift, once per change, and remembering what they were notified of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

from quotaform.app.clock import Clock
from quotaform.app.file_lock import update_lock
from quotaform.atomic_file import write_text_atomically
from quotaform.core.drift.drift import Drift
from quotaform.core.drift.log_event import (
    FileNotLocked,
    NotificationFailed,
    ReceiverRecovered,
    StateNotWritten,
    StateOfOtherCluster,
    StateUnusable,
    Warn,
)
from quotaform.core.drift.notification import ClusterState, Notification, Notified, choose_event
from quotaform.document.drift import dump_notification
from quotaform.document.notify_state import dump_notify_state, load_notify_state
from quotaform.errors import FileReadError, HttpError, QuotaformError
from quotaform.files import MIB, read_text
from quotaform.model.secret import Secret
from quotaform.notify.webhook import MessageFormat, Receiver, post
from quotaform.views.drift.notification_slack import render_slack

_STATE_LIMIT: Final = 16 * MIB
_PAUSE: Final = 60.0
"""For how many seconds a receiver that could not be reached is not tried again, for whatever cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOptions:
    """Who is notified of drift, and how.

    Attributes:
        state_path: The file that keeps what they were notified of; `None` to keep it while this process runs.
        notifies_failures: Whether they are notified of a check that failed.
        key: What notifications are signed with, if anything.
        run: The address of the run's log, if a CI system says it.
    """

    receivers: tuple[Receiver, ...] = ()
    state_path: Path | None = None
    notifies_failures: bool = False
    key: Secret | None = None
    run: str | None = None


@dataclass(slots=True)
class DriftAlerts:
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
    _problem: StateUnusable | None = None
    _is_unwritable: bool = False
    _is_unlocked: bool = False

    def record(self, cluster: str, drift: Drift) -> str | None:
        """Record what was found on a cluster, and return since when there has been drift, if there is any."""
        before, state = self._update(cluster, lambda known: known.with_drift(drift))
        if before.cluster_id is not None and before.cluster_id != drift.cluster_id:
            self.warn(StateOfOtherCluster(cluster, before.cluster_id))
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
        with self._lock:
            failed_at = self._failing.get(receiver.id)
        if failed_at is not None and self.clock.monotonic() - failed_at < _PAUSE:
            return False
        render = render_slack if receiver.format is MessageFormat.SLACK else dump_notification
        try:
            post(
                receiver,
                render(notification).encode(),
                key=self.options.key,
                now=self.clock.now,
                monotonic=self.clock.monotonic,
                sleep=self.clock.sleep,
            )
        except HttpError as error:
            if failed_at is None:
                self.warn(NotificationFailed(notification.cluster, error))
            with self._lock:
                self._failing[receiver.id] = self.clock.monotonic()
            return False
        with self._lock:
            has_failed = self._failing.pop(receiver.id, None) is not None
        if has_failed:
            self.warn(ReceiverRecovered(receiver.url.origin))
        return True

    def _update(
        self, cluster: str, change: Callable[[ClusterState], ClusterState]
    ) -> tuple[ClusterState, ClusterState]:
        """Change what is remembered of a cluster, in the file as it is now, and return it as it was and as it is."""
        path = self.options.state_path
        with self._lock, nullcontext(True) if path is None else update_lock(path) as is_locked:
            self._warn_unlocked(path, is_locked=is_locked)
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
            name: replace(state, notified={each: last for each, last in state.notified.items() if each in ids})
            for name, state in states.items()
            if name in self._kept
        }

    def _read(self, path: Path) -> Mapping[str, ClusterState]:
        """Return what the file holds, which other processes write too, and else what this process remembers."""
        problem = None
        try:
            found = load_notify_state(read_text(path, _STATE_LIMIT))
        except FileReadError as error:
            found = self._states
            if not error.is_missing:
                problem = StateUnusable(str(path), error.reason, is_read=False)
        except ValueError as error:
            found = self._states
            problem = StateUnusable(str(path), str(error), is_read=True)
        if problem is not None and problem != self._problem:
            self.warn(problem)
        self._problem = problem
        return {**found, **self._states} if self._is_unwritable else found

    def _warn_unlocked(self, path: Path | None, *, is_locked: bool) -> None:
        if not is_locked and not self._is_unlocked:
            self.warn(FileNotLocked(str(path)))
        self._is_unlocked = not is_locked

    def _write(self, path: Path) -> None:
        try:
            write_text_atomically(path, dump_notify_state(self._states))
        except (OSError, QuotaformError) as error:
            reason = str(error.strerror or error) if isinstance(error, OSError) else str(error)
            if not self._is_unwritable:
                self.warn(StateNotWritten(str(path), reason))
            self._is_unwritable = True
        else:
            self._is_unwritable = False
