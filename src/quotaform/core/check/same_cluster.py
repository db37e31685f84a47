"""Checks for two clusters of quotaform.yaml that are the same live cluster."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.check import rule
from quotaform.core.check.facts import Facts
from quotaform.core.plan import Plan
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.text import inert


def check_same_cluster(plan: Plan, facts: Facts) -> Iterator[Finding]:
    """Warn of a plan for a cluster whose id quotaform.yaml pins for another name."""
    other = facts.other_pin if plan.header.snapshot is None else None
    if other is not None:
        yield rule.SAME_CLUSTER.finding(_names(plan, other))


def check_plans(first: Plan, second: Plan) -> Finding:
    """Return what is wrong with the second of two plans that are for the same live cluster."""
    names = _names(second, first.header.cluster_name)
    entity = _conflict(first, second) or _conflict(second, first)
    if entity is None:
        return rule.SAME_CLUSTER.finding(names)
    return rule.SAME_CLUSTER_CONFLICT.finding(
        f"{names}; their files disagree about {entity.address}, so that each plan would undo the other"
    )


def _conflict(one: Plan, other: Plan) -> Entity | None:
    """Return an entity that one plan changes to something else than what the other plan leaves or makes of it."""
    made = {change.entity: change.after for change in other.changes}
    declared = other.declared or frozenset()
    for change in one.changes:
        entity = change.entity
        if made[entity] != change.after if entity in made else entity in declared:
            return entity
    return None


def _names(plan: Plan, other: str) -> str:
    name = inert(plan.header.cluster_name)
    return f"{name} and {inert(other)} are the same live cluster (id {inert(plan.header.cluster_id)})"
