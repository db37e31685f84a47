"""What no plan holds, so that a plan file which holds it was not made by planning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from typing import TypeAlias

from quotaform.model import rule
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import ENTITY_TYPES, Entity, can_combine, is_sendable
from quotaform.model.finding import MOST_APPROVALS, Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Base, Cause, Values, same_value, same_values
from quotaform.model.rule import APPROVABLE, RULES
from quotaform.model.units import is_writable
from quotaform.plan.check.check import follows_deletion, is_about, is_of_cluster, is_pattern, lift
from quotaform.plan.check.guard import check_changes
from quotaform.plan.plan import ChangeOrigin, EntityChange, Plan, entity_origin
from quotaform.resolve.index import NO_LIMIT

Problem: TypeAlias = tuple[str, str]
"""The path of a field of the plan file, and what is wrong with it."""


def saved_plan_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what a plan holds and planning never makes."""
    seen = set()
    is_revert = plan.header.options.is_revert
    declared = plan.declared or frozenset()
    held: dict[Entity | None, tuple[Values, Values]] = {
        item.entity: (item.values, item.values) for item in plan.unmanaged
    }
    held |= {change.entity: (change.before, change.after) for change in reversed(plan.changes)}
    if plan.declared is None and not is_revert:
        yield "declared", "is missing"
    for index, change in enumerate(plan.changes):
        if change.entity in seen:
            yield f"changes[{index}].entity", "is also in another change"
        seen.add(change.entity)
        if (change.cause is Cause.REVERT) is not is_revert:
            yield f"changes[{index}].cause", "contradicts the options"
        is_declared = change.cause is Cause.ENTRY
        if not is_revert and (change.entity in declared) is not is_declared:
            yield f"changes[{index}].cause", "contradicts the list of declared entities"
        if not _is_origin_right(change, plan.header.source.base):
            yield f"changes[{index}].origin", "does not follow from the base"
        if problem := _change_problem(change, held):
            yield f"changes[{index}].{problem[0]}", problem[1]
    for index, item in enumerate(plan.unmanaged):
        if item.entity in seen or item.entity in declared:
            yield f"unmanaged[{index}].entity", "is also listed elsewhere"
        seen.add(item.entity)
    if plan.is_complete is plan.header.options.is_partial:
        yield "complete", "contradicts the options"
    yield from _approval_problems(plan)
    yield from _finding_problems(plan)


def _finding_problems(plan: Plan) -> Iterator[Problem]:
    """Yield each finding that blocks, or does not, other than its rule says, and each guard that is missing."""
    found = {(finding.rule, finding.address, finding.key): finding.blocking for finding in plan.findings}
    for index, finding in enumerate(plan.findings):
        if not _is_blocking_right(finding, plan):
            yield f"findings[{index}].blocking", "contradicts the rule"
    guards = list(check_changes(plan, plan.header.options.limits))
    if plan.declares_nothing:
        guards.append(rule.EMPTY.finding("nothing is declared"))
    for finding in lift(guards, plan.allowances, dict.fromkeys(plan.approvals), date.min, plan.deleted)[0]:
        row = RULES[finding.rule]
        if row.is_blocking and found.get((finding.rule, finding.address, finding.key)) is not finding.blocking:
            about = "".join(f" of {part}" for part in (finding.key, finding.address) if part)
            yield "findings", f"contradict the changes: {finding.rule}{about} is missing, or blocks wrongly"


def _approval_problems(plan: Plan) -> Iterator[Problem]:
    """Yield each approval that lifts nothing; whether it is still valid is asked when the plan is applied."""
    if len(plan.approvals) > MOST_APPROVALS:  # Each is compared with each finding.
        yield "approvals", f"has more than {MOST_APPROVALS:,} items"
    lifted = {(each.rule, each.address): each for each in plan.findings if each.allowed_by is not None}
    deleted = plan.deleted
    for index, approval in enumerate(plan.approvals):
        is_used = (approval.rule, approval.address) in lifted or (
            is_pattern(approval)
            and any(is_about(approval, each, is_deleted=each.address in deleted) for each in lifted.values())
        )
        if approval.rule not in APPROVABLE or not is_used:
            yield f"approvals[{index}]", "lifts nothing"
        if not is_of_cluster(approval, plan.header.cluster.name):
            yield f"approvals[{index}].cluster", "is not the cluster of the plan"


