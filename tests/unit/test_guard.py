"""Guards: approvals in plan files, and how many findings are shown; `rules-guard.txt` has what each finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from msgspec import structs

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError
from quotaform.model.finding import DELETE, Allowance, Approval, by_severity
from quotaform.model.settings import GuardLimits
from quotaform.plan.check.approval import lift
from quotaform.plan.check.guard import check_changes
from quotaform.plan.plan import Plan
from quotaform.plan.records import load_plan
from quotaform.report.finding import render_findings
from tests.builder import PRODUCER, plan_of
from tests.dumped import dumped_plan

ALICE = Entity(user="alice")
APPROVAL = Approval(rule="change-factor", entity=ALICE, reason="r", approver="carol", expires=date(2026, 11, 30))


def leap(*approvals: Approval) -> Plan:
    plan = plan_of({ALICE: {PRODUCER: 2e7}}, {ALICE: {PRODUCER: 1e6}})
    lifted = lift(check_changes(plan, GuardLimits()), (), approvals, date(2026, 11, 20))
    return replace(plan, approvals=approvals, findings=tuple(by_severity(lifted.findings)))


def test_an_approval_is_part_of_the_plan_id() -> None:
    ids = {
        leap(*approvals).plan_id
        for approvals in ((), (APPROVAL,), (replace(APPROVAL, cluster="lab*"),), (replace(APPROVAL, action=DELETE),))
    }
    assert len(ids) == 4


def test_a_plan_that_an_approval_for_another_cluster_lifts_is_refused() -> None:
    plan = leap(replace(APPROVAL, cluster="lab*"))
    assert load_plan(dumped_plan(plan), "plan.json") == plan
    forged = replace(plan, approvals=(replace(APPROVAL, cluster="prod-*"),))
    with pytest.raises(SavedFileError, match="is not the cluster of the plan"):
        load_plan(dumped_plan(forged), "plan.json")


def test_a_plan_file_has_no_more_approvals_than_a_repository() -> None:
    """Each of any number of them was compared with each finding, when the file was opened."""
    with pytest.raises(SavedFileError, match="approvals has more than 1,000 items"):
        load_plan(dumped_plan(leap(*[APPROVAL] * 1001)), "plan.json")


def test_many_findings_of_a_rule_that_blocks_are_shortened_and_what_lifts_all_of_them_is_said() -> None:
    findings = [
        structs.replace(
            rule.CHANGE_FACTOR.finding("x", address=f"user=u{number}"),
            override="--allow delete=40",
            allowance=Allowance("delete", 40),
        )
        for number in range(40)
    ]
    text = list(render_findings(findings))
    assert [line for line in text if "Allow: " in line] == [
        "  change-factor  40 entities   Allow: an approval in approvals.yaml (one entity), or --allow delete=40 (all)"
    ]
    assert text[-1] == "    and 35 more (list: --format json)"
