"""What no plan holds, so that a plan file which holds it was not made by planning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from quotaform.core.check.rule import RULES
from quotaform.core.plan import EntityChange, Plan
from quotaform.model.alteration import apply_ops
from quotaform.model.entity import ENTITY_TYPES, can_combine, is_sendable
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import same_value, same_values
from quotaform.model.units import is_writable

Problem: TypeAlias = tuple[str, str]
"""The path of a field of the plan file, and what is wrong with it."""


def saved_plan_problem(plan: Plan) -> Problem | None:
    """Return the first thing that a plan holds and planning never makes; `None` if there is none.

    | what | must be |
    | --- | --- |
    | an entity | in one change at most, and then neither unmanaged nor missing in the declared ones |
    | its types and names | such as files can declare |
    | `before` and `after` | equal, but for the rows |
    | a row | a change of a known key to a value that files can declare |
    | an effective limit of the entity itself | the value of the row |
    | `complete` | false with a selection |
    | `blocking` | as the rule says, unless it is allowed |
    """
    return next(_problems(plan), None)


def _problems(plan: Plan) -> Iterator[Problem]:
    seen = set()
    for index, change in enumerate(plan.changes):
        path = f"changes[{index}]"
        if change.entity in seen:
            yield f"{path}.entity", "is in another change, too"
        seen.add(change.entity)
        if plan.declared is not None and (change.entity in plan.declared) is not (change.cause is Cause.ENTRY):
            yield f"{path}.cause", "contradicts the list of declared entities"
        for field, problem in _change_problems(change):
            yield f"{path}.{field}", problem
    for index, item in enumerate(plan.unmanaged):
        if item.entity in seen or (plan.declared is not None and item.entity in plan.declared):
            yield f"unmanaged[{index}].entity", "is listed elsewhere, too"
        seen.add(item.entity)
    options = plan.header.options
    if plan.is_complete is bool(options["select"] or options["exclude"]):
        yield "complete", "contradicts the options"
    for index, finding in enumerate(plan.findings):
        if not _is_blocking_right(finding, plan):
            yield f"findings[{index}].blocking", "contradicts the rule"


def _change_problems(change: EntityChange) -> Iterator[Problem]:
    entity = change.entity
    if not _can_declare(entity.types):
        yield "entity", "is of types that files cannot declare"
    if not all(name is None or (name and is_sendable(name)) for _, name in entity.parts):
        yield "entity", "has a name that no broker can hold"
    if len({row.key for row in change.changes}) < len(change.changes):
        yield "keys", "has a key twice"
    if not same_values(change.after, apply_ops(change.before, {row.key: row.after for row in change.changes})):
        yield "after", "does not follow from before and keys"
    for index, (row, effect) in enumerate(zip(change.changes, change.effects, strict=True)):
        path = f"keys[{index}]"
        key = QUOTA_KEYS.get(row.key)
        if key is None:
            yield f"{path}.key", "is not known to this version"
        elif row.after is not None and not (key.fits(entity) and is_writable(key, row.after)):
            yield f"{path}.after", "is a value that files cannot declare"
        if not same_value(row.before, change.before.get(row.key)):
            yield f"{path}.before", "differs from the entity's value"
        if same_value(row.before, row.after):
            yield path, "changes nothing"
        for side, limit, value in (("before", effect.before, row.before), ("after", effect.after, row.after)):
            if limit.source == entity and not same_value(limit.value, value):
                yield f"{path}.effective.{side}.value", "differs from the value of the entity that it comes from"


def _can_declare(types: tuple[str, ...]) -> bool:
    """Whether files can declare an entity of these types."""
    return bool(types) and set(ENTITY_TYPES).issuperset(types) and can_combine(types)


def _is_blocking_right(finding: Finding, plan: Plan) -> bool:
    """Whether a finding blocks as its rule says; that of a rule which only a newer version knows may or may not."""
    known = RULES.get(finding.rule)
    if known is None:
        return True
    if not known.is_blocking:
        return not finding.blocking
    is_allowed = known.override is not None and any(allowance.rule == known.id for allowance in plan.allowances)
    return finding.blocking or is_allowed
