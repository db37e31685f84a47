"""The last lines of a plan say what is true of all its entities."""

from __future__ import annotations

from datetime import date
from json import loads

from jsonschema import Draft7Validator

from quotaform.model.entity import Entity
from quotaform.model.quotas import Cause
from quotaform.model.scope import Selection
from quotaform.plan.records import load_plan
from quotaform.plan.report import render_plan
from tests.builder import CONSUMER, PRODUCER, declare, plan_of
from tests.dumped import dumped_plan
from tests.loading import load_schema

ALICE, BOB, CAROL = Entity(user="alice"), Entity(user="bob"), Entity(user="carol")


def effect_line(text: str) -> str:
    """The line of the effects up to the plan id."""
    (line,) = [line for line in text.splitlines() if line.startswith("Effect: ")]
    return line.partition(" Plan id ")[0]


def test_to_unlimited_is_counted_with_the_direction_that_it_stands_behind() -> None:
    """`0 loosened (1 to unlimited), 1 mixed`: the one that becomes unlimited was the mixed one."""
    wanted = {ALICE: {PRODUCER: 1.0}, BOB: {CONSUMER: 1.0}, CAROL: {PRODUCER: 2.0**63}}
    live = {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}}
    assert effect_line("".join(render_plan(plan_of(wanted, live)))) == (
        "Effect: 0 loosened, 1 tightened, 1 mixed (1 to unlimited), 1 without effect. 0 already as declared."
    )
    live = {**live, CAROL: {PRODUCER: 1.0}}
    assert effect_line("".join(render_plan(plan_of(wanted, live)))) == (
        "Effect: 1 loosened (1 to unlimited), 1 tightened, 1 mixed (1 to unlimited). 0 already as declared."
    )


def test_an_entity_that_is_absent_as_declared_is_not_called_unchanged() -> None:
    """On an empty cluster: `0 entities in scope` and `1 unchanged`."""
    text = "".join(render_plan(plan_of({ALICE: {PRODUCER: 1.0}, BOB: {}}, {})))
    assert effect_line(text).endswith(". 1 already as declared.")
    assert "unchanged" not in text


def test_a_plan_of_nothing_is_no_all_clear() -> None:
    nobody, alice = Selection(("user=nobody",)), Selection(("user=alice",))
    live = {ALICE: {PRODUCER: 1.0}}
    for wanted, selection, last in (
        ({}, nobody, "Nothing was compared: --select and --exclude leave no entity."),
        (live, nobody, "Nothing was compared: --select and --exclude leave no entity."),
        (live, alice, "No changes. Your infrastructure matches the configuration."),
        (
            {},
            alice,
            "No changes. Your infrastructure matches the configuration. 1 undeclared entity in scope stays as it is.",
        ),
    ):
        plan = plan_of(wanted, live, selection=selection)
        assert "".join(render_plan(plan)).splitlines()[-1] == last
    assert plan_of({}, {}).has_entities


def test_a_coming_expiry_is_shown_and_kept_in_the_plan_file() -> None:
    """The day on which an entry would end was nowhere to be seen before it came."""
    plan = plan_of(declare({ALICE: {PRODUCER: 1.0}}, expires=date(2027, 1, 31), owner="me"), {})
    assert "  # (quotas.d/all.yaml:2:5; owner me; expires 2027-01-31)\n" in "".join(render_plan(plan))
    text = dumped_plan(plan)
    document = loads(text)
    Draft7Validator(load_schema("plan")).validate(document)
    assert document["changes"][0]["expires"] == "2027-01-31"
    assert load_plan(text, "plan.json") == plan


def test_an_expiry_that_has_come_is_the_reason_alone() -> None:
    expired = declare({ALICE: {}}, cause=Cause.EXPIRED, expires=date(2026, 1, 31))
    plan = plan_of(expired, {ALICE: {PRODUCER: 1.0}})
    assert "  # (quotas.d/all.yaml:2:5; expired 2026-01-31)\n" in "".join(render_plan(plan))
    assert "expires" not in loads(dumped_plan(plan))["changes"][0]
