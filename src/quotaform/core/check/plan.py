"""The checks of a plan: they come after it and are made from it.

A check is one function of a plan and of the facts around it that yields findings; `CHECKS` lists them. To add a guard:

1. write its row in `quotaform.core.check.rule`, with `is_blocking=True` and, when it can be allowed, the `override`;
2. write its function in `quotaform.core.check.guard` and list it in `CHECKS`;
3. write its test in `tests/unit/test_check_plan.py`.

Messages, the plan file, the exit code and `docs/rules.md` (`make docs`) follow from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from quotaform.core.check import rule
from quotaform.core.check.base import check_base, check_prune
from quotaform.core.check.facts import Facts
from quotaform.core.check.guard import check_cluster_id, check_history, check_removed, check_selection, check_source
from quotaform.core.check.lint import LintFacts, check_lints
from quotaform.core.check.live import check_live
from quotaform.core.check.policy import check_policies
from quotaform.core.check.revert import check_revert
from quotaform.core.plan import Plan
from quotaform.model.allowance import Allowance
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding, by_weight

Check: TypeAlias = Callable[[Plan, Facts], Iterable[Finding]]


def check_plan_lints(plan: Plan, facts: Facts) -> tuple[Finding, ...]:
    """Return what lints find about what the plan changes, on a cluster that holds what it will once it is applied.

    Of what they find about other entries the plan has the number only: a reviewer of a change is not asked to read
    what was there before.
    """
    if facts.lints is None:
        return ()
    quotas = dict(facts.actual)
    for entity, entry in facts.desired.items():
        if entry.values:
            quotas[entity] = entry.values
        else:
            quotas.pop(entity, None)
    for change in plan.changes:
        if change.cause is Cause.UNDECLARED:
            quotas.pop(change.entity, None)
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
    text = (
        f"{linted.others:,} {'warning' if linted.others == 1 else 'warnings'} about entries that this plan does not "
        "change; quotaform validate lists them"
    )
    return (*linted.findings, rule.OTHER_WARNINGS.finding(text))


CHECKS: Final[tuple[Check, ...]] = (
    check_cluster_id,
    check_selection,
    check_source,
    check_removed,
    check_history,
    check_plan_lints,
    lambda plan, facts: check_policies(facts.desired, facts.policies, plan.header.cluster_name, facts.selection),
    check_base,
    check_prune,
    lambda plan, facts: check_live(facts.actual, facts.desired, facts.pruning.pruned),
    check_revert,
)
"""Every check of a plan."""


def check_plan(plan: Plan, facts: Facts, checks: Iterable[Check] = CHECKS) -> tuple[Finding, ...]:
    """Return the findings of all checks, what blocks first.

    A finding of a blocking rule blocks unless the rule has an override and the plan's allowances name it. An
    allowance with a number is left to the check, which knows what it counts.

    Args:
        plan: The plan, its allowances included.
        facts: What else the checks may need.
        checks: The checks to make.
    """
    found = [_allowed(finding, plan.allowances) for check in checks for finding in check(plan, facts)]
    return tuple(by_weight(found))


def with_findings(plan: Plan, facts: Facts) -> Plan:
    """Return the plan together with the findings of its checks."""
    return replace(plan, findings=check_plan(plan, facts))


def _allowed(finding: Finding, allowances: Iterable[Allowance]) -> Finding:
    """Return a finding, not blocking when its rule is allowed."""
    if finding.blocking and finding.override and Allowance(finding.rule) in allowances:
        return replace(finding, blocking=False)
    return finding
