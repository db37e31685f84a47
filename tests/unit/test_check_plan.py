"""Checks are made after a plan, from the plan, and are what blocks it."""

from __future__ import annotations

from dataclasses import replace

from quotaform.model.entity import Entity
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts
from tests.builder import PRODUCER, declare, plan_of

ALICE = Entity(user="alice")
NO_FACTS = Facts(desired={}, actual={})


def test_a_plan_without_findings_stays_as_it_is() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {})

    assert with_findings(plan, Facts(desired=declare({ALICE: {PRODUCER: 1.0}}), actual={})) == plan


def test_another_cluster_than_the_pinned_one_blocks() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {})
    before = plan.summary

    checked = with_findings(plan, replace(NO_FACTS, pinned_id="other"))

    assert [(finding.rule, finding.blocking, finding.override) for finding in checked.findings] == [
        ("cluster-id", True, None)
    ]
    assert (plan.is_applyable, checked.is_applyable) == (True, False)
    assert (before["blocked"], checked.summary["blocked"]) == (0, 1)
    assert checked.plan_id != plan.plan_id, "whoever approved the blocked plan approved no other"
