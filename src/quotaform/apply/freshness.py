"""Whether a plan still fits the cluster it was made for."""

from __future__ import annotations

from msgspec import Struct

from quotaform.model import rule
from quotaform.model.alteration import apply_ops
from quotaform.model.errors import NEW_PLAN, StaleError, first_lines
from quotaform.model.finding import Finding
from quotaform.model.quotas import NO_VALUES, Quotas, Values, same_value, same_values
from quotaform.model.text import inert, listed
from quotaform.plan.plan import EntityChange, Plan
from quotaform.report.text import counted
from quotaform.resolve.effect import value_text
from quotaform.resolve.resolve import AssumedPlan


class Freshness(Struct, frozen=True):
    """The changes of a plan, sorted by what the cluster holds now."""

    pending: tuple[EntityChange, ...]  # The cluster holds `before`: to be made
    applied: tuple[EntityChange, ...]  # The cluster holds `after` already
    stale: tuple[EntityChange, ...]  # The cluster holds something else: somebody changed it


def check_fresh(changes: tuple[EntityChange, ...], actual: Quotas) -> Freshness:
    """Sort changes by what the cluster holds now."""
    pending, applied, stale = [], [], []
    for change in changes:
        found = actual.get(change.entity, NO_VALUES)
        if same_values(found, change.before):
            pending.append(change)
        elif same_values(found, change.after):
            applied.append(change)
        else:
            stale.append(change)
    return Freshness(tuple(pending), tuple(applied), tuple(stale))


def describe_difference(desired: Values, actual: Values) -> str:
    """Return the values in which what an entity holds differs from what it must have, in words."""
    keys = dict.fromkeys([*actual, *desired])
    different = [key for key in keys if not same_value(actual.get(key), desired.get(key))]
    return "it has " + ", ".join(
        f"{inert(key)} = {value_text(key, actual[key])}" if key in actual else f"no {inert(key)}" for key in different
    )


def require_fresh(freshness: Freshness, actual: Quotas) -> None:
    """Raise `StaleError` if somebody changed what a plan is about: with what the cluster holds of each key that
    differs, what the plan was made of, and what it wants.
    """
    lines = []
    for change in freshness.stale:
        before, after, held = change.before, change.after, actual.get(change.entity, NO_VALUES)
        for key in dict.fromkeys([*before, *held]):
            if same_value(before.get(key), held.get(key)):
                continue
            aim = f"sets {value_text(key, after[key])}" if key in after else "removes it"
            if same_value(before.get(key), after.get(key)):
                aim = "does not change it"
            lines.append(
                f"{change.entity.address}: {inert(key)} is {value_text(key, held.get(key))}; it was "
                f"{value_text(key, before.get(key))} when the plan was made, which {aim}"
            )
    if freshness.stale:
        raise StaleError(
            "the cluster has changed since the plan was made, in "
            f"{counted(len(freshness.stale), 'entity')}, so nothing was written:",
            *first_lines(lines),
            NEW_PLAN,
        )


def as_if_applied(plan: Plan) -> AssumedPlan:
    """Return what a plan makes of a cluster, for those who ask before it is applied."""

    def after(actual: Quotas) -> Quotas:
        return {
            change.entity: apply_ops(actual.get(change.entity, NO_VALUES), change.alteration().ops)
            for change in plan.changes
        }

    def problems(actual: Quotas) -> list[Finding]:
        findings = []
        if not plan.is_applyable:
            rules = ", ".join(sorted({finding.rule for finding in plan.findings if finding.blocking}))
            text = f"the plan is blocked ({rules}): it is resolved as if applied, but apply would refuse it"
            findings.append(rule.PLAN_BLOCKED.finding(text))
        if stale := [change.entity.address for change in check_fresh(plan.changes, actual).stale]:
            findings.append(
                rule.PLAN_STALE.finding(
                    f"the cluster has changed since the plan was made, in {listed(stale, 5)}: apply would refuse "
                    "it; make a new plan"
                )
            )
        return findings

    return AssumedPlan(plan.plan_id, plan.require_cluster, after, problems)
