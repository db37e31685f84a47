"""What a plan changes, what it leaves alone, and in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import permutations

import pytest

from quotaform.core.change import Action, Change
from quotaform.core.difference import diff, make_plan
from quotaform.core.entity_change import EntityChange
from quotaform.core.plan import Plan
from quotaform.core.plan_options import PlanOptions
from quotaform.core.prune import PruneMode
from quotaform.core.scope import Pattern, Scope, Selection
from quotaform.model.alteration import Alteration, apply_ops
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.finding import Finding, Severity
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.model.units import parse_value
from tests.builder import CONSUMER, HEADER, MUTATION, PRODUCER, REQUEST, declare, plan_of

ALICE, BOB, CAROL, DAVE = (Entity(user=name) for name in ("alice", "bob", "carol", "dave"))
NAN = float("nan")


def only(plan: Plan) -> EntityChange:
    (change,) = plan.changes
    return change


def test_a_key_missing_from_the_files_is_removed() -> None:
    change = only(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 1.0, CONSUMER: 2.0}}))
    assert change.action is Action.UPDATE
    assert change.changes == (Change(ALICE, CONSUMER, 2.0, None),)
    assert change.changes[0].action is Action.DELETE
    assert (change.before, change.after) == ({PRODUCER: 1.0, CONSUMER: 2.0}, {PRODUCER: 1.0})
    assert change.alteration() == Alteration(ALICE, {CONSUMER: None})


def test_a_key_missing_from_the_cluster_is_created_on_an_entity_that_is_updated() -> None:
    change = only(plan_of({ALICE: {PRODUCER: 1.0, CONSUMER: 2.0}}, {ALICE: {PRODUCER: 1.0}}))
    assert change.action is Action.UPDATE
    assert change.changes[0].action is Action.CREATE


def test_an_entity_missing_from_the_cluster_is_created() -> None:
    change = only(plan_of({ALICE: {PRODUCER: 1.0}}, {}))
    assert change.action is Action.CREATE
    assert (change.before, change.after) == ({}, {PRODUCER: 1.0})


def test_an_entity_that_must_not_exist_is_deleted_with_all_its_known_keys() -> None:
    change = only(plan_of({ALICE: {}}, {ALICE: {CONSUMER: 1.0, PRODUCER: 2.0}}))
    assert change.action is Action.DELETE
    assert change.alteration().ops == {PRODUCER: None, CONSUMER: None}
    assert change.after == {}
    assert change.reason == "state: absent"


def test_a_live_key_that_is_not_known_is_never_touched() -> None:
    plan = plan_of({ALICE: {PRODUCER: 2.0}}, {ALICE: {PRODUCER: 1.0, "future_rate": 9.0}})
    assert only(plan).changes == (Change(ALICE, PRODUCER, 1.0, 2.0),)
    assert only(plan).after == {PRODUCER: 2.0, "future_rate": 9.0}
    assert plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: 1.0, "future_rate": 9.0}}).changes == ()


def test_deleting_an_entity_with_an_unknown_key_updates_it() -> None:
    change = only(plan_of({ALICE: {}}, {ALICE: {PRODUCER: 1.0, "future_rate": 9.0}}))
    assert change.action is Action.UPDATE
    assert change.after == {"future_rate": 9.0}
    assert change.alteration().ops == {PRODUCER: None}


def test_deleting_an_entity_with_nothing_but_an_unknown_key_changes_nothing() -> None:
    plan = plan_of({ALICE: {}}, {ALICE: {"future_rate": 9.0}})
    assert plan.changes == ()
    assert plan.unchanged == 1


def test_a_tombstone_of_an_entity_that_is_not_there_is_no_change() -> None:
    plan = plan_of({ALICE: {}}, {})
    assert plan.changes == ()
    assert plan.summary["no_op"] == 1


def test_an_expired_entry_says_so() -> None:
    files = declare({ALICE: {}}, cause=Cause.EXPIRED, expires=date(2026, 1, 31), reason="load test", owner="team-a")
    change = only(plan_of(files, {ALICE: {PRODUCER: 1.0}}))
    assert (change.reason, change.owner) == ("expired 2026-01-31", "team-a")


def test_a_change_has_the_words_and_the_place_of_its_entry() -> None:
    files = declare({ALICE: {PRODUCER: 2.0}}, reason="checkout", owner="team-orders")
    change = only(plan_of(files, {ALICE: {PRODUCER: 1.0}}))
    assert (change.reason, change.owner) == ("checkout", "team-orders")
    assert str(change.location) == "quotas.d/all.yaml:2:5"


def test_a_live_value_that_is_no_number_is_replaced() -> None:
    change = only(plan_of({ALICE: {PRODUCER: 1.0}}, {ALICE: {PRODUCER: NAN}}))
    assert change.action is Action.UPDATE
    assert change.alteration().ops == {PRODUCER: 1.0}


def test_two_spellings_of_one_number_are_no_change() -> None:
    live = 10485760.0
    for spelling in ("10MiB/s", "10240KiB/s", "10485760", "10485760B/s", "1.048576e7", "10485.76kB/s"):
        assert (
            plan_of({ALICE: {PRODUCER: parse_value(PRODUCER_BYTE_RATE, spelling)}}, {ALICE: {PRODUCER: live}}).changes
            == ()
        )


def test_the_smallest_difference_of_a_double_is_a_change() -> None:
    assert only(plan_of({ALICE: {REQUEST: 0.30000000000000004}}, {ALICE: {REQUEST: 0.3}})).action is Action.UPDATE


def test_a_literal_name_is_not_the_default() -> None:
    plan = plan_of({Entity(user="<default>"): {PRODUCER: 1.0}}, {Entity(user=None): {PRODUCER: 1.0}})
    assert only(plan).action is Action.CREATE
    assert [item.entity for item in plan.unmanaged] == [Entity(user=None)]


def test_entities_that_nobody_declared_are_listed_and_left_alone() -> None:
    scope = Scope(include=(Pattern((("user", "*"),)),), exclude=(Pattern((("user", "kafka-*"),)),))
    actual = {
        Entity(user="kafka-a"): {PRODUCER: 1.0},
        Entity(user="bob"): {PRODUCER: 1.0},
        Entity(user=None): {PRODUCER: 1.0},
        Entity(client_id="c"): {PRODUCER: 1.0},
        ALICE: {PRODUCER: 1.0},
    }
    plan = plan_of({ALICE: {PRODUCER: 1.0}}, actual, scope=scope)
    assert plan.changes == ()
    assert [(item.entity.address, item.in_scope) for item in plan.unmanaged] == [
        ("client-id=c", False),
        ("user=<default>", False),
        ("user=bob", True),
        ("user=kafka-a", False),
    ]


def test_a_selection_makes_the_plan_incomplete_and_never_touches_others() -> None:
    wanted = {ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 2.0}, CAROL: {PRODUCER: 1.0}}
    actual = {ALICE: {PRODUCER: 1.0}, BOB: {PRODUCER: 1.0}, CAROL: {PRODUCER: 1.0}, DAVE: {PRODUCER: 1.0}}
    plan = plan_of(wanted, actual, selection=Selection(select=("user=a*", "user=c*")))
    assert not plan.is_complete
    assert only(plan).entity == ALICE
    assert plan.unchanged == 1
    assert plan.unmanaged == ()
    rest = plan_of(wanted, actual, selection=Selection(exclude=("user=a*",)))
    assert not rest.is_complete
    assert only(rest).entity == BOB
    assert [item.entity for item in rest.unmanaged] == [DAVE]


def test_a_plan_without_a_selection_is_complete() -> None:
    assert plan_of({}, {}).is_complete


def test_deletes_come_first_then_updates_then_creates_each_by_address() -> None:
    wanted = {
        Entity(user="z"): {PRODUCER: 1.0},
        Entity(client_id="new"): {PRODUCER: 1.0},
        Entity(user="b"): {PRODUCER: 2.0},
        Entity(user="a", client_id="x"): {PRODUCER: 2.0},
        Entity(user="y"): {},
        Entity(user=None): {},
    }
    actual = {entity: {PRODUCER: 1.0} for entity in list(wanted)[2:]}
    expected = ["user=<default>", "user=y", "user=a,client-id=x", "user=b", "client-id=new", "user=z"]
    for order in list(permutations(wanted.items()))[::97]:
        plan = plan_of(dict(order), dict(reversed(actual.items())))
        assert [change.entity.address for change in plan.changes] == expected


def test_keys_are_in_the_order_of_kafka() -> None:
    names = (MUTATION, CONSUMER, REQUEST, PRODUCER)
    change = only(plan_of({ALICE: dict.fromkeys(names, 1.0)}, {}))
    assert [row.key for row in change.changes] == [PRODUCER, CONSUMER, REQUEST, MUTATION]


def test_a_plan_that_changes_nothing_can_be_applied() -> None:
    plan = plan_of({}, {})
    assert plan.is_applyable
    assert set(plan.summary.values()) == {0}


def test_what_blocks_comes_first_and_makes_the_plan_not_applyable() -> None:
    findings = [
        Finding(rule="ip-alias", message="", severity=Severity.WARNING, address="ip=::1"),
        Finding(rule="nan-value", message="", severity=Severity.WARNING),
        Finding(rule="cluster-id", message="", blocking=True),
    ]
    plan = plan_of({}, {}, findings=findings)
    assert [finding.rule for finding in plan.findings] == ["cluster-id", "nan-value", "ip-alias"]
    assert not plan.is_applyable
    assert plan.summary["blocked"] == 1


def test_the_plan_id_changes_with_what_is_done_and_with_the_cluster() -> None:
    actual = {ALICE: {PRODUCER: 1.0}}
    ids = [
        plan_of({}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 3.0}}, actual).plan_id,
        plan_of({ALICE: {}}, actual).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, {ALICE: {PRODUCER: NAN}}).plan_id,
        plan_of({ALICE: {PRODUCER: 2.0}}, actual, header=replace(HEADER, cluster_id="another")).plan_id,
        plan_of({BOB: {PRODUCER: 2.0}}, {BOB: {PRODUCER: 1.0}}).plan_id,
    ]
    assert len(set(ids)) == len(ids)


def test_the_plan_id_does_not_depend_on_times_names_or_places() -> None:
    options = PlanOptions(prune=PruneMode.SCOPE)
    header = replace(HEADER, cluster_name="other", created_at="2030-01-01T00:00:00Z", options=options)
    files = declare({BOB: {PRODUCER: 1.0}, ALICE: {PRODUCER: 2.0}}, owner="me", reason="why")
    actual = {ALICE: {PRODUCER: 1.0}}
    assert (
        plan_of(files, actual, header=header).plan_id
        == plan_of({ALICE: {PRODUCER: 2.0}, BOB: {PRODUCER: 1.0}}, actual).plan_id
    )


def test_ops_remove_what_is_there_and_leave_what_they_are_made_on_as_it_is() -> None:
    values = {PRODUCER: 1.0}
    assert apply_ops(values, {PRODUCER: None, CONSUMER: None}) == {}
    assert apply_ops({}, {PRODUCER: None}) == {}
    assert values == {PRODUCER: 1.0}


@pytest.mark.parametrize(("action", "glyph"), [(Action.CREATE, "+"), (Action.UPDATE, "~"), (Action.DELETE, "-")])
def test_an_action_has_a_sign(action: Action, glyph: str) -> None:
    assert action.glyph == glyph


def test_an_entity_that_no_file_declares_is_removed_when_it_is_pruned() -> None:
    actual = {ALICE: {PRODUCER: 1.0, "future_rate": 2.0}, BOB: {PRODUCER: 1.0}}
    rows = diff({}, actual, pruned=[ALICE])
    plan = make_plan(rows, {}, actual, HEADER)
    (change,) = plan.changes
    assert (change.entity, change.after, change.cause) == (ALICE, {"future_rate": 2.0}, Cause.UNDECLARED)
    assert (change.location, change.owner, change.reason) == (None, None, None)
    assert [item.entity for item in plan.unmanaged] == [BOB]
    assert plan.unchanged == 0


def test_a_declared_entity_is_never_pruned() -> None:
    files = declare({ALICE: {PRODUCER: 1.0}})
    assert list(diff(files, {ALICE: {PRODUCER: 1.0}}, pruned=[ALICE])) == []


@pytest.mark.parametrize("cause", [Cause.ENTRY, Cause.TOMBSTONE, Cause.EXPIRED])
def test_a_change_says_what_in_the_files_it_follows_from(cause: Cause) -> None:
    values = {CONSUMER: 2.0} if cause is Cause.ENTRY else {}
    files = declare({ALICE: values}, cause=cause, expires=date(2026, 1, 31))
    (change,) = plan_of(files, {ALICE: {PRODUCER: 1.0}}).changes
    assert change.cause is cause
