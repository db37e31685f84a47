"""When a receiver is notified about drift: on change and on resolution, and not at every run.

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

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from quotaform.core.drift.drift import Drift


class NotificationEvent(StrEnum):
    """What a notification is about."""

    DETECTED = "drift.detected"
    CHANGED = "drift.changed"
    RESOLVED = "drift.resolved"
    CHECK_FAILED = "drift.check_failed"


@dataclass(frozen=True, slots=True)
class Notified:
    """What a receiver was last notified of about a cluster.

    Attributes:
        fingerprint: That of the drift; `None` when it was in sync, or there was no notification.
        is_failure: Whether it was that the check failed.
    """

    fingerprint: str | None = None
    is_failure: bool = False

    def after(self, drift: Drift | None) -> Notified:
        """Return what the receiver was last notified of once a notification about a run is delivered.

        `drift` is what was found; `None` when the check failed.
        """
        return replace(self, is_failure=True) if drift is None else Notified(fingerprint_of(drift))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is remembered of a cluster from one run to the next.

    Attributes:
        cluster_id: The id that the cluster gave itself; `None` if it was never read.
        first_seen: When drift was first seen since it was last in sync, ISO 8601 UTC; `None` when it is in sync.
        notified: What each receiver was last notified of, by the receiver's id.
    """

    cluster_id: str | None = None
    first_seen: str | None = None
    notified: Mapping[str, Notified] = field(default_factory=dict)

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
    """One notification, whoever receives it.

    Attributes:
        drift: What was found; `None` when the check failed.
        error: Why the check failed.
        first_seen: Since when there has been drift, ISO 8601 UTC.
        run: The address of the run's log, if a CI system says it.
    """

    event: NotificationEvent
    cluster: str
    drift: Drift | None = None
    error: str | None = None
    first_seen: str | None = None
    run: str | None = None


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
