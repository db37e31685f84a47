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

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.base import check_base, check_prune
from quotaform.core.check.facts import Facts
from quotaform.core.check.guard.approval import lift
from quotaform.core.check.guard.change import check_changes
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
from quotaform.core.check.guard.protected import check_protected
from quotaform.core.check.lint.fact import LintFacts
from quotaform.core.check.lint.lint import check_lints
from quotaform.core.check.live import check_live
from quotaform.core.check.policy import check_policies
from quotaform.core.check.revert import check_revert, check_revert_policies, check_unmanaged_revert
from quotaform.core.check.same_cluster import check_same_cluster
from quotaform.core.plan import Plan
from quotaform.model.finding import Finding, Severity, by_weight

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

    Args:
        plan: The plan, its allowances included.
        facts: What else the checks may need.
        checks: The checks to make.
    """
    found = (finding for check in checks for finding in check(plan, facts))
    lifted = lift(found, plan.allowances, facts.approvals, facts.today, plan.deleted, facts.base.approvals)
    return replace(plan, findings=tuple(by_weight(lifted.findings + lifted.notes)), approvals=lifted.approvals)
