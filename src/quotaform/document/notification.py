"""The JSON of a drift notification, sent to webhooks."""

from __future__ import annotations

from json import dumps
from typing import Any, Final

from quotaform.core.drift.drift import Drift
from quotaform.core.drift.notification import Notification
from quotaform.document.drift import dump_baseline, dump_drifted, dump_summary
from quotaform.document.envelope import envelope
from quotaform.document.field import dump_cluster
from quotaform.model.document_kind import NOTIFICATION

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
