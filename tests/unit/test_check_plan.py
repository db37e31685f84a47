"""Checks are made after a plan, from the plan, and are what blocks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.finding import Allowance, Finding, Severity
from quotaform.model.rule import FindingRule
from quotaform.model.scope import Selection
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import Facts
from quotaform.plan.plan import Plan
from tests.builder import HEADER, PRODUCER, declare, findings_of, plan_of

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
GUARD = FindingRule("guard", "Summary.", "Remedy.", is_blocking=True, is_allowable=True)
NO_FACTS = Facts(desired={}, actual={})


def guard(plan: Plan, facts: Facts) -> Iterator[Finding]:
    yield from (GUARD.finding("no", address=change.entity.address) for change in plan.changes)


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
    assert checked.findings[0].message == (
        "cluster lab is pinned to id other, and the live id is 3JxQ0v7pT2a; "
        "check the bootstrap servers; change cluster_id in quotaform.yaml only if the cluster was replaced on purpose."
    )
    assert (plan.is_applyable, checked.is_applyable) == (True, False)
    assert (before["blocked"], checked.summary["blocked"]) == (0, 1)
    assert checked.plan_id != plan.plan_id, "whoever approved the blocked plan approved no other"


@pytest.mark.parametrize("pinned", [None, "", HEADER.cluster_id])
def test_the_pinned_cluster_and_one_that_is_not_pinned_pass(pinned: str | None) -> None:
    assert findings_of(plan_of({}, {}), replace(NO_FACTS, pinned_id=pinned)) == ()


def test_a_pattern_that_matches_nothing_is_a_warning() -> None:
    facts = Facts(
        desired=declare({ALICE: {PRODUCER: 1.0}}),
        actual={BOB: {PRODUCER: 1.0}},
        selection=Selection(("user=alice", "user=bob", "user=carol")),
    )

    (finding,) = findings_of(plan_of({}, {}), facts)

    assert str(finding) == 'warning: --select "user=carol" matches no entity [no-match]'
    assert not finding.blocking


def test_what_files_cannot_write_is_reported_unless_they_declare_it() -> None:
    actual = {ALICE: {PRODUCER: float("nan"), "future_rate": 1.0}, BOB: {PRODUCER: float("nan")}}
    facts = Facts(desired=declare({ALICE: {PRODUCER: 1.0}}), actual=actual)

    found = findings_of(plan_of({}, {}), facts)

    assert [(finding.rule, finding.severity, finding.address) for finding in found] == [
        ("nan-value", Severity.WARNING, "user=bob"),
        ("unknown-key", Severity.NOTE, "user=alice"),
    ]


def test_a_check_sees_the_plan() -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}}, {})

    found = findings_of(plan, NO_FACTS, [guard])

    assert [(finding.address, finding.blocking, finding.override) for finding in found] == [
        ("user=alice", True, "--allow guard"),
        ("user=bob", True, "--allow guard"),
    ]


@pytest.mark.parametrize(
    ("allowances", "blocks"),
    [
        ((), True),
        ((Allowance("guard"),), False),
        ((Allowance("other"),), True),
        ((Allowance("guard", 3),), True),
    ],
)
def test_an_allowance_lifts_what_its_rule_blocks(allowances: tuple[Allowance, ...], blocks: bool) -> None:
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, {}, allowances=allowances)

    finding, *others = findings_of(plan, NO_FACTS, [guard])

    assert finding.blocking is blocks
    assert [each.rule for each in others] == [rule.UNUSED_ALLOWANCE.id] * (blocks and len(allowances))


def test_nothing_lifts_a_rule_without_an_override() -> None:
    plan = plan_of({}, {}, allowances=(Allowance("cluster-id"),))

    finding, unused = findings_of(plan, replace(NO_FACTS, pinned_id="other"))

    assert (finding.rule, finding.blocking) == (rule.CLUSTER_ID.id, True)
    assert unused.rule == rule.UNUSED_ALLOWANCE.id
