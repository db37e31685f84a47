"""A revert puts back exactly what an apply changed, and nothing else; `story-revert.txt` has what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from quotaform.desired.config import Config
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError, StaleError
from quotaform.model.quotas import Desired, Quotas
from quotaform.model.records.document import sealed_lines
from quotaform.model.scope import ALL, Selection
from quotaform.plan.check.check import check_revert
from quotaform.plan.check.guard import Facts, Safeguards
from quotaform.plan.difference import make_plan
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.receipt import Result, SavedReceipt, as_revert, find_revert, require_revertible
from quotaform.plan.records import PLAN_LISTS, load_plan
from tests import builder
from tests.builder import (
    CONSUMER,
    HEADER,
    PRODUCER,
    REQUEST,
    after_apply,
    declare,
    dumped_plan,
    findings_of,
    guarded,
    plan_of,
)
from tests.strategies import desired, quotas

ALICE, BOB, OLD = Entity(user="alice"), Entity(user="bob"), Entity(user="old")
BEFORE: Quotas = {ALICE: {PRODUCER: 1.0, REQUEST: 7.0}, OLD: {CONSUMER: 5.0}}
WANTED: Desired = declare({ALICE: {PRODUCER: 2.0, REQUEST: 7.0}, BOB: {PRODUCER: 3.0}, OLD: {}})
PLAN = plan_of(WANTED, BEFORE)
AFTER = after_apply(PLAN, BEFORE)


def receipt_of(plan: Plan = PLAN, **results: Result) -> SavedReceipt:
    """The receipt of an apply; the users named have other results than applied."""
    named = [results.get(str(each.entity.names.get("user")), Result.APPLIED) for each in plan.changes]
    return builder.receipt_of(plan, *named).saved()


def revert_plan(
    receipt: SavedReceipt, actual: Quotas, files: Desired = WANTED, selection: Selection = ALL, **more: Any
) -> Plan:
    found = structs.replace(find_revert(receipt, actual, selection), **more)
    require_revertible(found)
    options = PlanOptions(revert=receipt.plan_id)
    made = make_plan(found.rows, files, actual, structs.replace(HEADER, options=options), selection=selection)
    plan = as_revert(made, found)
    facts = Facts(desired=files, actual=actual, safeguards=Safeguards(Config()), revert=found)
    return replace(plan, findings=findings_of(plan, facts, [check_revert]))


@settings(max_examples=40)
@given(desired(), quotas())
def test_a_revert_of_any_apply_brings_back_the_state_before(wanted: Desired, actual: Quotas) -> None:
    done = plan_of(wanted, actual)
    live = after_apply(done, actual)
    plan = revert_plan(receipt_of(done), live, wanted)
    assert after_apply(plan, live) == actual
    assert load_plan(dumped_plan(guarded(plan)), "plan.json") == guarded(plan)
    again = revert_plan(receipt_of(done), actual, wanted)
    assert (again.changes, again.unchanged) == ((), len(done.changes))


@settings(max_examples=30)
@given(desired(), quotas(), quotas())
def test_keys_that_the_apply_did_not_touch_stay(wanted: Desired, actual: Quotas, others: Quotas) -> None:
    done = plan_of(wanted, actual)
    live = after_apply(done, actual)
    touched = {(row.entity, row.key) for row in done.rows}
    for entity, values in others.items():
        kept = {key: value for key, value in values.items() if (entity, key) not in touched}
        live = {**live, entity: {**live.get(entity, {}), **kept}} if kept else live
    plan = revert_plan(receipt_of(done), live, wanted)
    result = after_apply(plan, live)
    assert {(row.entity, row.key) for row in plan.rows} == touched
    for entity in {*live, *result}:
        for key in {*live.get(entity, {}), *result.get(entity, {})}:
            wanted_values = (actual if (entity, key) in touched else live).get(entity, {})
            assert result.get(entity, {}).get(key) == wanted_values.get(key)


@pytest.mark.parametrize("result", [Result.ALREADY_APPLIED, Result.REFUSED, Result.NOT_ATTEMPTED])
def test_an_entity_that_the_apply_did_not_change_is_left_alone(result: Result) -> None:
    plan = revert_plan(receipt_of(alice=result), AFTER)
    assert ALICE not in {change.entity for change in plan.changes}
    assert len(plan.changes) == 2


@pytest.mark.parametrize("result", [Result.UNCONFIRMED, Result.UNKNOWN, Result.OVERWRITTEN])
def test_an_entity_that_may_have_been_changed_is_put_back_if_it_was(result: Result) -> None:
    assert ALICE in {change.entity for change in revert_plan(receipt_of(alice=result), AFTER).changes}
    unchanged = {**AFTER, ALICE: BEFORE[ALICE]}
    plan = revert_plan(receipt_of(alice=result), unchanged)
    assert (ALICE in {change.entity for change in plan.changes}, plan.unchanged) == (False, 1)


def test_a_value_that_nobody_can_write_is_not_put_back() -> None:
    done = plan_of({ALICE: {PRODUCER: 2.0}}, {ALICE: {PRODUCER: float("nan")}})
    with pytest.raises(StaleError, match="producer_byte_rate was NaN before the apply, which cannot be written"):
        revert_plan(receipt_of(done), {ALICE: {PRODUCER: 2.0}})
    back = revert_plan(receipt_of(done), {ALICE: {PRODUCER: float("nan")}})
    assert back.changes == ()


def test_the_message_about_very_many_keys_is_short() -> None:
    many = {Entity(user=f"u{number}"): {PRODUCER: 2.0} for number in range(500)}
    with pytest.raises(StaleError, match=r"\.\.\. and 480 more"):
        revert_plan(receipt_of(plan_of(many, {})), {entity: {PRODUCER: 3.0} for entity in many})


def test_only_a_revert_has_changes_that_no_file_causes() -> None:
    from json import loads

    for plan in (revert_plan(receipt_of(), AFTER), PLAN):
        document = loads(dumped_plan(plan))
        del document["digest"]
        if document["options"].pop("revert", None) is None:
            document["options"]["revert"] = PLAN.plan_id
        with pytest.raises(SavedFileError, match=r"changes\[0\]\.cause contradicts the options"):
            load_plan("".join(sealed_lines(document.items(), PLAN_LISTS)), "plan.json")
