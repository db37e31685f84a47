"""The JSON of drift, of its notifications and of what receivers were notified of; when one is notified."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from msgspec import DecodeError, field, structs

from quotaform.cluster.records import ReachedCluster
from quotaform.drift.drift import Baseline, Drift, Drifted, DriftRecord, DriftSummary
from quotaform.model.records.document import indented
from quotaform.model.records.record import (
    Record,
    ShapeError,
    Timestamp,
    about,
    builtins,
    decode,
    dump_record,
)


def dump_drift(drift: Drift) -> str:
    """Return drift as JSON, without what is counted for metrics alone."""
    fields = builtins(drift)
    return indented({name: fields[name] for name in DriftRecord.__struct_encode_fields__ if name in fields})


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


class ClusterState(Record):
    """What is remembered of a cluster from one run to the next."""

    cluster_id: str | None = None  # `None` if it was never read
    first_seen: Timestamp | None = None  # When drift was first seen since it was last in sync
    notified: dict[str, Notified] = field(default_factory=dict, name="told")  # By the id of the receiver

    def with_drift(self, drift: Drift) -> ClusterState:
        """Return the state once the cluster was compared; nothing is kept of another cluster with its name."""
        known = self if self.cluster_id in (None, drift.cluster.id) else ClusterState()
        first_seen = (known.first_seen or drift.read_at) if drift.entities else None
        return structs.replace(known, cluster_id=drift.cluster.id, first_seen=first_seen)


class NotifyStateRecord(Record, document="notify-state"):
    """What is remembered from one run to the next, by the name of the cluster."""

    clusters: dict[str, ClusterState]


def dump_notify_state(states: Mapping[str, ClusterState]) -> str:
    """Return what is remembered, by the name of the cluster, as JSON."""
    return dump_record(NotifyStateRecord(clusters=dict(sorted(states.items()))))


def load_notify_state(text: str) -> dict[str, ClusterState]:
    """Return what `dump_notify_state` wrote. Raises `ValueError` if it is something else."""
    try:
        return decode(text.encode(errors="replace"), NotifyStateRecord).clusters
    except (ShapeError, DecodeError, RecursionError):
        raise ValueError("it is damaged, or no state file of this version of quotaform drift") from None


def choose_event(
    notified: Notified, drift: Drift | None, *, notifies_failures: bool = False
) -> NotificationEvent | None:
    """Return what a receiver is to be notified of; `None` for nothing.

    | last notified of | found | event |
    | --- | --- | --- |
    | nothing, or in sync | drift | `drift.detected` |
    | drift | the same drift | none |
    | drift | other drift | `drift.changed` |
    | drift | in sync | `drift.resolved` |
    | anything but a failure | the check failed | `drift.check_failed`, if failures are wanted |
    | a failure | drift | `drift.detected` |
    | a failure | in sync | `drift.resolved` |

    `notified` is what it was last notified of. `drift` is what was found; `None` when the check failed.
    """
    if drift is None:
        return NotificationEvent.CHECK_FAILED if notifies_failures and not notified.is_failure else None
    found = drift.fingerprint if drift.entities else None
    if notified.is_failure:
        return NotificationEvent.RESOLVED if found is None else NotificationEvent.DETECTED
    if found == notified.fingerprint:
        return None
    if found is None:
        return NotificationEvent.RESOLVED
    return NotificationEvent.DETECTED if notified.fingerprint is None else NotificationEvent.CHANGED


MOST_ITEMS: Final = 50
"""How many entities a notification lists."""
_MOST_KEYS: Final = 20
"""How many keys of an entity it lists; there are five that are known."""
_RUNBOOK: Final = "https://github.com/quotaform/quotaform/blob/main/docs/drift.md#when-drift-is-reported"
_LONGEST_ERROR: Final = 2_000


class LinksRecord(Record):
    """Where to look."""

    run: Annotated[str | None, about("The log of the run in CI, or null.")]
    runbook: Annotated[str, about("What to do when drift is reported.")]


class Notification(Record, document="notification"):
    """A notification about drift, as quotaform drift --notify posts it."""

    event: Annotated[NotificationEvent, about("What it is about.")]
    cluster: ReachedCluster
    checked_at: Annotated[str | None, about("When the cluster was read (UTC); null if it could not be.")]
    first_seen: Annotated[str | None, about("When drift was first seen since the cluster was in sync (UTC), or null.")]
    fingerprint: Annotated[
        str | None, about("The digest of the drift, as in the JSON of drift; null if the check failed.")
    ]
    baseline: Annotated[Baseline | None, about("Null if the check failed.")]
    summary: Annotated[DriftSummary | None, about("Null if the check failed.")]
    items: Annotated[
        list[Drifted],
        about(f"The entities that differ, by address; at most {MOST_ITEMS}.", max_length=MOST_ITEMS),
    ]
    truncated: Annotated[bool, about("Whether entities were left out.")]
    error: Annotated[str | None, about("Why the check failed, or null.")]
    links: LinksRecord


def make_notification(
    event: NotificationEvent,
    cluster: str,
    drift: Drift | None,
    *,
    error: str | None = None,
    first_seen: str | None = None,
    run: str | None = None,
) -> Notification:
    """Return a notification, for any receiver.

    `drift` is what was found; `None` when the check failed, and `error` says why. `first_seen` is since when there has
    been drift, ISO 8601 UTC. `run` is the address of the run's log, if a CI system says it.
    """
    shown = () if drift is None else drift.entities[:MOST_ITEMS]
    return Notification(
        event=event,
        cluster=ReachedCluster(name=cluster, id=None if drift is None else drift.cluster.id),
        checked_at=None if drift is None else drift.read_at,
        first_seen=first_seen,
        fingerprint=None if drift is None else drift.fingerprint,
        baseline=None if drift is None else drift.baseline,
        summary=None if drift is None else drift.summary,
        items=[structs.replace(each, keys=each.keys[:_MOST_KEYS]) for each in shown],
        truncated=drift is not None and len(drift.entities) > MOST_ITEMS,
        error=None if error is None else error[:_LONGEST_ERROR],
        links=LinksRecord(run=run, runbook=_RUNBOOK),
    )
