"""Checks of a revert: whether what it puts back would stay, and whether scope, roots and policies permit it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.policy import SlowPolicyError, find_violations
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan
from quotaform.model.entry import Cause, Desired, Entry
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import same_value
from quotaform.model.text import inert, listed

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
            f"the files declare other values for {listed(differing, _SHOWN)}, so the next plan would undo this revert: "
            "revert the commit that changed these entries or, if the values of this plan were set on the cluster by "
            "hand, declare them in the files"
        )


def _differs(change: EntityChange, desired: Desired) -> bool:
    """Whether the files declare another value for a key that is put back, or none; of what they do not mention, not."""
    entry = desired.get(change.entity)
    if entry is None:
        return False
    values = entry.values if entry.cause is Cause.ENTRY else {}
    return any(not same_value(values.get(row.key), row.after) for row in change.changes)


def check_unmanaged_revert(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a revert of entities that these files do not manage any more, or may not manage."""
    revert = facts.revert
    if revert is None or not plan.changes:
        return
    entities = [change.entity for change in plan.changes]
    outside = [entity.address for entity in entities if not facts.safeguards.scope.contains(entity)]
    claimed = [entity.address for entity in entities if entity in revert.claimed]
    for addresses, what in ((outside, "out of scope"), (claimed, "declared in another quota repository (roots)")):
        if addresses:
            are = "is" if len(addresses) == 1 else "are"
            yield rule.REVERT_UNMANAGED.finding(
                f"{listed(addresses, _SHOWN)} {are} {what}; leave out with --exclude what should stay as it is"
            )
    if revert.claims_problem is not None:
        yield rule.REVERT_UNMANAGED.finding(
            f"it is not known whether another quota repository declares what this changes, because "
            f"{revert.claims_problem}"
        )


def check_revert_policies(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of each value that a revert puts back and a policy refuses; of what it leaves, a revert says nothing."""
    if facts.revert is None or not plan.changes:
        return
    if facts.revert.policies_problem is not None:
        yield rule.REVERT_POLICY.finding(f"the values are not checked, because {facts.revert.policies_problem}")
    written = {(row.entity, row.key) for change in plan.changes for row in change.changes if row.after is not None}
    entries = {change.entity: _restored(change, facts.desired) for change in plan.changes if change.after}
    found = (
        rule.REVERT_POLICY.finding(f"the policy took too long, and was not finished ({inert(policy.name)})")
        if isinstance(violation, SlowPolicyError)
        else rule.REVERT_POLICY.finding(
            f"{violation.text} ({inert(policy.name)})", address=entry.entity.address, key=violation.key
        )
        for entry, policy, violation in find_violations(entries, facts.policies, plan.header.cluster_name)
        if isinstance(violation, SlowPolicyError) or (entry.entity, violation.key) in written
    )
    yield from islice(found, MAX_PROBLEMS)
    if next(found, None) is not None:
        yield rule.MORE_WARNINGS.finding(f"and more: only the first {MAX_PROBLEMS} violations of policies are shown")


def _restored(change: EntityChange, desired: Desired) -> Entry:
    """Return an entry as policies would see it once the values are back; a receipt does not hold an owner."""
    entry = desired.get(change.entity) or Entry(entity=change.entity, values={})
    values = {key: value for key, value in change.after.items() if key in QUOTA_KEYS}
    return entry._replace(values=values, places=(), cause=Cause.ENTRY)
