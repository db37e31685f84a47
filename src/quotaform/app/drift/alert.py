"""Telling receivers about drift, once per change, and remembering what they were told."""

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
from quotaform.core.drift.notice import NOTHING, ClusterMemory, Notice, choose_event, told_by
from quotaform.document.notification import dump_notification
from quotaform.document.notify_state import dump_notify_state, load_notify_state
from quotaform.errors import FileReadError, HttpError, QuotaformError
from quotaform.files import MIB, read_text
from quotaform.model.entity import spell_name
from quotaform.model.secret import Secret
from quotaform.notify.webhook import MessageFormat, Receiver, post
from quotaform.views.drift.notification_slack import render_slack

_STATE_LIMIT: Final = 16 * MIB
_PAUSE: Final = 60.0
"""For how many seconds a receiver that could not be reached is not tried again, for whatever cluster."""

Warn = Callable[[str], None]
"""Prints a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOptions:
    """Whom to tell what.

    Attributes:
        receivers: Whom.
        state_path: Where it is remembered what they were told; `None` to remember it while this process runs.
        tells_failures: Whether they are told that a check failed.
        key: What notifications are signed with, if anything.
        run: The address of the run's log, if a CI system says it.
    """

    receivers: tuple[Receiver, ...] = ()
    state_path: Path | None = None
    tells_failures: bool = False
    key: Secret | None = None
    run: str | None = None


@dataclass(slots=True)
class DriftAlerts:
    """Tells receivers what is new about clusters; threads may share it, and processes its state file.

    Attributes:
        options: Whom to tell what.
        clock: The time.
        warn: Told what went wrong; nothing of it changes the result of a run.
    """

    options: AlertOptions
    clock: Clock
    warn: Warn
    _memories: dict[str, ClusterMemory] = field(default_factory=dict)
    _kept: frozenset[str] | None = None
    _failing: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _problem: str | None = None
    _is_unwritable: bool = False

    def see(self, cluster: str, drift: Drift) -> str | None:
        """Take up what was found on a cluster, and return since when there has been drift, if there is any."""
        before, memory = self._update(cluster, lambda known: known.seen(drift))
        if before.cluster_id not in (None, drift.cluster_id):
            self.warn(
                f"{spell_name(cluster)}: what is remembered is of another cluster ({spell_name(before.cluster_id)}); "
                "notifications about it begin anew"
            )
        return memory.first_seen

    def tell(self, cluster: str, drift: Drift | None, error: str | None) -> bool:
        """Tell receivers what is new about a cluster, and return whether everything that was due was delivered.

        What was not delivered is tried again at the next run.

        Args:
            cluster: The name of the cluster.
            drift: What was found, taken up before; `None` when it could not be compared.
            error: Why it could not be.
        """
        _, memory = self._update(cluster, lambda known: known)
        is_delivered = True
        for receiver in self.options.receivers:
            told = memory.told.get(receiver.id, NOTHING)
            event = choose_event(told, drift, tells_failures=self.options.tells_failures)
            if event is None:
                continue
            notice = Notice(
                event=event,
                cluster=cluster,
                drift=drift,
                error=error,
                first_seen=memory.first_seen,
                run=self.options.run,
            )
            if not self._deliver(receiver, notice):
                is_delivered = False
                continue
            self._update(cluster, partial(ClusterMemory.with_told, receiver=receiver.id, told=told_by(told, drift)))
        return is_delivered

    def keep(self, clusters: Collection[str]) -> None:
        """Forget all clusters but some, and receivers that are not told any more."""
        with self._lock:
            self._kept = frozenset(clusters)
            self._memories = self._without_others(self._memories)

    def _deliver(self, receiver: Receiver, notice: Notice) -> bool:
        """Post a notification, unless the receiver has just failed; return whether it arrived."""
        with self._lock:
            failed_at = self._failing.get(receiver.id)
        if failed_at is not None and self.clock.monotonic() - failed_at < _PAUSE:
            return False
        render = render_slack if receiver.format is MessageFormat.SLACK else dump_notification
        try:
            post(
                receiver,
                render(notice).encode(),
                key=self.options.key,
                now=self.clock.now,
                monotonic=self.clock.monotonic,
                sleep=self.clock.sleep,
            )
        except HttpError as error:
            if failed_at is None:
                self.warn(f"{spell_name(notice.cluster)}: not notified: {error}. The next run tries again")
            with self._lock:
                self._failing[receiver.id] = self.clock.monotonic()
            return False
        with self._lock:
            has_failed = self._failing.pop(receiver.id, None) is not None
        if has_failed:
            self.warn(f"{receiver.url} is notified again")
        return True

    def _update(
        self, cluster: str, change: Callable[[ClusterMemory], ClusterMemory]
    ) -> tuple[ClusterMemory, ClusterMemory]:
        """Change what is remembered of a cluster, in the file as it is now, and return it as it was and as it is."""
        path = self.options.state_path
        with self._lock, nullcontext() if path is None else update_lock(path):
            if path is not None:
                self._memories = self._without_others(self._read(path))
            before = self._memories.get(cluster, ClusterMemory())
            after = change(before)
            if after != before:
                self._memories = {**self._memories, cluster: after}
                if path is not None:
                    self._write(path)
        return before, after

    def _without_others(self, memories: Mapping[str, ClusterMemory]) -> dict[str, ClusterMemory]:
        if self._kept is None:
            return dict(memories)
        ids = {receiver.id for receiver in self.options.receivers}
        return {
            name: replace(memory, told={each: told for each, told in memory.told.items() if each in ids})
            for name, memory in memories.items()
            if name in self._kept
        }

    def _read(self, path: Path) -> Mapping[str, ClusterMemory]:
        """Return what the file holds, which other processes write too, and else what this process remembers."""
        problem = None
        try:
            found = load_notify_state(read_text(path, _STATE_LIMIT))
        except FileReadError as error:
            found = self._memories
            if not error.is_missing:
                problem = f"{path} cannot be read: {error.reason}; notifications begin anew"
        except ValueError as error:
            found = self._memories
            problem = f"{path} cannot be used: {error}; notifications begin anew"
        if problem is not None and problem != self._problem:
            self.warn(problem)
        self._problem = problem
        return {**found, **self._memories} if self._is_unwritable else found

    def _write(self, path: Path) -> None:
        try:
            write_text_atomically(path, dump_notify_state(self._memories))
        except (OSError, QuotaformError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if not self._is_unwritable:
                self.warn(f"{path} cannot be written: {reason}; notifications may be repeated")
            self._is_unwritable = True
        else:
            self._is_unwritable = False
