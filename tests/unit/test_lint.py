"""Lints: their settings; `rules-lint.txt`, `rules-plan.txt` and `texts-unit.txt` have what each finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from quotaform.model.entity import Entity
from quotaform.model.settings import LintSettings
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts
from tests.builder import PRODUCER, declare, findings_of, plan_of

MIB = 1048576.0
TODAY = date(2026, 11, 22)


def test_a_lint_is_no_part_of_the_plan_id_and_can_be_left_out() -> None:
    desired = declare({Entity(client_id="etl"): {PRODUCER: MIB}})
    plan = plan_of(desired, {Entity(user=None): {PRODUCER: MIB}})
    facts = Facts(desired=desired, actual={Entity(user=None): {PRODUCER: MIB}}, lints=LintSettings(), today=TODAY)
    linted = with_findings(plan, facts)
    assert ([each.rule for each in linted.findings], linted.plan_id) == (["shadowed-entry"], plan.plan_id)
    assert findings_of(plan, replace(facts, lints=None)) == ()
