"""Approvals: their number and their end; `texts-approval.txt` and `story-approvals.txt` have what they say and do."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import date, timedelta

import pytest

from quotaform.apply.run import apply_plan
from quotaform.desired.approval import read_approvals
from quotaform.desired.tree import SourceFile
from quotaform.model.entity import Entity
from quotaform.model.errors import PlanBlockedError
from quotaform.model.finding import Approval
from quotaform.system.clock import today
from tests.builder import PRODUCER, plan_of
from tests.scripted_gateway import Clock, ScriptedGateway


def test_a_thousand_approvals_are_enough() -> None:
    item = "- {rule: protect, address: user=u%d, reason: r, approver: a, expires: 2026-12-20}\n"
    text = "".join(item % number for number in range(1001))
    (problem,) = read_approvals(SourceFile("approvals.yaml", text), date(2026, 11, 20))[1]
    assert problem.message == "the file contains more than the limit of 1,000 approvals; remove some"


def test_a_plan_whose_approval_has_expired_meanwhile_is_not_applied() -> None:
    alice, clock = Entity(user="alice"), Clock()
    approval = Approval(rule="change-factor", entity=alice, reason="r", approver="a", expires=today(clock))
    plan = plan_of({alice: {PRODUCER: 100.0}}, {alice: {PRODUCER: 1.0}})
    for days, is_valid in ((0, False), (1, True), (30, True), (31, False)):
        gateway = ScriptedGateway({alice: {PRODUCER: 1.0}})
        given = replace(approval, expires=today(clock) + timedelta(days))
        refused = pytest.raises(PlanBlockedError, match="depends on an approval of change-factor for user=alice")
        with nullcontext() if is_valid else refused:
            apply_plan(replace(plan, approvals=(given,)), gateway, clock=clock)
        assert gateway.quotas == {alice: {PRODUCER: 100.0 if is_valid else 1.0}}