def _is_origin_right(change: EntityChange, base: Base | None) -> bool:
    """Whether the origin follows from the base; where a receipt does not hold the values, there is none."""
    if base is None:
        return change.origin is None and change.base is None
    if change.origin is None:
        return base.is_receipt and change.base is None
    is_config = change.origin is ChangeOrigin.CONFIG  # Whether more is pruned than at the base, the plan does not say.
    return change.origin is entity_origin(
        change.base, change.cause, change.before, change.changes, prunes_more=is_config
    )


def _change_problem(change: EntityChange, held: Mapping[Entity | None, tuple[Values, Values]]) -> Problem | None:
    """Return what is wrong with a change; `held` is what entities of the plan hold before and after it."""
    entity = change.entity
    if problem := entity_problem(entity):
        return problem
    ops = {row.key: row.after for row in change.changes}
    if len(ops) < len(change.changes):
        return "keys", "has a key twice"
    # Of a created entity both are the same, and there may be very many of them.
    if (change.before or change.after != ops) and not same_values(change.after, apply_ops(change.before, ops)):
        return "after", "does not follow from before and keys"
    types = entity.types
    for index, (row, effect) in enumerate(zip(change.changes, change.effects, strict=True)):
        key, after = row.key, row.after
        if problem := value_problem(types, key, after):
            return f"keys[{index}].{problem[0]}", problem[1]
        before = change.before.get(key)
        if row.before != before and not same_value(row.before, before):
            return f"keys[{index}].before", "differs from the entity's value"
        if same_value(before, after):
            return f"keys[{index}]", "changes nothing"
        is_own = after is not None and effect.after.value == after and effect.after.source is entity
        if is_own and effect.before is NO_LIMIT:
            continue  # Most are such: the first limit, and the entity's own.
        for place, (side, limit) in enumerate((("before", effect.before), ("after", effect.after))):
            if (limit.value is None) is not (limit.source is None):
                return (
                    f"keys[{index}].effective.{side}",
                    "has a value without the entity that it comes from, or no value",
                )
            values = held.get(limit.source)
            if values is not None and not same_value(limit.value, values[place].get(key)):
                path = f"keys[{index}].effective.{side}.value"
                return path, "differs from the value of the entity that it comes from"
    return None


def entity_problem(entity: Entity) -> Problem | None:
    """Return why files cannot declare an entity; `None` if they can."""
    if not _can_declare(entity.types):
        return "entity", "is of types that files cannot declare"
    for _, name in entity.parts:
        if name is not None and not (name and is_sendable(name)):
            return "entity", "has a name that no broker can store"
    return None


@lru_cache
def _can_declare(types: tuple[str, ...]) -> bool:
    return bool(types) and set(ENTITY_TYPES).issuperset(types) and can_combine(types)


@lru_cache(maxsize=4096)
def value_problem(types: tuple[str, ...], key: str, value: float | None) -> Problem | None:
    """Return why files cannot give a key this value, or none, for an entity of these types."""
    known = QUOTA_KEYS.get(key)
    if known is None:
        return "key", "is not known to this version"
    if value is not None and not (known.entity_types.issuperset(types) and is_writable(known, value)):
        return "after", "is a value that files cannot declare"
    return None


def _is_blocking_right(finding: Finding, plan: Plan) -> bool:
    """Whether a finding blocks as its rule says, or is allowed or approved; whether that suffices is found elsewhere.

    That of a rule which only a newer version knows may block or not.
    """
    known = RULES.get(finding.rule)
    if known is None:
        return True
    if not known.is_blocking:
        return not finding.blocking
    if finding.blocking or finding.allowed_by is None:
        return finding.blocking
    is_deleted = finding.address in plan.deleted
    if any(is_about(each, finding, is_deleted=is_deleted) for each in plan.approvals):
        return True
    if follows_deletion(finding, plan.deleted) and any(each.rule == rule.DELETE.id for each in plan.allowances):
        return True
    needed = finding.allowance
    if needed is None or needed.rule != finding.rule or not known.is_allowable:
        return False
    return any(each.covers(needed) for each in plan.allowances)
