"""Documents as text in one piece; the product writes them line by line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from quotaform.model.records.document import sealed_lines
from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, SavedReceipt, receipt_lines
from quotaform.plan.records import plan_lines


def dumped_plan(plan: Plan) -> str:
    return "".join(plan_lines(plan))


def dumped_receipt(receipt: Receipt | SavedReceipt) -> str:
    return "".join(receipt_lines(receipt))


def sealed(document: Mapping[str, Any], lists: Collection[str]) -> str:
    """Return a document, however it was edited, as a file whose digest is right."""
    content = {name: item for name, item in document.items() if name != "digest"}
    return "".join(sealed_lines(content.items(), {name for name in lists if isinstance(content.get(name), list)}))
