"""When somebody is told about drift: on change and on resolution, and not at every run.

What a receiver was told last is compared with what a run found:

| told last | found | event |
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


class Event(StrEnum):
    """What a notification is about."""

    DETECTED = "drift.detected"
    CHANGED = "drift.changed"
    RESOLVED = "drift.resolved"
    CHECK_FAILED = "drift.check_failed"


@dataclass(frozen=True, slots=True)
class Told:
    """What a receiver was told last about a cluster.

    Attributes:
        fingerprint: That of the drift; `None` when it is in sync, or nothing was said.
        is_failure: Whether it was that the check failed.
    """

    fingerprint: str | None = None
    is_failure: bool = False


NOTHING = Told()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMemory:
    """What is remembered of a cluster from one run to the next.

    Attributes:
        cluster_id: The id that the cluster gave itself; `None` if it was never read.
        first_seen: When drift was first seen since it was last in sync, ISO 8601 UTC; `None` when it is in sync.
        told: What each receiver was told last, by the receiver's id.
    """

    cluster_id: str | None = None
    first_seen: str | None = None
    told: Mapping[str, Told] = field(default_factory=dict)

    def seen(self, drift: Drift) -> ClusterMemory:
        """Return what to remember once a cluster was compared; what was remembered of another cluster is not."""
        known = self if self.cluster_id in (None, drift.cluster_id) else ClusterMemory()
        first_seen = (known.first_seen or drift.read_at) if drift.entities else None
        return replace(known, cluster_id=drift.cluster_id, first_seen=first_seen)

    def with_told(self, receiver: str, told: Told) -> ClusterMemory:
        """Return it with what a receiver was told."""
        return replace(self, told={**self.told, receiver: told})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notification, whoever receives it.

    Attributes:
        event: What it is about.
        cluster: The name of the cluster.
        drift: What was found; `None` when the check failed.
        error: Why the check failed.
        first_seen: Since when there has been drift, ISO 8601 UTC.
        run: The address of the run's log, if a CI system says it.
    """

    event: Event
    cluster: str
    drift: Drift | None = None
    error: str | None = None
    first_seen: str | None = None
    run: str | None = None


def choose_event(told: Told, drift: Drift | None, *, tells_failures: bool = False) -> Event | None:
    """Return what a receiver is to be told; `None` for nothing.

    Args:
        told: What it was told last.
        drift: What was found; `None` when the check failed.
        tells_failures: Whether failures are wanted.
    """
    if drift is None:
        return Event.CHECK_FAILED if tells_failures and not told.is_failure else None
    found = fingerprint_of(drift)
    if told.is_failure:
        return Event.RESOLVED if found is None else Event.DETECTED
    if found == told.fingerprint:
        return None
    if found is None:
        return Event.RESOLVED
    return Event.DETECTED if told.fingerprint is None else Event.CHANGED


def told_by(told: Told, drift: Drift | None) -> Told:
    """Return what a receiver has been told after a notification about a run was delivered.

    Args:
        told: What it was told before.
        drift: What was found; `None` when the check failed.
    """
    return replace(told, is_failure=True) if drift is None else Told(fingerprint_of(drift))


def fingerprint_of(drift: Drift) -> str | None:
    """Return the fingerprint of what differs; `None` when nothing does."""
    return drift.fingerprint if drift.entities else None
