"""The checks of a plan: they come after it and are made from it.

A check is one function of a plan and of the facts around it that yields findings. `CHECKS` lists those that concern
every plan, `GUARDS` those that concern one which is meant to be applied; a plan that drift is read from has none of the
latter. To add a guard:

1. write its row in `quotaform.core.check.rule`, with `is_blocking=True`, and `is_allowable=True` if `--allow` lifts it;
2. write its function in `quotaform.core.check.guard.change` if it follows from the plan alone, so that it is found
   again in a plan file, else in `quotaform.core.check.guard.guard`, and list it in `GUARDS`;
3. write its test in `tests/unit/test_guard.py`.

Messages, the plan file, the exit code and `docs/rules.md` (`make docs`) follow from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Final, TypeAlias

from quotaform.core.change import Action
from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.check.finding_list import MAX_PROBLEMS
from quotaform.core.check.guard.approval import lift
from quotaform.core.check.guard.change import check_changes, is_halved, shown_limit
from quotaform.core.check.guard.guard import (
    check_cluster_id,
    check_empty,
    check_history,
    check_loosened,
    check_removed,
    check_selection,
    check_shrink,
    check_source,
)
from quotaform.core.check.lint.fact import LintFacts
from quotaform.core.check.lint.lint import check_lints
from quotaform.core.check.live import check_live
from quotaform.core.check.policy import SlowPolicyError, check_policies, find_violations
from quotaform.core.check.same_cluster import check_same_cluster
from quotaform.core.check.writable import is_removable
from quotaform.core.effects import changed_limits
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan
from quotaform.core.prune import PruneMode
from quotaform.core.scope import is_glob
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause, Desired, Entry
from quotaform.model.finding import Finding, Severity, by_weight
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import same_value
from quotaform.model.text import inert, listed


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


def check_protected(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan by which an effective limit of a protected entity becomes half or less, whichever entry does it.

    The entities are those that the cluster holds or the files declare, and those that `protect`
    names without a glob.
    What the plan changes of an entity itself is found by `quotaform.core.check.guard.change`.
    """
    if not facts.safeguards.limits.protect or not plan.changes:
        return
    own = {(row.entity, row.key) for change in plan.changes for row in change.changes}
    gone = {change.entity for change in plan.changes if change.action is Action.DELETE}
    planned = {change.entity: change.after for change in plan.changes}
    for entity, key, effect in changed_limits(facts.actual, planned, _protected(facts)):
        if entity not in gone and (entity, key) not in own and is_halved(key, effect):
            source = effect.after.source
            by = f" by {source.address}" if source is not None else ""
            yield rule.PROTECT.finding(
                f"this entity is protected, and the effective {key} would fall from "
                f"{shown_limit(key, effect.before.value)} to {shown_limit(key, effect.after.value)}{by} "
                "(limit: more than half)",
                address=entity.address,
                key=key,
                value=effect.after.value,
            )


def _protected(facts: Facts) -> Iterator[Entity]:
    limits = facts.safeguards.limits
    known = dict.fromkeys(chain(facts.actual, facts.desired))
    yield from (entity for entity in known if limits.protects(entity))
    for pattern in limits.protect:
        if all(glob is not None and not is_glob(glob) for _, glob in pattern.parts):
            entity = Entity(dict(pattern.parts))
            if entity not in known:
                yield entity


Check: TypeAlias = Callable[[Plan, Facts], Iterable[Finding]]


def check_plan_lints(plan: Plan, facts: Facts) -> tuple[Finding, ...]:
    """Return what lints find about what the plan changes, on a cluster that holds what it will once it is applied.

    Of what they find about other entries the plan has the number only: a reviewer of a change is not asked to read
    what was there before.
    """
    if facts.lints is None:
        return ()
    quotas = facts.actual
    if plan.changes:
        after = {**quotas, **{change.entity: change.after for change in plan.changes}}
        quotas = {entity: values for entity, values in after.items() if values}
    linted = check_lints(
        LintFacts(
            desired=facts.desired,
            quotas=quotas,
            settings=facts.lints.settings,
            capacity=facts.lints.capacity,
            today=facts.lints.today,
            selection=facts.selection,
            concerned=frozenset(change.entity for change in plan.changes),
        )
    )
    if not linted.others:
        return linted.findings
    number = " and ".join(
        f"{count:,} {severity.value if count == 1 else f'{severity.value}s'}"
        for severity in Severity
        if (count := linted.others.get(severity, 0))
    )
    text = f"{number} about entries that this plan does not change; quotaform validate lists them"
    return (*linted.findings, rule.OTHER_WARNINGS.finding(text))


def check_plan_policies(plan: Plan, facts: Facts) -> Iterable[Finding]:
    """Return which declared entries violate a policy; a revert does not apply them, see `check_revert_policies`."""
    if facts.revert is not None:
        return ()
    return check_policies(facts.desired, facts.policies, plan.header.cluster_name, facts.selection)


CHECKS: Final[tuple[Check, ...]] = (
    check_cluster_id,
    check_selection,
    check_source,
    check_removed,
    check_history,
    check_plan_lints,
    check_plan_policies,
    check_base,
    check_prune,
    lambda plan, facts: check_live(facts.actual, facts.desired, facts.pruning.pruned),
    check_revert,
    check_unmanaged_revert,
    check_revert_policies,
)
"""The checks of every plan."""

GUARDS: Final[tuple[Check, ...]] = (
    check_same_cluster,
    check_empty,
    check_shrink,
    check_loosened,
    lambda plan, facts: check_changes(plan, facts.safeguards.limits),
    check_protected,
)
"""The checks of a plan that is meant to be applied."""


def with_findings(plan: Plan, facts: Facts, checks: Iterable[Check] = CHECKS) -> Plan:
    """Return the plan together with the findings of checks, what blocks first, and the approvals that lift any of them.

    A finding of a blocking rule blocks unless an approval or one of the plan's allowances lifts it, see
    `quotaform.core.check.guard.approval`. What there is to know about allowances and approvals, such as that one lifts
    nothing, is a finding, too.
    """
    found = (finding for check in checks for finding in check(plan, facts))
    lifted = lift(found, plan.allowances, facts.approvals, facts.today, plan.deleted, facts.base.approvals)
    return replace(plan, findings=tuple(by_weight(lifted.findings + lifted.notes)), approvals=lifted.approvals)
