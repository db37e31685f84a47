"""Documents as text in one piece; the product writes them line by line."""

from __future__ import annotations

from quotaform.plan.plan import Plan
from quotaform.plan.receipt import Receipt, SavedReceipt
from quotaform.plan.receipt_records import receipt_lines
from quotaform.plan.records import plan_lines


def dumped_plan(plan: Plan) -> str:
    """Return a plan file."""
    return "".join(plan_lines(plan))


def dumped_receipt(receipt: Receipt | SavedReceipt) -> str:
    """Return a receipt."""
    return "".join(receipt_lines(receipt))
