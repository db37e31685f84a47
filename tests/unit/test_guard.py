"""Guards and lints: their settings, approvals, how many findings are shown, and what a saved plan brings along.

`rules-guard.txt`, `rules-saved.txt`, `rules-lint.txt`, `rules-plan.txt` and `texts-unit.txt` have what each finds.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from quotaform.apply.run import require_guards
from quotaform.desired.config import Config
from quotaform.model import rule
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError, StaleError
from quotaform.model.finding import DELETE, Allowance, Approval, by_severity
from quotaform.model.settings import GuardLimits, PruneMode
from quotaform.plan.check.check import lift, with_findings
from quotaform.plan.check.guard import Facts, Safeguards, check_changes
from quotaform.plan.difference import Pruned, make_plan, removals
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.records import load_plan
from quotaform.report.finding import render_findings
from quotaform.repository.repository import Repository
from tests.builder import HEADER, PRODUCER, declare, dumped_plan, findings_of, guarded, plan_of
from tests.scripted_gateway import Clock

ALICE = Entity(user="alice")
APPROVAL = Approval(
    rule="change-factor", address="user=alice", reason="r", approver="carol", expires=date(2026, 11, 30)
)


def leap(*approvals: Approval) -> Plan:
    plan = plan_of({ALICE: {PRODUCER: 2e7}}, {ALICE: {PRODUCER: 1e6}})
    lifted = lift(check_changes(plan, GuardLimits()), (), dict.fromkeys(approvals), date(2026, 11, 20))[0]
    return replace(plan, approvals=approvals, findings=tuple(by_severity(lifted)))


def test_an_approval_is_part_of_the_plan_id() -> None:
    ids = {
        leap(*approvals).plan_id
        for approvals in (
            (),
            (APPROVAL,),
            (structs.replace(APPROVAL, cluster="lab*"),),
            (structs.replace(APPROVAL, action=DELETE),),
        )
    }
    assert len(ids) == 4


def test_a_plan_that_an_approval_for_another_cluster_lifts_is_refused() -> None:
    plan = leap(structs.replace(APPROVAL, cluster="lab*"))
    assert load_plan(dumped_plan(plan), "plan.json") == plan
    forged = replace(plan, approvals=(structs.replace(APPROVAL, cluster="prod-*"),))
    with pytest.raises(SavedFileError, match="is not the cluster of the plan"):
        load_plan(dumped_plan(forged), "plan.json")


@pytest.mark.parametrize(
    "edit",
    [
        {"address": 'user="alice"'},
        {"address": "alice"},
        {"new": False},
        {"to": {"consumer_byte_rate": 1.0, "producer_byte_rate": 1.0}},
    ],
)
def test_a_plan_with_an_approval_that_is_not_canonical_is_refused(edit: dict[str, Any]) -> None:
    forged = replace(leap(APPROVAL), approvals=(structs.replace(APPROVAL, **edit),))
    with pytest.raises(SavedFileError, match="a value that this version cannot read"):
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


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")


def deletion(**options: Any) -> Plan:
    """A plan that deletes what no file declares."""
    entity = Entity(user="svc-a")
    pruned = {entity: Pruned("in scope and not declared; prune=scope")}
    header = structs.replace(HEADER, options=PlanOptions(prune=PruneMode.SCOPE, **options))
    actual = {entity: {PRODUCER: 1.0}}
    return make_plan(removals(pruned, actual), {}, actual, header, pruned=pruned)


def test_a_plan_of_a_wider_scope_or_with_a_wider_prune_is_refused(repository: Repository) -> None:
    """It was made while quotaform.yaml had the whole scope and prune: scope; both were taken back since."""
    plan = deletion()
    scope = "clusters: {lab: {snapshot: lab.json}}\nscope: {include: [{user: '%s'}]}\n"
    repository.config_path.write_text(scope % "svc-*" + "prune: scope\n")
    require_guards(plan, repository, Clock())
    repository.config_path.write_text(scope % "zzz-*" + "prune: removed\n")
    with pytest.raises(StaleError) as refused:
        require_guards(plan, repository, Clock())
    assert refused.value.exit_code == 5
    assert str(refused.value).splitlines()[1:-1] == [
        "  the plan changes user=svc-a, out of scope",
        "  the plan deletes 1 undeclared entity: its prune is scope, not removed",
    ]


def test_a_mode_of_pruning_that_the_command_line_gave_is_not_compared(repository: Repository) -> None:
    repository.config_path.write_text("clusters: {lab: {snapshot: lab.json}}\n")
    plan = deletion(is_prune_given=True)
    require_guards(plan, repository, Clock())
    assert load_plan(dumped_plan(guarded(plan)), "plan.json") == guarded(plan)
    assert load_plan(dumped_plan(guarded(deletion())), "plan.json").header.options.is_prune_given is False


MIB = 1048576.0
TODAY = date(2026, 11, 22)


def test_a_lint_is_no_part_of_the_plan_id_and_can_be_left_out() -> None:
    desired = declare({Entity(client_id="etl"): {PRODUCER: MIB}})
    plan = plan_of(desired, {Entity(user=None): {PRODUCER: MIB}})
    actual = {Entity(user=None): {PRODUCER: MIB}}
    facts = Facts(desired=desired, actual=actual, safeguards=Safeguards(Config()), today=TODAY)
    linted = with_findings(plan, facts)
    assert ([each.rule for each in linted.findings], linted.plan_id) == (["shadowed-entry"], plan.plan_id)
    assert findings_of(plan, structs.replace(facts, has_lints=False)) == ()
