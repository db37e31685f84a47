"""The JSON of drift, and of its notifications, sent to webhooks."""

from __future__ import annotations

from json import dumps
from typing import Any, Final

from quotaform.core.canonical import json_number
from quotaform.core.change import Change
from quotaform.core.drift.drift import Drift, IgnoredDrift
from quotaform.core.drift.drifted import DriftedEntity, PendingChange
from quotaform.core.drift.notification import Notification
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster, dump_entity, dump_finding, dump_location, dump_snapshot_file
from quotaform.document.plan_options import dump_drift_options
from quotaform.model.document_kind import DRIFT, NOTIFICATION


def dump_drift(drift: Drift) -> str:
    """Return drift as JSON."""
    fields = {
        "cluster": dump_cluster(drift.cluster_name, drift.cluster_id),
        "read_at": drift.read_at,
        **dump_snapshot_file(drift.snapshot),
        "options": dump_drift_options(drift.options),
        "baseline": dump_baseline(drift),
        "complete": drift.is_complete,
        "status": drift.status,
        "fingerprint": drift.fingerprint,
        "summary": dump_summary(drift),
        "entities": [dump_drifted(drifted) for drifted in drift.entities],
        "pending": [_dump_pending(pending) for pending in drift.pending],
        "ignored": [_dump_ignored(ignored) for ignored in drift.ignored],
        "findings": [dump_finding(finding) for finding in drift.findings],
    }
    return indented(envelope(DRIFT, fields))


def dump_baseline(drift: Drift) -> dict[str, Any]:
    """Return what a cluster was compared with as JSON holds it."""
    base = drift.baseline
    if base is None:
        return {"type": "none", "ref": None, "commit": None}
    return {"type": base.type, "ref": base.ref, "commit": base.commit}


def dump_summary(drift: Drift) -> dict[str, int]:
    """Return how many entities each class has as JSON holds it."""
    return {
        **drift.summary,
        "in_sync": drift.in_sync,
        "pending": len(drift.pending),
        "ignored": drift.ignored_entities,
    }


def dump_drifted(drifted: DriftedEntity) -> dict[str, Any]:
    """Return an entity that differs as JSON holds it."""
    return {
        **dump_entity(drifted.entity),
        "class": drifted.drift_class.value,
        "declared": drifted.is_declared,
        "absent": drifted.absent,
        "keys": [
            {
                **_dump_row(change),
                **({} if drifted.baseline is None else {"baseline": json_number(drifted.agreed(change))}),
            }
            for change in drifted.changes
        ],
        "location": dump_location(drifted.location),
        "owner": drifted.owner,
    }


def _dump_pending(pending: PendingChange) -> dict[str, Any]:
    return {
        **dump_entity(pending.entity),
        "action": pending.action.value,
        "declared": pending.is_declared,
        "keys": [_dump_row(change) for change in pending.changes],
        "location": dump_location(pending.location),
        "owner": pending.owner,
    }


def _dump_ignored(ignored: IgnoredDrift) -> dict[str, Any]:
    return {
        **dump_drifted(ignored.drifted),
        "reason": ignored.ignore.reason,
        "expires": ignored.ignore.expires.isoformat(),
        "ignored_by": dump_location(ignored.ignore.location),
    }


def _dump_row(change: Change) -> dict[str, Any]:
    return {"key": change.key, "desired": json_number(change.after), "actual": json_number(change.before)}


MOST_ITEMS: Final = 50
"""How many entities a notification lists."""
MOST_KEYS: Final = 20
"""How many keys of an entity it lists; there are five that are known."""
RUNBOOK: Final = "https://github.com/quotaform/quotaform/blob/main/docs/drift.md#when-drift-is-reported"
_LONGEST_ERROR: Final = 2_000


def dump_notification(notification: Notification) -> str:
    """Return a notification as JSON on one line."""
    drift = notification.drift
    fields = {
        "event": notification.event.value,
        "cluster": dump_cluster(notification.cluster, None if drift is None else drift.cluster_id),
        "checked_at": None if drift is None else drift.read_at,
        "first_seen": notification.first_seen,
        "fingerprint": None if drift is None else drift.fingerprint,
        "baseline": None if drift is None else dump_baseline(drift),
        "summary": None if drift is None else dump_summary(drift),
        "items": [] if drift is None else _dump_items(drift),
        "truncated": drift is not None and len(drift.entities) > MOST_ITEMS,
        "error": None if notification.error is None else notification.error[:_LONGEST_ERROR],
        "links": {"run": notification.run, "runbook": RUNBOOK},
    }
    return dumps(envelope(NOTIFICATION, fields), allow_nan=False)


def _dump_items(drift: Drift) -> list[dict[str, Any]]:
    items = [dump_drifted(drifted) for drifted in drift.entities[:MOST_ITEMS]]
    return [{**item, "keys": item["keys"][:MOST_KEYS]} for item in items]
