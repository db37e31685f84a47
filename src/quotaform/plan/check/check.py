"""The checks of a plan, which come after it and are made from it, and what lifts a block.

A check is one function of a plan and of the facts around it that yields findings. `CHECKS` lists those that concern
every plan, `quotaform.plan.check.guard.GUARDS` those that concern one which is meant to be applied; a plan that drift
is read from has none of the latter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain, islice
from typing import Final

from msgspec import structs

from quotaform.desired.policy.policy import TOO_SLOW, check_policies, find_violations
from quotaform.desired.writer import check_live, is_removable
from quotaform.model import rule
from quotaform.model.entity import try_address
from quotaform.model.finding import (
    APPROVALS_NAME,
    DELETE,
    Allowance,
    Approval,
    Finding,
    Location,
    Severity,
    bound_values,
    by_severity,
)
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import STATE_ABSENT, Cause, Desired, Entry, check_pinned_id, same_value
from quotaform.model.rule import MAX_PROBLEMS, FindingRule
from quotaform.model.scope import is_glob, matches_glob
from quotaform.model.settings import Capacity, PruneMode
from quotaform.model.text import inert, listed, option_of, quote
from quotaform.plan.check.guard import Check, Facts
from quotaform.plan.check.lint import LintFacts, check_lints
from quotaform.plan.plan import EntityChange, Plan
from quotaform.report.text import counted


def check_reading(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan for another cluster than the pinned one; warn of each `--select` pattern that matches neither a
    declared nor a live entity, and that the commit of the files is not known.
    """
    header = plan.header
    found = check_pinned_id(header.cluster.name, facts.safeguards.pinned_id, header.cluster.id, header.snapshot)
    if found is not None:
        yield found
    for glob in facts.selection.without_match(chain(facts.desired, facts.actual)):
        yield rule.NO_MATCH.finding(f"{option_of('select')} {quote(glob)} matches no entity")
    if facts.source_problem:
        yield rule.UNKNOWN_COMMIT.finding(f"the commit of the files is not known: {facts.source_problem}")


