"""The plan of the other examples with its guards: some allowed, some approved, some blocking."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from quotaform.model.entity import Entity
from quotaform.model.finding import DELETE, Allowance, Approval
from quotaform.model.scope import Pattern
from quotaform.model.settings import CountLimit, GuardLimits
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts, Safeguards
from quotaform.plan.check.guard import GUARDS
from quotaform.plan.plan import Plan, PlanOptions
from tests.golden.example import ACTUAL, ENTRIES, example_plan


def guarded_plan() -> Plan:
    """The plan, with the numbers and patterns that its guards go by."""
    limits = GuardLimits(delete=CountLimit(0, 100), protect=(Pattern((("user", "legacy-*"),)),))
    plan = example_plan(with_findings=False)
    plan = replace(
        plan,
        header=replace(plan.header, options=PlanOptions(limits=limits)),
        allowances=(Allowance("delete", 9), Allowance("update", 60)),
    )
    approval = Approval(
        rule="protect",
        entity=Entity(user="legacy-etl"),
        reason="moved to svc-etl",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
        action=DELETE,
    )
    pattern = Approval(
        rule="to-unlimited",
        entity=Entity(user="perf-*"),
        cluster="prod-*",
        reason="load test",
        approver="carol@example.com",
        expires=date(2026, 12, 1),
    )
    facts = Facts(
        desired={entry.entity: entry for entry in ENTRIES},
        actual=ACTUAL,
        safeguards=Safeguards(limits=limits),
        approvals=(approval, pattern),
        today=date(2026, 11, 20),
    )
    return with_findings(plan, facts, GUARDS)
