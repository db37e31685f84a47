"""What a plan does to protected entities through changes of other ones; it takes all quotas of the cluster to find."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from quotaform.core.change import Action
from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.check.guard.change import is_halved, shown_limit
from quotaform.core.effects import changed_limits
from quotaform.core.plan import Plan
from quotaform.core.scope import is_glob
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding


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
