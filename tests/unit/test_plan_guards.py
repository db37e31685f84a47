"""A saved plan brings its own guards; the repository has the last word. `rules-saved.txt` has what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quotaform.model.entity import Entity
from quotaform.model.errors import PlanGuardsError
from quotaform.model.settings import PruneMode
from quotaform.plan.difference import Pruned, make_plan, removals
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.plan_file import require_guards
from quotaform.plan.records import load_plan
from quotaform.repository.repository import Repository
from tests.builder import HEADER, PRODUCER, guarded
from tests.dumped import dumped_plan
from tests.scripted_gateway import Clock


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.at(tmp_path / "quotas.d", tmp_path / "quotaform.yaml")


def deletion(**options: Any) -> Plan:
    """A plan that deletes what no file declares."""
    entity = Entity(user="svc-a")
    pruned = {entity: Pruned("in scope and not declared; prune=scope")}
    header = replace(HEADER, options=PlanOptions(prune=PruneMode.SCOPE, **options))
    actual = {entity: {PRODUCER: 1.0}}
    return make_plan(removals(pruned, actual), {}, actual, header, pruned=pruned)


def test_a_plan_of_a_wider_scope_or_with_a_wider_prune_is_refused(repository: Repository) -> None:
    """It was made while quotaform.yaml had the whole scope and prune: scope; both were taken back since."""
    plan = deletion()
    scope = "clusters: {lab: {snapshot: lab.json}}\nscope: {include: [{user: '%s'}]}\n"
    repository.config_path.write_text(scope % "svc-*" + "prune: scope\n")
    require_guards(plan, repository, Clock())
    repository.config_path.write_text(scope % "zzz-*" + "prune: removed\n")
    with pytest.raises(PlanGuardsError) as refused:
        require_guards(plan, repository, Clock())
    assert refused.value.exit_code == 5
    assert refused.value.problems == (
        "the plan changes user=svc-a, out of scope",
        "the plan deletes 1 undeclared entity: its prune is scope, not removed",
    )


def test_a_mode_of_pruning_that_the_command_line_gave_is_not_compared(repository: Repository) -> None:
    repository.config_path.write_text("clusters: {lab: {snapshot: lab.json}}\n")
    plan = deletion(is_prune_given=True)
    require_guards(plan, repository, Clock())
    assert load_plan(dumped_plan(guarded(plan)), "plan.json") == guarded(plan)
    assert load_plan(dumped_plan(guarded(deletion())), "plan.json").header.options.is_prune_given is False
