"""What an apply did, as machines read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quotaform.core.canonical import json_number
from quotaform.core.receipt import Receipt, Result
from quotaform.document.envelope import envelope, sealed_lines
from quotaform.document.field import dump_cluster, dump_entity
from quotaform.model.document_kind import RECEIPT

RECEIPT_LISTS: Final = frozenset({"results", "declared"})
"""The fields of a receipt with a line per item."""


def dump_receipt(receipt: Receipt) -> str:
    """Return a receipt as JSON, one line per entity."""
    return "".join(receipt_lines(receipt))


def receipt_lines(receipt: Receipt) -> Iterator[str]:
    """Yield a receipt as JSON in pieces."""
    tally = receipt.tally
    plan = receipt.plan
    rows_of = {change.entity: change.changes for change in plan.changes}
    fields: dict[str, Any] = {
        "plan_id": plan.plan_id,
        "cluster": dump_cluster(plan.header.cluster_name, plan.header.cluster_id),
        "source": {
            "directory": plan.header.source.directory,
            "commit": plan.header.source.commit,
            "dirty": plan.header.source.dirty,
        },
        "allowances": list(map(str, plan.allowances)),
        "applied_by": receipt.applied_by,
        "started_at": receipt.started_at,
        "finished_at": receipt.finished_at,
        "interrupted_by": receipt.interruption,
        "complete": receipt.is_complete,
        "summary": {result.value: tally.get(result, 0) for result in Result},
        **({} if plan.declared is None else {"declared": sorted(entity.address for entity in plan.declared)}),
        "results": (
            {
                **dump_entity(item.entity),
                "action": item.action.value,
                "result": item.result.value,
                "message": item.message or None,
                "keys": [
                    {"key": row.key, "before": json_number(row.before), "after": json_number(row.after)}
                    for row in rows_of[item.entity]
                ],
            }
            for item in receipt.results
        ),
    }
    return sealed_lines(envelope(RECEIPT, fields).items(), RECEIPT_LISTS)
