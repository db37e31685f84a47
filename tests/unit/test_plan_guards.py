"""A saved plan brings its own guards and approvals; the repository where it is applied has the last word."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import PlanGuardsError
from quotaform.model.finding import Allowance, Approval
from quotaform.model.scope import Pattern
from quotaform.model.settings import CountLimit, GuardLimits, PruneMode
from quotaform.plan.difference import Pruned, make_plan, removals
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.plan_file import require_guards
from quotaform.plan.records import load_plan
from quotaform.repository.repository import Repository
from quotaform.system.clock import SystemClock
from tests.builder import HEADER, PRODUCER, guarded, plan_of
from tests.dumped import dumped_plan

KAFKA = Entity(user="kafka-1")
PROTECT = GuardLimits(protect=(Pattern((("user", "kafka-*"),)),))
APPROVAL = Approval(
    rule="protect", entity=KAFKA, reason="halved", approver="carol@example.com", expires=date(2026, 11, 30)
)
CONFIG = "clusters: {lab: {bootstrap_servers: ['127.0.0.1:9092']}}\nprotect: [{user: 'kafka-*'}]\n"
APPROVALS = """\
- rule: protect
  address: user=kafka-1
  reason: halved
  approver: carol@example.com
  expires: 2026-11-30
"""


class Noon(SystemClock):
    """It is always noon on the 20th."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 12, tzinfo=UTC)


def plan_by(limits: GuardLimits, *approvals: Approval) -> Plan:
    plan = plan_of({KAFKA: {PRODUCER: 1.0}}, {KAFKA: {PRODUCER: 1.5}})
    header = replace(plan.header, options=PlanOptions(limits=limits))
    return replace(plan, header=header, approvals=approvals)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "quotaform.yaml").write_text(CONFIG)
    return Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")


def test_limits_that_differ_from_the_default_are_under_the_plan_id() -> None:
    """A plan without the pattern and the finding had the id of an honest plan of a repository that protects nothing."""
    ids = [
        plan_by(limits).plan_id
        for limits in (GuardLimits(), PROTECT, GuardLimits(change_factor=1000), GuardLimits(delete=CountLimit(9, 20)))
    ]

    assert len(set(ids)) == 4
    assert ids[0] == plan_of({KAFKA: {PRODUCER: 1.0}}, {KAFKA: {PRODUCER: 1.5}}).plan_id


def test_a_plan_by_the_guards_of_the_repository_or_stricter_ones_is_accepted(repository: Repository) -> None:
    require_guards(plan_by(PROTECT), repository, Noon())
    require_guards(plan_by(replace(PROTECT, change_factor=2)), repository, Noon())


def test_a_plan_by_looser_guards_is_refused(repository: Repository) -> None:
    with pytest.raises(PlanGuardsError) as refused:
        require_guards(plan_by(GuardLimits(change_factor=1000)), repository, Noon())

    assert refused.value.exit_code == 5
    assert refused.value.problems == (
        "of the plan, guards.change_factor is 1000 instead of 10",
        "of the plan, protect has no user=kafka-*",
    )


def test_an_approval_that_the_repository_does_not_hold_is_refused(repository: Repository) -> None:
    plan = plan_by(PROTECT, APPROVAL)
    with pytest.raises(PlanGuardsError) as refused:
        require_guards(plan, repository, Noon())
    assert refused.value.problems == (
        "approvals.yaml does not hold the approval of protect for user=kafka-1 (approval of carol@example.com, until "
        "2026-11-30)",
    )
    file = repository.config_path.with_name("approvals.yaml")
    file.write_text(APPROVALS)
    require_guards(plan, repository, Noon())
    file.write_text(APPROVALS.replace("11-30", "12-01"))
    with pytest.raises(PlanGuardsError):
        require_guards(plan, repository, Noon())


def deletion_of(entity: Entity, **options: Any) -> Plan:
    """A plan that deletes what no file declares."""
    pruned = {entity: Pruned("in scope and not declared; prune=scope")}
    header = replace(HEADER, options=PlanOptions(**options))
    actual = {entity: {PRODUCER: 1.0}}
    return make_plan(removals(pruned, actual), {}, actual, header, pruned=pruned)


def test_a_plan_of_a_wider_scope_or_with_a_wider_prune_is_refused(repository: Repository) -> None:
    """It was made while quotaform.yaml had the whole scope and prune: scope; both were taken back since."""
    plan = deletion_of(Entity(user="svc-a"), prune=PruneMode.SCOPE)
    scope = "clusters: {lab: {snapshot: lab.json}}\nscope: {include: [{user: '%s'}]}\n"
    repository.config_path.write_text(scope % "svc-*" + "prune: scope\n")
    require_guards(plan, repository, Noon())
    repository.config_path.write_text(scope % "zzz-*" + "prune: removed\n")
    with pytest.raises(PlanGuardsError) as refused:
        require_guards(plan, repository, Noon())
    assert refused.value.problems == (
        "the plan changes user=svc-a, out of scope",
        "the plan deletes 1 undeclared entity: its prune is scope, not removed",
    )
    assert load_plan(dumped_plan(guarded(plan)), "plan.json").header.options.is_prune_given is False


def test_a_mode_of_pruning_that_the_command_line_gave_is_not_compared(repository: Repository) -> None:
    repository.config_path.write_text("clusters: {lab: {snapshot: lab.json}}\n")
    plan = deletion_of(Entity(user="svc-a"), prune=PruneMode.SCOPE, is_prune_given=True)
    require_guards(plan, repository, Noon())
    assert load_plan(dumped_plan(guarded(plan)), "plan.json") == guarded(plan)


def test_a_revert_that_was_allowed_out_of_scope_is_accepted(repository: Repository) -> None:
    repository.config_path.write_text(CONFIG + "scope: {include: [{user: zzz}]}\n")
    plan = plan_by(PROTECT)
    with pytest.raises(PlanGuardsError, match="the plan changes user=kafka-1, out of scope"):
        require_guards(plan, repository, Noon())
    require_guards(replace(plan, allowances=(Allowance("revert-unmanaged"),)), repository, Noon())


def test_without_a_configuration_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")

    require_guards(plan_by(GuardLimits(change_factor=1000), APPROVAL), repository, Noon())
