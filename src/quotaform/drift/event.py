"""When a receiver is notified of drift, and what is remembered for that.

What a receiver was last notified of is compared with what a run found:

| last notified of | found | event |
| --- | --- | --- |
| nothing, or in sync | drift | `drift.detected` |
| drift | the same drift | none |
| drift | other drift | `drift.changed` |
| drift | in sync | `drift.resolved` |
| anything but a failure | the check failed | `drift.check_failed`, if failures are wanted |
| a failure | drift | `drift.detected` |
| a failure | in sync | `drift.resolved` |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import field
from msgspec.structs import replace

from quotaform.drift.drift import Drift
from quotaform.model.records.record import Record, Timestamp

Warn = Callable[[str], None]
"""Called with what is wrong with alerting, as a line; it changes the result of no run."""
Log = Callable[[str], None]
"""Called with what has happened in a watch, as a line without its time."""


class NotificationEvent(StrEnum):
    """What a notification is about."""

    DETECTED = "drift.detected"
    CHANGED = "drift.changed"
    RESOLVED = "drift.resolved"
    CHECK_FAILED = "drift.check_failed"


class Notified(Record):
    """What a receiver was last notified of about a cluster."""

    fingerprint: str | None = None  # That of the drift; `None` when it was in sync, or there was no notification
    is_failure: bool = field(default=False, name="failure")  # Whether it was that the check failed

    def after(self, drift: Drift | None) -> Notified:
        """Return what the receiver was last notified of once a notification about a run is delivered.

        `drift` is what was found; `None` when the check failed.
        """
        return replace(self, is_failure=True) if drift is None else Notified(fingerprint=fingerprint_of(drift))


class ClusterState(Record):
    """What is remembered of a cluster from one run to the next."""

    cluster_id: str | None = None  # `None` if it was never read
    first_seen: Timestamp | None = None  # When drift was first seen since it was last in sync
    notified: dict[str, Notified] = field(default_factory=dict, name="told")  # By the id of the receiver

    def with_drift(self, drift: Drift) -> ClusterState:
        """Return the state once the cluster was compared; nothing is kept of another cluster with its name."""
        known = self if self.cluster_id in (None, drift.cluster_id) else ClusterState()
        first_seen = (known.first_seen or drift.read_at) if drift.entities else None
        return replace(known, cluster_id=drift.cluster_id, first_seen=first_seen)

    def with_notified(self, receiver: str, notified: Notified) -> ClusterState:
        """Return the state with what a receiver was notified of."""
        return replace(self, notified={**self.notified, receiver: notified})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification, whoever receives it."""

    event: NotificationEvent
    cluster: str
    drift: Drift | None = None  # What was found; `None` when the check failed
    error: str | None = None  # Why the check failed
    first_seen: str | None = None  # Since when there has been drift, ISO 8601 UTC
    run: str | None = None  # The address of the run's log, if a CI system says it


def choose_event(
    notified: Notified, drift: Drift | None, *, notifies_failures: bool = False
) -> NotificationEvent | None:
    """Return what a receiver is to be notified of; `None` for nothing.

    `notified` is what it was last notified of. `drift` is what was found; `None` when the check failed.
    """
    if drift is None:
        return NotificationEvent.CHECK_FAILED if notifies_failures and not notified.is_failure else None
    found = fingerprint_of(drift)
    if notified.is_failure:
        return NotificationEvent.RESOLVED if found is None else NotificationEvent.DETECTED
    if found == notified.fingerprint:
        return None
    if found is None:
        return NotificationEvent.RESOLVED
    return NotificationEvent.DETECTED if notified.fingerprint is None else NotificationEvent.CHANGED


def fingerprint_of(drift: Drift) -> str | None:
    """Return the fingerprint of what differs; `None` when nothing does."""
    return drift.fingerprint if drift.entities else None
