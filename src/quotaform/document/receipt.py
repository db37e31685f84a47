"""What an apply did, as machines read it."""

from __future__ import annotations

from typing import Any, Final

from quotaform.core.document import seal_document
from quotaform.core.receipt import Receipt, Result

FORMAT_VERSION: Final = "1.0"
KIND: Final = "quotaform.receipt"


def render_receipt_json(receipt: Receipt) -> str:
    """Return a receipt as JSON, one line per entity."""
    return seal_document(receipt_document(receipt))


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as the plain values of its JSON, without the digest."""
    plan = receipt.plan
    return {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "plan_id": plan.plan_id,
        "cluster": {"name": plan.header.cluster_name, "id": plan.header.cluster_id},
        "source": {
            "directory": plan.header.source.directory,
            "commit": plan.header.source.commit,
            "dirty": plan.header.source.dirty,
        },
        "allowances": [],
        "applied_by": receipt.applied_by,
        "started_at": receipt.started_at,
        "finished_at": receipt.finished_at,
        "interrupted_by": receipt.interrupted_by,
        "complete": receipt.is_complete,
        "summary": {result.value: receipt.tally.get(result, 0) for result in Result},
        "results": [
            {
                "address": item.entity.address,
                "entity": item.entity.names,
                "action": item.action.value,
                "result": item.result.value,
                "message": item.message or None,
            }
            for item in receipt.results
        ],
    }
