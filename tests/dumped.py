"""Documents as text in one piece; the product writes them line by line."""

from __future__ import annotations

from quotaform.core.plan import Plan
from quotaform.core.receipt import Receipt, SavedReceipt
from quotaform.document.plan import plan_lines
from quotaform.document.receipt import receipt_lines


def dumped_plan(plan: Plan) -> str:
    """Return a plan file."""
    return "".join(plan_lines(plan))


def dumped_receipt(receipt: Receipt | SavedReceipt) -> str:
    """Return a receipt."""
    return "".join(receipt_lines(receipt))
