"""What lifts a block: allowances of the operator, and approvals of the repository."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain
from typing import Final

from msgspec import Struct, structs

from quotaform.model import rule
from quotaform.model.entity import Entity, try_address
from quotaform.model.finding import APPROVALS_NAME, DELETE, Allowance, Approval, Finding, Severity, bound_values
from quotaform.model.quotas import same_value
from quotaform.model.scope import is_glob, matches_glob
from quotaform.model.text import inert, listed

_MOST_MATCHED: Final = 20


class Lifted(Struct, frozen=True):
    """Findings after what is allowed was lifted."""

    findings: list[Finding]
    notes: list[Finding]
    approvals: tuple[Approval, ...]  # The approvals that lifted something, by rule and address


def lift(
    findings: Iterable[Finding],
    allowances: Sequence[Allowance],
    approvals: Sequence[Approval],
    today: date,
    deleted: Collection[str] = (),
    earlier: Collection[Approval] | None = None,
) -> Lifted:
    """Lift the blocks that an approval or an allowance is for; an approval comes first.

    An allowance of `delete` for all deletions of the plan also lifts what follows from them (`follows_deletion`).
    `deleted` holds the addresses of the entities that the plan deletes, for which approvals must be meant. `earlier` is
    what the base approves; `None` without a base, or when that is not known.
    """
    valid: dict[tuple[str, str | None], list[Approval]] = defaultdict(list)
    # What is for a value comes before what is for any, and one entity before a pattern.
    for each in sorted(approvals, key=lambda each: (not each.to, is_pattern(each))):
        if each.expires > today:
            valid[each.rule, None if is_pattern(each) else each.entity.address].append(each)
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
        (replace(each, is_new=earlier is not None and each not in earlier) for each in approvals if each in lifted),
        key=lambda each: (each.rule, each.entity.address, each.cluster or "", each.action, each.to),
    )
    return Lifted(result, list(_notes(allowances, approvals, lifted, taken, today)), tuple(taken))


def is_pattern(approval: Approval) -> bool:
    """Whether an approval may be for more than one entity."""
    return any(is_glob(name) for _, name in approval.entity.parts)


def is_of_cluster(approval: Approval, cluster: str) -> bool:
    """Whether an approval is for a cluster of this name."""
    return approval.cluster is None or matches_glob(cluster, approval.cluster)


def is_about(approval: Approval, finding: Finding, *, is_deleted: bool) -> bool:
    """Whether an approval is for the rule and the entity of a finding; it may have expired, and be for other values.

    `is_deleted` says whether the plan deletes the entity of the finding.
    """
    is_of_rule = approval.rule == finding.rule and (approval.action == DELETE) == is_deleted
    return is_of_rule and _matches(approval.entity, finding.address)


def _is_for_value(approval: Approval, finding: Finding) -> bool:
    return not approval.to or any(key == finding.key and same_value(value, finding.value) for key, value in approval.to)


def _matches(pattern: Entity, address: str | None) -> bool:
    """Whether an address is that of an approval, or one of the same types whose names its globs match.

    As in `scope`, only `<default>` matches a default.
    """
    if address is None or pattern.address == address:
        return address is not None
    entity = try_address(address)
    return (
        entity is not None
        and entity.types == pattern.types
        and all(
            name is glob if name is None or glob is None else matches_glob(name, glob)
            for (_, name), (_, glob) in zip(entity.parts, pattern.parts, strict=True)
        )
    )


def follows_deletion(finding: Finding, deleted: Collection[str]) -> bool:
    """Whether a finding only states what follows from the deletion of its entity, one of these addresses.

    Not of a global default: whom its deletion leaves without a limit is not counted.
    """
    if finding.rule not in (rule.CHANGE_FACTOR.id, rule.TO_UNLIMITED.id) or finding.address not in deleted:
        return False
    entity = try_address(finding.address)
    return entity is not None and any(name is not None for _, name in entity.parts)


def expired_approval(approval: Approval) -> Finding:
    """Return the finding that says that an approval has expired."""
    return rule.EXPIRED_APPROVAL.finding(
        f"the approval of {approval.rule} in {APPROVALS_NAME} expired on {approval.expires} and lifts nothing; "
        "remove it, or ask for a new one",
        address=approval.entity.address,
        location=approval.location,
    )


def _notes(
    allowances: Iterable[Allowance],
    approvals: Iterable[Approval],
    lifted: Mapping[Approval | Allowance, Sequence[Finding]],
    taken: Iterable[Approval],
    today: date,
) -> Iterator[Finding]:
    """Yield what there is to know of allowances and approvals: what lifts nothing, what is new, what lifts more."""
    for allowance in allowances:
        if allowance not in lifted:
            yield rule.UNUSED_ALLOWANCE.finding(f"{allowance.option} was not needed")
    for approval in approvals:
        if approval.expires <= today:
            yield expired_approval(approval)
        elif approval not in lifted:
            bound = "; a deletion takes action: delete"
            if approval.to:
                bound = " with a value that its `to` names"
            elif approval.action == DELETE:
                bound = ", which is to be deleted"
            yield rule.UNUSED_APPROVAL.finding(
                f"the approval of {approval.rule} in {APPROVALS_NAME} lifts nothing: no finding is about this rule and "
                f"entity{bound}",
                address=approval.entity.address,
                location=approval.location,
            )
    for approval in taken:
        if approval.is_new:
            yield rule.NEW_APPROVAL.finding(
                f"the approval of {approval.rule} by {inert(approval.approver)} is new or changed in this change",
                address=approval.entity.address,
                location=approval.location,
            )
    for by, findings in lifted.items():
        if isinstance(by, Allowance):
            continue
        address, location = by.entity.address, by.location
        if is_pattern(by) or is_glob(by.cluster):
            matched = listed(dict.fromkeys(inert(each.address or "") for each in findings), _MOST_MATCHED)
            text = f"the approval of {by.rule} for {by.target} lifts it for {matched}"
            yield rule.APPROVAL_PATTERN.finding(text, address=address, location=location)
        of_keys = [each for each in findings if each.key is not None]
        if by.is_for_any_value and of_keys:
            values = bound_values(of_keys)
            remedy = f"; for this one only, add to: {values}" if values else ""
            yield rule.UNBOUND_APPROVAL.finding(
                f"the approval of {by.rule} in {APPROVALS_NAME} is for any value of any key until {by.expires}{remedy}",
                address=address,
                location=location,
            )
