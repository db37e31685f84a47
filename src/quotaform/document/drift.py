"""The JSON of drift."""

from __future__ import annotations

from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.change import Change
from quotaform.core.drift.drift import Drift, IgnoredDrift
from quotaform.core.drift.drifted import DriftedEntity, PendingChange
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster, dump_entity, dump_finding, dump_location, dump_snapshot_file
from quotaform.document.plan_options import dump_drift_options
from quotaform.model.document_kind import DRIFT


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
