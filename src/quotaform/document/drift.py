"""Drift as machines read it."""

from __future__ import annotations

from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.drift import Drift, DriftedEntity
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_cluster, dump_entity, dump_finding, dump_location, dump_snapshot_file
from quotaform.model.document_kind import DRIFT


def dump_drift(drift: Drift) -> str:
    """Return drift as JSON."""
    fields = {
        "cluster": dump_cluster(drift.cluster_name, drift.cluster_id),
        "read_at": drift.read_at,
        **dump_snapshot_file(drift.snapshot),
        "options": dict(drift.options),
        "complete": drift.is_complete,
        "status": drift.status,
        "fingerprint": drift.fingerprint,
        "summary": {**drift.summary, "in_sync": drift.in_sync},
        "entities": [_dump_drifted(drifted) for drifted in drift.entities],
        "findings": [dump_finding(finding) for finding in drift.findings],
    }
    return indented(envelope(DRIFT, fields))


def _dump_drifted(drifted: DriftedEntity) -> dict[str, Any]:
    return {
        **dump_entity(drifted.entity),
        "class": drifted.drift_class.value,
        "declared": drifted.is_declared,
        "absent": drifted.absent,
        "keys": [
            {"key": change.key, "desired": json_number(change.after), "actual": json_number(change.before)}
            for change in drifted.changes
        ],
        "location": dump_location(drifted.location),
        "owner": drifted.owner,
    }
