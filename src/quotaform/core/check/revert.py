"""Whether what a revert puts back would stay: the files may still declare what the apply wrote."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan
from quotaform.model.entry import Cause, Desired
from quotaform.model.finding import Finding
from quotaform.model.quotas import same_value
from quotaform.model.text import listed

_SHOWN = 5


def check_revert(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn that the next plan would undo a revert, or that it is not known whether it would; note what it leaves."""
    if facts.revert is None:
        return
    if facts.revert.left:
        addresses = [entity.address for entity in facts.revert.left]
        yield rule.REVERT_LEAVES.finding(
            f"{listed(addresses, _SHOWN)} held the planned values before the apply, which did not change them; they "
            "stay as they are"
        )
    if not plan.changes:
        return
    if facts.revert.files_problem is not None:
        yield rule.REVERT_DIFFERS.finding(
            f"it is not known what the files declare, because {facts.revert.files_problem}; correct them, or the next "
            "plan may change the values again"
        )
        return
    differing = [change.entity.address for change in plan.changes if _differs(change, facts.desired)]
    if differing:
        yield rule.REVERT_DIFFERS.finding(
            f"the files declare other values for {listed(differing, _SHOWN)}, and the next plan would set them again: "
            "revert the commit that changed these entries, or declare the values of this plan, as for values that were "
            "set on the cluster by hand and are in no commit"
        )


def _differs(change: EntityChange, desired: Desired) -> bool:
    """Whether the files declare another value for a key that is put back, or none; of what they do not mention, not."""
    entry = desired.get(change.entity)
    if entry is None:
        return False
    values = entry.values if entry.cause is Cause.ENTRY else {}
    return any(not same_value(values.get(row.key), row.after) for row in change.changes)
