"""Drift as machines read it."""

from __future__ import annotations

from json import dumps
from typing import Any, Final

from quotaform.core.document import finding_document, json_number, location_document
from quotaform.core.drift import Drift, DriftedEntity

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.drift"


def render_drift_json(drift: Drift) -> str:
    """Return drift as JSON."""
    return dumps(drift_document(drift), indent=2) + "\n"


def drift_document(drift: Drift) -> dict[str, Any]:
    """Return drift as the plain values of its JSON."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "cluster": {"name": drift.cluster_name, "id": drift.cluster_id},
        "read_at": drift.read_at,
        "options": dict(drift.options),
        "complete": drift.is_complete,
        "status": drift.status,
        "fingerprint": drift.fingerprint,
        "summary": {**drift.summary, "in_sync": drift.in_sync},
        "entities": [_entity_document(drifted) for drifted in drift.entities],
        "findings": [finding_document(finding) for finding in drift.findings],
    }


def _entity_document(drifted: DriftedEntity) -> dict[str, Any]:
    return {
        "address": drifted.entity.address,
        "entity": drifted.entity.names,
        "class": drifted.drift_class.value,
        "declared": drifted.is_declared,
        "keys": [
            {"key": change.key, "desired": json_number(change.after), "actual": json_number(change.before)}
            for change in drifted.changes
        ],
        "location": location_document(drifted.location),
        "owner": drifted.owner,
    }
