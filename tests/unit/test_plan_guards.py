"""A saved plan brings its own guards and approvals; the repository where it is applied has the last word."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from quotaform.app.clock import SystemClock
from quotaform.app.plan.plan_file import require_guards
from quotaform.app.repository.repository import Repository
from quotaform.core.guard_limits import CountLimit, GuardLimits
from quotaform.core.plan import Plan
from quotaform.core.plan_options import PlanOptions
from quotaform.core.scope import Pattern
from quotaform.errors import PlanGuardsError
from quotaform.model.approval import Approval
from quotaform.model.entity import Entity
from tests.builder import PRODUCER, plan_of

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


def test_without_a_configuration_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    repository = Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")

    require_guards(plan_by(GuardLimits(change_factor=1000), APPROVAL), repository, Noon())
