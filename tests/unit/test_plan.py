"""The id of a plan, and what blocks it; `decided-changed.txt` and `rules-change.txt` have what it changes."""

from __future__ import annotations

from dataclasses import replace

from quotaform.model.alteration import apply_ops
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding, Severity
from quotaform.plan.report import render_plan
from tests.builder import CONSUMER, HEADER, PRODUCER, plan_of

ALICE, BOB = Entity(user="alice"), Entity(user="bob")


def test_what_blocks_comes_first_and_makes_the_plan_not_applyable() -> None:
    findings = [
        Finding(rule="ip-alias", message="", severity=Severity.WARNING, address="ip=::1"),
        Finding(rule="nan-value", message="", severity=Severity.WARNING),
        Finding(rule="cluster-id", message="", blocking=True),
    ]
    plan = plan_of({}, {}, findings=findings)
    assert [finding.rule for finding in plan.findings] == ["cluster-id", "nan-value", "ip-alias"]
    assert (plan.is_applyable, plan.summary["blocked"]) == (False, 1)
    empty = plan_of({}, {})
    assert (empty.is_applyable, set(empty.summary.values())) == (True, {0})


def test_the_plan_id_is_another_on_another_cluster() -> None:
    here, there = (plan_of({}, {}, header=replace(HEADER, cluster_id=name)) for name in ("one", "another"))
    assert here.plan_id != there.plan_id


def test_the_numbers_that_other_tools_read_have_no_commas() -> None:
    """`1,200 to add` was read as another number."""
    plan = plan_of({Entity(user=f"u{index}"): {PRODUCER: 1.0} for index in range(1_200)}, {})
    assert [*render_plan(plan)][-1] == "Plan: 1200 to add, 0 to change, 0 to destroy.\n"


def test_ops_remove_what_is_there_and_leave_what_they_are_made_on_as_it_is() -> None:
    values = {PRODUCER: 1.0}
    assert apply_ops(values, {PRODUCER: None, CONSUMER: None}) == {}
    assert apply_ops({}, {PRODUCER: None}) == {}
    assert values == {PRODUCER: 1.0}
