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
from tests.builder import PRODUCER, declare, plan_of
from tests.dumped import dumped_plan
from tests.loading import load_schema

ALICE, BOB, CAROL = Entity(user="alice"), Entity(user="bob"), Entity(user="carol")


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
