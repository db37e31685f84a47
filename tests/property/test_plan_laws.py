"""Laws that hold for every plan."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from quotaform.core.effects import Direction
from quotaform.core.freshness import check_fresh
from quotaform.core.plan import Plan, PlanHeader, PlanSource, altered, diff, make_plan
from quotaform.model.entity import Entity
from quotaform.model.entry import Desired, Entry
from quotaform.model.location import Location
from quotaform.model.quotas import Quotas
from quotaform.planfile import dump_plan, load_plan
from tests.strategies import desired, quotas

HEADER = PlanHeader(
    cluster_name="lab",
    cluster_id="3JxQ0v7pT2a",
    created_at="2026-11-20T09:12:44Z",
    source=PlanSource(directory="quotas.d"),
    options={"prune": "report", "select": [], "exclude": []},
)


def plan_of(files: Desired, actual: Quotas) -> Plan:
    return make_plan(diff(files, actual), files, actual, HEADER)


def declare(actual: Quotas) -> dict[Entity, Entry]:
    place = Location("quotas.d/all.yaml", 1, 1)
    return {entity: Entry(entity=entity, values=values, location=place) for entity, values in actual.items()}


@given(quotas())
def test_a_cluster_that_is_declared_as_it_is_has_an_empty_plan(actual: Quotas) -> None:
    plan = plan_of(declare(actual), actual)
    assert plan.changes == ()
    assert plan.unchanged == len(actual)


@given(desired(), quotas())
def test_applying_a_plan_gives_what_the_files_say_and_leaves_the_rest_alone(files: Desired, actual: Quotas) -> None:
    plan = plan_of(files, actual)
    after = altered(actual, (change.alteration() for change in plan.changes))
    wanted = {entity: dict(entry.values) for entity, entry in files.items() if entry.values}
    rest = {entity: values for entity, values in actual.items() if entity not in files}
    assert after == wanted | rest
    assert plan_of(files, after).changes == ()


@given(desired(), quotas())
def test_every_change_says_what_is_before_and_after_it(files: Desired, actual: Quotas) -> None:
    for change in plan_of(files, actual).changes:
        assert change.before == actual.get(change.entity, {})
        assert change.after == files[change.entity].values
        assert change.changes


@given(desired(), quotas(), st.randoms(use_true_random=False))
def test_a_plan_does_not_depend_on_the_order_of_what_it_is_made_of(
    files: Desired, actual: Quotas, chance: random.Random
) -> None:
    def shuffled(mapping: dict[Entity, object]) -> dict[Entity, object]:
        items = list(mapping.items())
        chance.shuffle(items)
        return dict(items)

    again = plan_of(shuffled(dict(files)), shuffled(dict(actual)))  # type: ignore[arg-type]
    assert dump_plan(again) == dump_plan(plan_of(files, actual))


@given(desired(), quotas())
def test_a_plan_file_reads_back_as_the_plan(files: Desired, actual: Quotas) -> None:
    plan = plan_of(files, actual)
    text = dump_plan(plan)
    again = load_plan(text, "plan.json")
    assert again == plan
    assert again.plan_id == plan.plan_id
    assert dump_plan(again) == text


@given(desired(), quotas())
def test_a_fresh_plan_is_pending_and_an_applied_one_is_done(files: Desired, actual: Quotas) -> None:
    plan = plan_of(files, actual)
    fresh = check_fresh(plan.changes, actual)
    assert fresh.pending == plan.changes
    after = altered(actual, (change.alteration() for change in plan.changes))
    assert check_fresh(plan.changes, after).applied == plan.changes


@given(desired(), quotas())
def test_the_plan_id_says_what_is_done_and_nothing_else(files: Desired, actual: Quotas) -> None:
    plan = plan_of(files, actual)
    moved = {
        entity: Entry(
            entity=entity, values=entry.values, location=Location("elsewhere.yaml", 9), owner="me", absent=entry.absent
        )
        for entity, entry in files.items()
    }
    assert plan_of(moved, actual).plan_id == plan.plan_id


@given(desired(), quotas())
def test_direction_compares_effective_values(files: Desired, actual: Quotas) -> None:
    for change in plan_of(files, actual).changes:
        for row, effect in zip(change.changes, change.effects, strict=True):
            before = float("inf") if effect.before.value is None else effect.before.value
            after = float("inf") if effect.after.value is None else effect.after.value
            expected = Direction.LOOSEN if after > before else Direction.TIGHTEN if after < before else Direction.NONE
            assert effect.direction(row.key) is expected