def check_removed(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of each live entity that the files declared before; note each part of the earlier files that was not
    searched for such.
    """
    for item in plan.unmanaged:
        removal = facts.removed.removals.get(item.entity) if item.in_scope else None
        if removal is not None:
            step = f"in {removal.commit[:7]}" if removal.commit else "(not committed)"
            yield rule.NO_LONGER_DECLARED.finding(
                f"removed from {inert(removal.file)} {step}; it stays on the cluster. To delete it, declare it with "
                f"{STATE_ABSENT}",
                address=item.entity.address,
                location=Location(removal.file) if removal.file_exists else None,
            )
    for text in facts.removed.not_searched:
        yield rule.HISTORY_NOT_SEARCHED.finding(text)


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
    differing = []
    for change in plan.changes:
        entry = facts.desired.get(change.entity)
        if entry is None:  # What the files do not mention, the next plan leaves as it is.
            continue
        values = entry.values if entry.cause is Cause.ENTRY else {}
        if any(not same_value(values.get(row.key), row.after) for row in change.changes):
            differing.append(change.entity.address)
    if differing:
        yield rule.REVERT_DIFFERS.finding(
            f"the files declare other values for {listed(differing, _SHOWN)}, so the next plan would undo this revert: "
            "revert the commit that changed these entries or, if the values of this plan were set on the cluster by "
            "hand, declare them in the files"
        )


def check_unmanaged_revert(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a revert of entities that these files do not manage any more, or may not manage."""
    revert = facts.revert
    if revert is None or not plan.changes:
        return
    entities = [change.entity for change in plan.changes]
    outside = [entity.address for entity in entities if not facts.safeguards.config.scope.contains(entity)]
    claimed = [entity.address for entity in entities if entity in revert.claimed]
    for addresses, what in ((outside, "out of scope"), (claimed, "declared in another quota repository (roots)")):
        if addresses:
            are = "is" if len(addresses) == 1 else "are"
            yield rule.REVERT_UNMANAGED.finding(
                f"{listed(addresses, _SHOWN)} {are} {what}; "
                f"leave out with {option_of('exclude')} what should stay as it is"
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
        rule.REVERT_POLICY.finding(
            f"{violation.text} ({inert(policy.name)})",
            address=None if violation is TOO_SLOW else entry.entity.address,
            key=violation.key,
        )
        for entry, policy, violation in find_violations(entries, facts.policies, plan.header.cluster.name)
        if violation is TOO_SLOW or (entry.entity, violation.key) in written
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
_MOST_MATCHED: Final = 20


def check_prune(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Block a plan that cannot know what was removed, and report that a selection removes nothing."""
    pruning = facts.pruning
    if pruning.mode is PruneMode.REPORT or not pruning.candidates:
        return
    if pruning.ignored:
        more = f" (and {len(pruning.ignored) - 1:,} more)" if len(pruning.ignored) > 1 else ""
        yield rule.RECEIPT_IGNORED.finding(f"{pruning.ignored[0]}{more}")
    undeclared = f"{counted(pruning.candidates, 'live entity')} in scope"
    if not plan.is_complete:
        yield rule.NOT_PRUNED.finding(
            f"no file declares {undeclared}, and none is deleted although prune={pruning.mode}: the plan covers a part "
            f"only ({option_of('select')}, {option_of('exclude')})"
        )
    elif pruning.problem is not None:
        yield rule.PRUNE_UNKNOWN.finding(
            f"prune=removed, and no file declares {undeclared}; it is not known whether the files did before: "
            f"{pruning.problem}"
        )
    elif pruning.receipt is not None:
        # An apply without changes writes no receipt, so receipts do not know of an entity that was live as declared.
        forgotten = [
            item.entity.address
            for item in plan.unmanaged
            if item.in_scope
            and (removal := facts.removed.removals.get(item.entity)) is not None
            and not removal.is_applied
            and is_removable(item.entity, item.values)
        ]
        if forgotten:
            yield rule.PRUNE_UNKNOWN.finding(
                f"prune=removed, but the last receipt ({inert(pruning.receipt.ref)}) does not declare "
                f"{listed(forgotten, _SHOWN)}, removed from the files since; give the git revision that was applied "
                f"last: {option_of('base')} REF"
            )


def check_plan_lints(plan: Plan, facts: Facts) -> tuple[Finding, ...]:
    """Return what lints find about what the plan changes, on a cluster that holds what it will once it is applied.

    Of what they find about other entries the plan has the number only: a reviewer of a change is not asked to read
    what was there before.
    """
    if not facts.has_lints:
        return ()
    quotas, cluster = facts.actual, facts.safeguards.cluster
    if plan.changes:
        after = {**quotas, **{change.entity: change.after for change in plan.changes}}
        quotas = {entity: values for entity, values in after.items() if values}
    linted = check_lints(
        LintFacts(
            desired=facts.desired,
            quotas=quotas,
            settings=facts.safeguards.config.lints,
            capacity=Capacity() if cluster is None else cluster.capacity,
            today=facts.today,
            selection=facts.selection,
            concerned=frozenset(change.entity for change in plan.changes),
        )
    )
    if not linted.others:
        return linted.findings
    number = " and ".join(
        counted(count, severity.value) for severity in Severity if (count := linted.others.get(severity, 0))
    )
    text = f"{number} about entries that this plan does not change; quotaform validate lists them"
    return (*linted.findings, rule.OTHER_WARNINGS.finding(text))


CHECKS: Final[tuple[Check, ...]] = (
    check_reading,
    check_removed,
    check_plan_lints,
    # A revert applies no policies to the files, see `check_revert_policies`.
    lambda plan, facts: (
        () if facts.revert else check_policies(facts.desired, facts.policies, plan.header.cluster.name, facts.selection)
    ),
    lambda plan, facts: facts.base.findings,
    check_prune,
    lambda plan, facts: check_live(facts.actual, facts.desired, facts.pruning.pruned),
    check_revert,
    check_unmanaged_revert,
    check_revert_policies,
)
"""The checks of every plan."""


# What lifts a block: allowances of the operator, and approvals of the repository.


def lift(
    findings: Iterable[Finding],
    allowances: Sequence[Allowance],
    approvals: Mapping[Approval, Location | None],
    today: date,
    deleted: Collection[str] = (),
    earlier: Collection[Approval] | None = None,
) -> tuple[list[Finding], list[Finding], tuple[Approval, ...]]:
    """Lift the blocks that an approval or an allowance is for; an approval comes first.

    Returns the findings, notes on approvals and allowances, and the approvals that lifted something.

    An allowance of `delete` for all deletions of the plan also lifts what follows from them (`follows_deletion`).
    `deleted` holds the addresses of the entities that the plan deletes, for which approvals must be meant. `earlier` is
    what the base approves; `None` without a base, or when that is not known.
    """
    valid: dict[tuple[str, str | None], list[Approval]] = defaultdict(list)
    # What is for a value comes before what is for any, and one entity before a pattern.
    for each in sorted(approvals, key=lambda each: (not each.to, is_pattern(each))):
        if each.expires > today:
            valid[each.rule, None if is_pattern(each) else each.address].append(each)
    findings = list(findings)
    deletion = Allowance(rule.DELETE.id, len(deleted))
    is_over = any(finding.rule == rule.DELETE.id for finding in findings)
    lifted: dict[Approval | Allowance, list[Finding]] = defaultdict(list)
    result: list[Finding] = []
    for finding in findings:
        if not finding.blocking:
            result.append(finding)
            continue
        about = chain(valid.get((finding.rule, finding.address), ()), valid.get((finding.rule, None), ()))
        is_deleted = finding.address in deleted
        by: Approval | Allowance | None = next(
            (each for each in about if is_about(each, finding, is_deleted=is_deleted) and _is_for_value(each, finding)),
            None,
        )
        row = rule.RULES.get(finding.rule)
        follows = follows_deletion(finding, deleted)
        if by is None or row is None or not row.is_approvable:
            needed = [each for each in (deletion if follows else None, finding.allowance) if each is not None]
            by = next((each for some in needed for each in allowances if each.covers(some)), None)
        if follows and is_over and by is None:  # One allowance is enough for a deletion over the limit.
            finding = structs.replace(finding, override=deletion.option, allowance=deletion)
        if by is not None:
            lifted[by].append(finding)
            text = by.option if isinstance(by, Allowance) else str(by)
            finding = structs.replace(finding, blocking=False, severity=Severity.WARNING, allowed_by=text)
        result.append(finding)
    taken = sorted(
        (each for each in approvals if each in lifted),
        key=lambda each: (each.rule, each.address, each.cluster or "", each.action or "", each.values),
    )
    new = [each for each in taken if earlier is not None and each not in earlier]
    notes = list(_notes(allowances, approvals, lifted, new, today))
    return result, notes, tuple(structs.replace(each, new=each in new or None) for each in taken)


def is_pattern(approval: Approval) -> bool:
    """Whether an approval may be for more than one entity."""
    return any(is_glob(name) for _, name in approval.entity.parts)


def is_of_cluster(approval: Approval, cluster: str) -> bool:
    """Whether an approval is for a cluster of this name."""
    return approval.cluster is None or matches_glob(cluster, approval.cluster)


def is_about(approval: Approval, finding: Finding, *, is_deleted: bool) -> bool:
    """Whether an approval is for the rule and the entity of a finding; it may have expired, and be for other values.

    `is_deleted` says whether the plan deletes the entity of the finding. A pattern is for entities of the same types
    whose names its globs match; as in `scope`, only `<default>` matches a default.
    """
    address = finding.address
    if address is None or approval.rule != finding.rule or (approval.action == DELETE) is not is_deleted:
        return False
    if approval.address == address:
        return True
    entity, pattern = try_address(address), approval.entity
    return (
        entity is not None
        and entity.types == pattern.types
        and all(
            name is glob if name is None or glob is None else matches_glob(name, glob)
            for (_, name), (_, glob) in zip(entity.parts, pattern.parts, strict=True)
        )
    )


def _is_for_value(approval: Approval, finding: Finding) -> bool:
    to = approval.values
    return not to or any(key == finding.key and same_value(value, finding.value) for key, value in to)


def follows_deletion(finding: Finding, deleted: Collection[str]) -> bool:
    """Whether a finding only states what follows from the deletion of its entity, one of these addresses.

    Not of a global default: whom its deletion leaves without a limit is not counted.
    """
    if finding.rule not in (rule.CHANGE_FACTOR.id, rule.TO_UNLIMITED.id) or finding.address not in deleted:
        return False
    entity = try_address(finding.address or "")
    return entity is not None and any(name is not None for _, name in entity.parts)


def expired_approval(approval: Approval, location: Location | None) -> Finding:
    """Return the finding that says that an approval has expired."""
    text = f"expired on {approval.expires} and lifts nothing; remove it, or ask for a new one"
    return _about(approval, location, rule.EXPIRED_APPROVAL, text)


def _about(approval: Approval, location: Location | None, row: FindingRule, text: str) -> Finding:
    text = f"the approval of {approval.rule} in {APPROVALS_NAME} {text}"
    return row.finding(text, address=approval.address, location=location)


def _notes(
    allowances: Iterable[Allowance],
    approvals: Mapping[Approval, Location | None],
    lifted: Mapping[Approval | Allowance, Sequence[Finding]],
    new: Iterable[Approval],
    today: date,
) -> Iterator[Finding]:
    """Yield what there is to know of allowances and approvals: what lifts nothing, what is new, what lifts more."""
    for allowance in allowances:
        if allowance not in lifted:
            yield rule.UNUSED_ALLOWANCE.finding(f"{allowance.option} was not needed")
    for approval, location in approvals.items():
        if approval.expires <= today:
            yield expired_approval(approval, location)
        elif approval not in lifted:
            bound = "; a deletion takes action: delete"
            if approval.to:
                bound = " with a value that its `to` names"
            elif approval.action == DELETE:
                bound = ", which is to be deleted"
            text = f"lifts nothing: no finding is about this rule and entity{bound}"
            yield _about(approval, location, rule.UNUSED_APPROVAL, text)
    for approval in new:
        text = f"the approval of {approval.rule} by {inert(approval.approver)} is new or changed in this change"
        yield rule.NEW_APPROVAL.finding(text, address=approval.address, location=approvals[approval])
    for by, findings in lifted.items():
        if isinstance(by, Allowance):
            continue
        if is_pattern(by) or is_glob(by.cluster):
            matched = listed(dict.fromkeys(inert(each.address or "") for each in findings), _MOST_MATCHED)
            text = f"the approval of {by.rule} for {by.target} lifts it for {matched}"
            yield rule.APPROVAL_PATTERN.finding(text, address=by.address, location=approvals[by])
        of_keys = [each for each in findings if each.key is not None]
        if by.action is None and not by.to and of_keys:
            values = bound_values(of_keys)
            remedy = f"; for this one only, add to: {values}" if values else ""
            text = f"is for any value of any key until {by.expires}{remedy}"
            yield _about(by, approvals[by], rule.UNBOUND_APPROVAL, text)


def with_findings(plan: Plan, facts: Facts, checks: Iterable[Check] = CHECKS) -> Plan:
    """Return the plan together with the findings of checks, what blocks first, and the approvals that lift any of them.

    A finding of a blocking rule blocks unless an approval or one of the plan's allowances lifts it. What there is to
    know about allowances and approvals, such as that one lifts nothing, is a finding, too.
    """
    found = (finding for check in checks for finding in check(plan, facts))
    findings, notes, approvals = lift(
        found, plan.allowances, facts.approvals, facts.today, plan.deleted, facts.base.approvals
    )
    return replace(plan, findings=tuple(by_severity(findings + notes)), approvals=approvals)
