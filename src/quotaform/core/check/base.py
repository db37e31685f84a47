"""Checks of what a plan is compared with, and of what it deletes that no file declares."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.check.writable import is_removable
from quotaform.core.plan import Plan
from quotaform.core.prune import PruneMode
from quotaform.model.finding import Finding
from quotaform.model.text import inert, listed

_SHOWN = 5


def check_base(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Say what is wrong with the base, and when it declares nothing."""
    yield from facts.base.findings


def check_prune(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan that cannot know what was removed, and report that a selection removes nothing."""
    pruning = facts.pruning
    if pruning.mode is PruneMode.REPORT or not pruning.candidates:
        return
    if pruning.ignored:
        more = f" (and {len(pruning.ignored) - 1:,} more)" if len(pruning.ignored) > 1 else ""
        yield rule.RECEIPT_IGNORED.finding(f"{pruning.ignored[0]}{more}")
    undeclared = f"{pruning.candidates:,} live {'entity' if pruning.candidates == 1 else 'entities'} in scope"
    if not plan.is_complete:
        yield rule.NOT_PRUNED.finding(
            f"no file declares {undeclared}, and none is deleted although prune={pruning.mode}: the plan covers a part "
            "only (--select, --exclude)"
        )
    elif pruning.problem is not None:
        yield rule.PRUNE_UNKNOWN.finding(
            f"prune=removed, and no file declares {undeclared}; it is not known whether the files did before: "
            f"{pruning.problem}"
        )
    elif pruning.receipt is not None and (forgotten := list(_removed_since(plan, facts))):
        yield rule.PRUNE_UNKNOWN.finding(
            f"prune=removed, but the last receipt ({inert(pruning.receipt.ref)}) does not declare "
            f"{listed(forgotten, _SHOWN)}, removed from the files since; give the git revision that was applied last: "
            "--base REF"
        )


def _removed_since(plan: Plan, facts: Facts) -> Iterator[str]:
    """Yield the address of what could be pruned and was declared and removed again after the last apply.

    An apply without changes writes no receipt, so receipts alone do not know of an entity that was live as declared.
    """
    for item in plan.unmanaged:
        removal = facts.removed.removals.get(item.entity) if item.in_scope else None
        if removal is not None and not removal.is_applied and is_removable(item.entity, item.values):
            yield item.entity.address
