"""Guards: what blocks a plan, at the boundary of each rule, and what lifts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from json import dumps
from types import MappingProxyType

import pytest

from quotaform.model import rule
from quotaform.model.entity import Entity, parse_address
from quotaform.model.errors import PlanFileError
from quotaform.model.finding import CHANGE, DELETE, Allowance, Approval, Finding, escaped_address
from quotaform.model.quotas import Base, DeclaredBase, Quotas, Values
from quotaform.model.scope import Pattern, escape_glob
from quotaform.model.settings import CountLimit, GuardLimits
from quotaform.plan.check.approval import follows_deletion, is_about
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.facts import ClusterBase, Facts, Safeguards
from quotaform.plan.check.guard import GUARDS, is_leap
from quotaform.plan.plan import Plan
from quotaform.plan.records import load_plan
from quotaform.report.finding import approval_item, render_findings
from tests.builder import CONSUMER, PRODUCER, REQUEST, declare, guarded, plan_of
from tests.dumped import dumped_plan

MIB = 1048576.0
TODAY = date(2026, 11, 20)
ALICE, BOB = Entity(user="alice"), Entity(user="bob")
EVERYBODY = Entity(user=None)
LOOSE = GuardLimits(delete=CountLimit(1000, 100), update=CountLimit(1000, 100))
UNLIMITED = 2.0**63


def users(number: int, value: float = MIB, *, first: int = 0) -> dict[Entity, Values]:
    return {Entity(user=f"u{index:04}"): {PRODUCER: value} for index in range(first, first + number)}


def checked(
    wanted: Mapping[Entity, Values],
    actual: Quotas,
    *,
    allowances: Sequence[str] = (),
    approvals: Sequence[Approval] = (),
    limits: GuardLimits | None = None,
    base: DeclaredBase | None = None,
    base_limits: GuardLimits | None = None,
) -> Plan:
    """The plan of files on a cluster, with what its guards find."""
    plan = plan_of(wanted, actual, allowances=map(Allowance.parse, allowances))
    facts = Facts(
        desired=declare(wanted),
        actual=actual,
        safeguards=Safeguards(limits=limits or GuardLimits()),
        base=ClusterBase(declared=base, safeguards=None if base_limits is None else Safeguards(limits=base_limits)),
        approvals=tuple(approvals),
        today=TODAY,
    )
    return with_findings(plan, facts, GUARDS)


def blocked(plan: Plan) -> list[tuple[str, str | None, str | None]]:
    return [(found.rule, found.address, found.key) for found in plan.findings if found.blocking]


def rules(plan: Plan) -> list[str]:
    return sorted({found.rule for found in plan.findings if found.blocking})


def deleting(number: int, managed: int) -> tuple[dict[Entity, Values], Quotas]:
    """Files with tombstones for some of the entities of a cluster; a default keeps the rest limited."""
    wanted: dict[Entity, Values] = {**users(managed), **{entity: {} for entity in users(number)}}
    return wanted, {**users(managed), Entity(client_id="any"): {PRODUCER: MIB}}


def approval(
    rule: str,
    entity: Entity,
    *,
    days: int = 10,
    action: str = CHANGE,
    to: Mapping[str, float] = MappingProxyType({}),
) -> Approval:
    return Approval(
        rule=rule,
        entity=entity,
        reason="known",
        approver="carol@example.com",
        expires=TODAY + timedelta(days=days),
        action=action,
        to=tuple(to.items()),
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            102400 * MIB,
            "producer_byte_rate would be 100 GiB/s, 10,240 times the 10 MiB/s from user=<default> that applies",
        ),
        (MIB / 1024, "producer_byte_rate would be 1 KiB/s, 1/10,240 of the 10 MiB/s from user=<default> that applies"),
        (100 * MIB, "producer_byte_rate would be 100 MiB/s, 10 times the 10 MiB/s from user=<default> that applies"),
        (99 * MIB, None),
        (2 * MIB, None),
        (UNLIMITED, None),
    ],
)
def test_a_new_value_far_from_the_default_is_a_warning(value: float, said: str | None) -> None:
    """A slip of the unit in a new entry passed every guard."""
    default: Quotas = {EVERYBODY: {PRODUCER: 10 * MIB}}
    plan = checked({**default, ALICE: {PRODUCER: value}}, default)
    found = [finding for finding in plan.findings if finding.rule == "new-value-factor"]
    assert [(finding.blocking, finding.address, finding.message) for finding in found] == (
        [] if said is None else [(False, ALICE.address, f"{said} now; check the unit")]
    )
    assert load_plan(dumped_plan(guarded(plan)), "plan.json").changes == plan.changes


def test_a_new_value_without_a_limit_before_is_no_warning() -> None:
    """Neither is one over a default of 0, which has no factor, nor one that another entry wins over."""
    for actual in ({}, {EVERYBODY: {PRODUCER: 0.0}}, {EVERYBODY: {PRODUCER: UNLIMITED}}):
        plan = checked({**actual, ALICE: {PRODUCER: MIB}}, actual)
        assert "new-value-factor" not in {finding.rule for finding in plan.findings}
    held: Quotas = {EVERYBODY: {PRODUCER: MIB}}
    plan = checked({**held, Entity(client_id="c"): {PRODUCER: 5.0}}, held)
    assert "new-value-factor" not in {finding.rule for finding in plan.findings}


def test_many_new_values_far_from_the_default_are_counted() -> None:
    default: Quotas = {EVERYBODY: {PRODUCER: 10 * MIB}}
    plan = checked({**default, **users(103)}, default)
    assert sum(finding.rule == "new-value-factor" for finding in plan.findings) == 100
    (more,) = [finding for finding in plan.findings if finding.rule == "more-warnings"]
    assert more.message == "and 3 more values of new-value-factor"


@pytest.mark.parametrize(
    ("number", "managed", "blocks"),
    [
        (0, 0, False),
        (1, 1, True),
        (1, 2, False),
        (2, 9, False),
        (2, 10, False),
        (3, 10, True),
        (5, 9, False),
        (6, 9, True),
        (8, 9, True),
        (5, 5, True),
        (5, 25, False),
        (5, 24, True),
        (6, 100, True),
    ],
)
def test_too_many_deletions_block(number: int, managed: int, blocks: bool) -> None:
    plan = checked(*deleting(number, managed))

    assert ("delete" in rules(plan)) is blocks


def test_eight_of_nine_deletions_are_blocked_with_every_number_and_the_exact_override() -> None:
    """A share of at least ten lets 8 of 9 through, as octoDNS does."""
    plan = checked(*deleting(8, 9), allowances=["to-unlimited"])

    (found,) = (each for each in plan.findings if each.blocking)
    assert (found.rule, found.message, found.override) == (
        "delete",
        "8 of 9 managed entities would be deleted (limit 5, or 20 %, or all)",
        "--allow delete=8",
    )
    assert checked(*deleting(8, 9), allowances=["to-unlimited", "delete=8"]).is_applyable
    assert not checked(*deleting(8, 9), allowances=["to-unlimited", "delete=7"]).is_applyable


def leaving(number: int) -> tuple[dict[Entity, Values], Quotas]:
    """Files that delete entities which limit more than the default does that is left, and keep a hundred."""
    wanted: dict[Entity, Values] = {**users(100, first=number), **{entity: {} for entity in users(number)}}
    large = {entity: {PRODUCER: 100 * MIB, CONSUMER: MIB} for entity in users(number)}
    return wanted, {**users(100, first=number), **large, EVERYBODY: {PRODUCER: MIB}}


def test_a_deletion_that_is_allowed_is_not_blocked_by_what_follows_from_it() -> None:
    """To delete a reviewed team of 40 took `--allow delete=40`, and lifted `change-factor` for everything else."""
    wanted, actual = leaving(40)
    plan = checked(wanted, actual)
    allowed = checked(wanted, actual, allowances=["delete=40"])
    other = checked({**wanted, ALICE: {PRODUCER: MIB}}, {**actual, ALICE: {PRODUCER: 1.0}}, allowances=["delete=40"])

    assert rules(plan) == ["change-factor", "delete", "to-unlimited"]
    assert {found.override for found in plan.findings if found.blocking} == {"--allow delete=40"}
    text = list(render_findings(plan.findings))
    assert [line for line in text if "Allow: " in line] == [
        "  delete         40 of 140 managed entities would be deleted (limit 5, or 20 %, or all)   "
        "Allow: --allow delete=40",
        "  change-factor  40 entities   Allow: an approval in approvals.yaml (one entity), or --allow delete=40 (all)",
        "  to-unlimited   40 entities   Allow: an approval in approvals.yaml (one entity), or --allow delete=40 (all)",
    ]
    assert text.count("    and 35 more (list: --format json)") == 2
    assert {found.allowed_by for found in allowed.findings} == {"--allow delete=40"}
    assert allowed.is_applyable
    assert load_plan(dumped_plan(allowed), "plan.json") == allowed
    assert rules(checked(wanted, actual, allowances=["delete=39"])) == ["change-factor", "delete", "to-unlimited"]
    assert blocked(other) == [("change-factor", "user=alice", PRODUCER)]


def test_a_deletion_within_the_limits_is_stopped_by_what_follows_from_it_unless_it_is_allowed_by_number() -> None:
    wanted, actual = leaving(1)
    plan = checked(wanted, actual)

    assert {(found.rule, found.override) for found in plan.findings if found.blocking} == {
        ("change-factor", "--allow change-factor"),
        ("to-unlimited", "--allow to-unlimited"),
    }
    allowed = checked(wanted, actual, allowances=["delete=1"])
    assert allowed.is_applyable
    assert "unused-allowance" not in {found.rule for found in allowed.findings}


def test_an_allowed_number_of_deletions_lifts_neither_protection_nor_what_the_loss_of_a_default_does() -> None:
    default = checked({EVERYBODY: {}, **users(1)}, {EVERYBODY: {PRODUCER: MIB}, **users(1)}, allowances=["delete=1"])
    protected = checked(
        {KAFKA: {}, **users(1)}, {KAFKA: {PRODUCER: MIB}, **users(1)}, limits=PROTECTED, allowances=["delete=1"]
    )

    assert blocked(default) == [
        ("default-entity", "user=<default>", None),
        ("to-unlimited", "user=<default>", PRODUCER),
    ]
    assert blocked(protected) == [("protect", "user=kafka-1", None)]


def test_a_created_entity_is_not_managed_yet() -> None:
    wanted, actual = deleting(5, 5)
    plan = checked({**wanted, **users(20, first=100)}, actual, limits=replace(LOOSE, delete=CountLimit(5, 20)))

    assert plan.managed == 5
    assert "delete" in rules(plan)


@pytest.mark.parametrize(
    ("number", "managed", "blocks"), [(9, 9, False), (5, 10, False), (6, 10, True), (50, 200, False), (51, 200, True)]
)
def test_too_many_updates_block(number: int, managed: int, blocks: bool) -> None:
    wanted = {**users(managed), **users(number, 2 * MIB)}
    plan = checked(wanted, users(managed))

    assert blocked(plan) == ([("update", None, None)] if blocks else [])
    if blocks:
        assert checked(wanted, users(managed), allowances=[f"update={number}"]).is_applyable


@pytest.mark.parametrize(
    ("before", "after", "blocks"),
    [
        (MIB, 10 * MIB, True),
        (MIB, 9.99 * MIB, False),
        (10 * MIB, MIB, True),
        (9.99 * MIB, MIB, False),
        (0.07, 0.7, True),
        (MIB, 1024 * MIB, True),
        (MIB, UNLIMITED, False),
        (UNLIMITED, MIB, True),
        (float("inf"), MIB, True),
        (float("nan"), MIB, False),
        (0.0, MIB, True),
        (-1.0, MIB, True),
    ],
)
def test_a_value_may_not_leap(before: float, after: float, blocks: bool) -> None:
    assert is_leap(PRODUCER, before, after, 10) is blocks


def test_a_slip_of_the_unit_names_both_values_and_the_factor() -> None:
    plan = checked({ALICE: {PRODUCER: 5e6}, BOB: {PRODUCER: MIB}}, {ALICE: {PRODUCER: 5e3}, BOB: {PRODUCER: MIB}})

    (found,) = plan.findings
    assert (found.rule, found.address, found.key, found.override) == (
        "change-factor",
        "user=alice",
        PRODUCER,
        "--allow change-factor",
    )
    assert found.message == (
        "producer_byte_rate would change from 5 kB/s to 5 MB/s, by a factor of 1000 (limit: less than a factor of 10)"
    )


def test_a_factor_is_of_one_key_and_of_a_value_that_is_set_before_and_after() -> None:
    actual: Quotas = {ALICE: {PRODUCER: MIB}, EVERYBODY: {PRODUCER: MIB, CONSUMER: MIB}}
    wanted: dict[Entity, Values] = {**actual, ALICE: {PRODUCER: MIB, CONSUMER: 100 * MIB}}

    assert checked(wanted, actual).is_applyable


def test_a_removed_value_may_not_leave_a_limit_that_leaps() -> None:
    """The values of the rows say nothing: one is removed, and a default far away from it takes over."""
    default: Quotas = {EVERYBODY: {PRODUCER: 1e3, CONSUMER: 1e3}}
    actual: Quotas = {**default, ALICE: {PRODUCER: 1e9, CONSUMER: 900.0}, BOB: {PRODUCER: 1.0}}
    plan = checked({**default, ALICE: {CONSUMER: 900.0}, BOB: {}}, actual, limits=LOOSE)

    assert blocked(plan) == [("change-factor", "user=alice", PRODUCER), ("change-factor", "user=bob", PRODUCER)]
    assert plan.findings[0].message == (
        "the effective producer_byte_rate would change from 1 GB/s to 1 kB/s by user=<default>, by a factor of 1000000 "
        "(limit: less than a factor of 10)"
    )
    near = checked({**default, ALICE: {PRODUCER: 1e9}, BOB: {PRODUCER: 1.0}}, actual, limits=LOOSE)
    assert near.is_applyable
    nothing: Quotas = {EVERYBODY: {PRODUCER: 0.0}, BOB: {PRODUCER: 1.0}}
    to_nothing = checked({ALICE: {}, BOB: {PRODUCER: 1.0}}, {**nothing, ALICE: {PRODUCER: 1e9}}, limits=LOOSE)
    assert blocked(to_nothing) == [("change-factor", "user=alice", PRODUCER)]


def test_a_limit_that_becomes_unlimited_blocks_where_it_is_effective() -> None:
    actual: Quotas = {ALICE: {PRODUCER: MIB, REQUEST: 50.0}}
    plan = checked({ALICE: {PRODUCER: UNLIMITED, REQUEST: 50.0}}, actual)

    assert [(found.rule, found.message) for found in plan.findings] == [
        ("to-unlimited", "producer_byte_rate would become unlimited; the limit is 1 MiB/s")
    ]
    shadow = Entity(user="alice", client_id=None)
    shadowed: Quotas = {**actual, shadow: {PRODUCER: MIB}}
    assert checked({**shadowed, ALICE: {PRODUCER: UNLIMITED, REQUEST: 50.0}}, shadowed).is_applyable


def test_a_new_entity_above_a_default_is_unlimited_for_the_first_time() -> None:
    actual: Quotas = {EVERYBODY: {PRODUCER: MIB}, BOB: {PRODUCER: MIB}}
    plan = checked({**actual, ALICE: {PRODUCER: UNLIMITED}}, actual)

    assert blocked(plan) == [("to-unlimited", "user=alice", PRODUCER)]
    assert plan.findings[0].message == (
        "producer_byte_rate would become unlimited; the limit is 1 MiB/s from user=<default>"
    )


@pytest.mark.parametrize(
    ("entity", "blocks"),
    [
        (Entity(user=None), True),
        (Entity(client_id=None), True),
        (Entity(user=None, client_id=None), True),
        (Entity(user="alice", client_id=None), False),
        (Entity(user=None, client_id="etl"), False),
        (Entity(user="<default>"), False),
    ],
)
def test_any_change_of_a_default_blocks(entity: Entity, blocks: bool) -> None:
    others = users(20)
    created = checked({**others, entity: {PRODUCER: MIB}}, others)
    updated = checked({**others, entity: {PRODUCER: 2 * MIB}}, {**others, entity: {PRODUCER: MIB}})
    deleted = checked({**others, entity: {}}, {**others, entity: {PRODUCER: MIB}})

    for plan in (created, updated, deleted):
        assert ("default-entity" in rules(plan)) is blocks


PROTECTED = replace(LOOSE, protect=(Pattern((("user", "kafka-*"),)), Pattern((("client-id", None),))))
KAFKA = Entity(user="kafka-1")


@pytest.mark.parametrize(
    ("before", "after", "blocks"),
    [(2 * MIB, MIB, True), (2 * MIB - 1, MIB, False), (MIB, 2 * MIB, False), (UNLIMITED, 1e12, True)],
)
def test_a_protected_limit_may_not_be_halved(before: float, after: float, blocks: bool) -> None:
    plan = checked({KAFKA: {PRODUCER: after}}, {KAFKA: {PRODUCER: before}}, limits=PROTECTED)

    assert ("protect" in rules(plan)) is blocks


def test_a_protected_entity_is_tightened_where_nothing_limited_it() -> None:
    plan = checked({KAFKA: {PRODUCER: MIB}}, {}, limits=PROTECTED)

    (found,) = plan.findings
    assert (found.rule, found.override) == ("protect", "an approval in approvals.yaml")
    assert found.message == (
        "this entity is protected, and the effective producer_byte_rate would fall from unlimited to 1 MiB/s "
        "(limit: more than half)"
    )


def test_a_protected_entity_may_not_be_halved_by_another_entry() -> None:
    """A protected user without a value of its own falls with the default, and a new default shadows a client-id."""
    allowed = ["default-entity"]
    kafka: Quotas = {KAFKA: {CONSUMER: MIB}}
    plan = checked(
        {**kafka, EVERYBODY: {PRODUCER: 20.0}},
        {**kafka, EVERYBODY: {PRODUCER: 100.0}},
        limits=PROTECTED,
        allowances=allowed,
    )
    assert blocked(plan) == [("protect", "user=kafka-1", PRODUCER)]
    assert plan.findings[0].message == (
        "this entity is protected, and the effective producer_byte_rate would fall from 100 B/s to 20 B/s by "
        "user=<default> (limit: more than half)"
    )
    approved = checked(
        {**kafka, EVERYBODY: {PRODUCER: 20.0}},
        {**kafka, EVERYBODY: {PRODUCER: 100.0}},
        limits=PROTECTED,
        allowances=allowed,
        approvals=[approval("protect", KAFKA)],
    )
    assert approved.is_applyable

    etl: Quotas = {Entity(client_id="etl"): {PRODUCER: 100.0}}
    limits = replace(LOOSE, protect=(Pattern((("client-id", "etl"),)),))
    shadowed = checked({**etl, EVERYBODY: {PRODUCER: 20.0}}, etl, limits=limits, allowances=allowed)
    assert blocked(shadowed) == [("protect", "client-id=etl", PRODUCER)]
    above = checked({**etl, EVERYBODY: {PRODUCER: 60.0}}, etl, limits=limits, allowances=allowed)
    assert above.is_applyable


def test_a_protected_name_that_has_no_entry_is_protected_from_a_default() -> None:
    limits = replace(LOOSE, protect=(Pattern((("user", "kafka-1"),)), Pattern((("user", "etl-*"),))))
    plan = checked({EVERYBODY: {PRODUCER: MIB}}, {}, limits=limits, allowances=["default-entity"])

    assert blocked(plan) == [("protect", "user=kafka-1", PRODUCER)]


def test_a_protected_pattern_with_a_glob_is_no_name() -> None:
    limits = replace(LOOSE, protect=(Pattern((("user", "alice"), ("client-id", "etl-*"))),))
    alice = Entity(user="alice")
    assert "protect" not in rules(checked({alice: {PRODUCER: 10.0}}, {alice: {PRODUCER: 100.0}}, limits=limits))


@pytest.mark.parametrize("text", ["delete=-5", "delete=1_000", "delete=", "=5"])
def test_an_allowance_has_a_rule_and_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="is not RULE or RULE=N"):
        Allowance.parse(text)


def test_what_happens_to_a_protected_entity_itself_is_found_once() -> None:
    actual: Quotas = {KAFKA: {PRODUCER: 4 * MIB, CONSUMER: 4 * MIB}, EVERYBODY: {PRODUCER: MIB, CONSUMER: MIB}}
    reduced = checked({**actual, KAFKA: {CONSUMER: 4 * MIB}}, actual, limits=PROTECTED)
    deleted = checked({**actual, KAFKA: {}}, actual, limits=PROTECTED)

    assert blocked(reduced) == [("protect", "user=kafka-1", PRODUCER)]
    assert [each for each in blocked(deleted) if each[0] == "protect"] == [("protect", "user=kafka-1", None)]


def test_only_an_approval_lifts_protection() -> None:
    wanted: dict[Entity, Values] = {KAFKA: {}, ALICE: {PRODUCER: MIB}}
    actual: Quotas = {KAFKA: {PRODUCER: MIB}, ALICE: {PRODUCER: MIB}, EVERYBODY: {PRODUCER: MIB}}
    plan = checked(wanted, actual, limits=PROTECTED, allowances=["protect"])
    given = approval("protect", KAFKA, action=DELETE)
    approved = checked(wanted, actual, limits=PROTECTED, approvals=[given])

    assert blocked(plan) == [("protect", "user=kafka-1", None)]
    assert approved.is_applyable
    assert [(found.blocking, found.severity, found.allowed_by) for found in approved.findings] == [
        (False, "warning", "approval of carol@example.com, until 2026-11-30, to delete it")
    ]
    assert approved.approvals == (given,)
    assert approved.plan_id not in (plan.plan_id, replace(approved, approvals=()).plan_id)


DELETED = ({KAFKA: {}, ALICE: {PRODUCER: MIB}}, {each: {PRODUCER: MIB} for each in (KAFKA, ALICE, EVERYBODY)})
LEAP = ({ALICE: {PRODUCER: 20 * MIB}}, {ALICE: {PRODUCER: MIB}})
TWO_LEAPS = ({ALICE: {PRODUCER: 20 * MIB, CONSUMER: 5e7}}, {ALICE: {PRODUCER: MIB, CONSUMER: 1e6}})
ODD = Entity(user="a[1]*")
BY_DEFAULT = ({KAFKA: {CONSUMER: MIB}, EVERYBODY: {PRODUCER: 20.0}}, {KAFKA: {CONSUMER: MIB}})
LIMITED = {ALICE: {PRODUCER: MIB, CONSUMER: MIB}}
UNBOUND = "warning: the approval of {} in approvals.yaml is for any value of any key until 2026-11-30"
ALICE_UNBOUND = UNBOUND.format("change-factor") + "; for this one only, add to: {producer_byte_rate: 20MiB/s}"
UNUSED = "note: the approval of {} in approvals.yaml lifts nothing: no finding is about this rule and entity"
NO_DELETION, NO_VALUE = "; a deletion takes action: delete", " with a value that its `to` names"
EXPIRED = (
    "warning: the approval of {} in approvals.yaml expired on {} and lifts nothing; remove it, or ask for a new one"
)
APPROVED: list[tuple[tuple[Mapping[Entity, Values], Quotas], Approval, bool, str | None]] = [
    # Of a deletion
    (DELETED, approval("protect", KAFKA, days=1, action=DELETE), True, None),
    (DELETED, approval("protect", ALICE, action=DELETE), False, UNUSED.format("protect") + ", which is to be deleted"),
    (DELETED, approval("to-unlimited", KAFKA, action=DELETE), False, UNUSED.format("to-unlimited")),
    (DELETED, approval("protect", KAFKA), False, UNUSED.format("protect") + NO_DELETION),
    (DELETED, approval("protect", KAFKA, action=DELETE, to={PRODUCER: MIB}), False, NO_VALUE),
    (DELETED, approval("protect", KAFKA, days=0, action=DELETE), False, EXPIRED.format("protect", "2026-11-20")),
    # Of a value: an approval of ten times the value lifted a thousand times, of any key, and nothing told so.
    (LEAP, approval("change-factor", ALICE), True, ALICE_UNBOUND),
    (LEAP, approval("change-factor", ALICE, to={PRODUCER: 20 * MIB}), True, None),
    (LEAP, approval("change-factor", ALICE, to={CONSUMER: 9.0, PRODUCER: 20 * MIB}), True, None),
    (LEAP, approval("change-factor", ALICE, to={PRODUCER: 20 * MIB + 1}), False, NO_VALUE),
    (LEAP, approval("change-factor", ALICE, to={CONSUMER: 20 * MIB}), False, NO_VALUE),
    (LEAP, approval("change-factor", ALICE, action=DELETE), False, UNUSED.format("change-factor")),
    (LEAP, approval("change-factor", ALICE, days=-1), False, EXPIRED.format("change-factor", "2026-11-19")),
    (
        TWO_LEAPS,
        approval("change-factor", ALICE),
        True,
        "; for this one only, add to: {consumer_byte_rate: 50MB/s, producer_byte_rate: 20MiB/s}",
    ),
    # An address as plans print it is for its entity, whatever signs are in its name.
    (({ODD: LEAP[0][ALICE]}, {ODD: LEAP[1][ALICE]}), approval("change-factor", ODD), True, UNBOUND[:20]),
    # Of a protected limit that another entity changes
    (BY_DEFAULT, approval("protect", KAFKA, to={PRODUCER: 20.0}), True, None),
    (BY_DEFAULT, approval("protect", KAFKA, to={PRODUCER: 10.0}), False, NO_VALUE),
    # No value was equal to no limit at all, so that such an approval could not be for one key.
    (({ALICE: {CONSUMER: MIB}}, LIMITED), approval("to-unlimited", ALICE, to={PRODUCER: UNLIMITED}), True, None),
    (
        ({ALICE: {PRODUCER: UNLIMITED, CONSUMER: MIB}}, LIMITED),
        approval("to-unlimited", ALICE, to={PRODUCER: UNLIMITED}),
        True,
        None,
    ),
    (({ALICE: {PRODUCER: MIB}}, LIMITED), approval("to-unlimited", ALICE, to={PRODUCER: UNLIMITED}), False, NO_VALUE),
    # What is about no key has no value.
    (
        ({EVERYBODY: {PRODUCER: 1.5 * MIB}}, {EVERYBODY: {PRODUCER: MIB}}),
        approval("default-entity", EVERYBODY),
        True,
        None,
    ),
]


@pytest.mark.parametrize(("states", "given", "lifts", "said"), APPROVED)
def test_an_approval_is_for_one_rule_entity_and_value_until_its_day(
    states: tuple[Mapping[Entity, Values], Quotas], given: Approval, lifts: bool, said: str | None
) -> None:
    allowances = ["default-entity"] if states is BY_DEFAULT else []
    plan = checked(*states, limits=PROTECTED, approvals=[given], allowances=allowances)

    assert plan.is_applyable is lifts
    assert plan.approvals == ((given,) if lifts else ())
    notes = [f"{each.severity}: {each.message}" for each in plan.findings if each.rule.endswith("-approval")]
    assert len(notes) == (said is not None)
    assert said is None or said in notes[0]
    if plan.is_applyable and states is not BY_DEFAULT:
        assert load_plan(dumped_plan(guarded(plan, PROTECTED)), "plan.json").approvals == plan.approvals


def test_an_approval_for_the_value_comes_before_one_for_any_and_that_before_an_allowance() -> None:
    bound, unbound = approval("change-factor", ALICE, to={PRODUCER: 20 * MIB}), approval("change-factor", ALICE)
    plan = checked(*LEAP, approvals=[unbound, bound], allowances=["change-factor"])

    assert plan.approvals == (bound,)
    assert noted(plan, "unbound-approval") == []
    assert noted(plan, "unused-allowance") == ["note: --allow change-factor was not needed"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ({"user": "svc-*"}, ["user=svc-1", "user=svc-2"]),
        ({"user": "svc-[2-9]"}, ["user=svc-2"]),
        ({"user": "*"}, ["user=CN=a", "user=svc-1", "user=svc-2"]),
        ({"user": "svc-*", "client-id": "*"}, ["user=svc-1,client-id=x"]),
        ({"user": "svc-*", "client-id": None}, ["user=svc-1,client-id=<default>"]),
        ({"user": None}, ["user=<default>"]),
        ({"user": "SVC-*"}, []),
    ],
)
def test_an_approval_may_be_for_a_pattern(pattern: Mapping[str, str | None], matched: list[str]) -> None:
    """An approval was for one address, so that a team of 40 took 40 of them."""
    names: list[dict[str, str | None]] = [
        {"user": "svc-1"},
        {"user": "svc-2"},
        {"user": "CN=a"},
        {"user": None},
        {"user": "svc-1", "client-id": "x"},
        {"user": "svc-1", "client-id": None},
        {"client-id": "svc-1"},
    ]
    entities = [Entity(each) for each in names]
    plan = checked(
        {entity: {PRODUCER: 20 * MIB} for entity in entities},
        {entity: {PRODUCER: MIB} for entity in entities},
        allowances=["default-entity", "update=9"],
        approvals=[approval("change-factor", Entity(pattern))],
    )
    lifted = [found.address or "" for found in plan.findings if found.rule == "change-factor" and not found.blocking]
    assert sorted(lifted) == [address.replace("user=CN=a", 'user="CN=a"') for address in matched]
    said = [found.message for found in plan.findings if found.rule == "approval-pattern"]
    is_pattern = any(name and name != "CN=a" for name in pattern.values())
    assert said == (
        [f"the approval of change-factor for {Entity(pattern).address} lifts it for {', '.join(lifted)}"]
        if matched and is_pattern
        else []
    )
    assert load_plan(dumped_plan(plan), "plan.json") == plan


def test_what_a_pattern_lifts_is_bound_to_values_only_if_they_are_the_same() -> None:
    actual = users(2)
    for values, said in (((20, 20), "{producer_byte_rate: 20MiB/s}"), ((20, 30), None)):
        wanted = {entity: {PRODUCER: value * MIB} for entity, value in zip(actual, values, strict=True)}
        plan = checked(wanted, actual, approvals=[approval("change-factor", Entity(user="u*"))])
        (warning,) = (found.message for found in plan.findings if found.rule == "unbound-approval")
        assert warning.partition("add to: ")[2] == (said or "")


def test_a_plan_that_an_approval_for_another_cluster_lifts_is_refused() -> None:
    wanted, actual = {ALICE: {PRODUCER: 20 * MIB}}, {ALICE: {PRODUCER: MIB}}
    plan = checked(wanted, actual, approvals=[replace(approval("change-factor", ALICE), cluster="lab*")])
    assert load_plan(dumped_plan(plan), "plan.json") == plan
    assert plan.plan_id != checked(wanted, actual, approvals=[approval("change-factor", ALICE)]).plan_id
    forged = replace(plan, approvals=(replace(plan.approvals[0], cluster="prod-*"),))
    with pytest.raises(PlanFileError, match="is not the cluster of the plan"):
        load_plan(dumped_plan(forged), "plan.json")


def test_a_plan_file_has_no_more_approvals_than_a_repository() -> None:
    """Each of any number of them was compared with each finding, when the file was opened."""
    wanted, actual = {ALICE: {PRODUCER: 20 * MIB}}, {ALICE: {PRODUCER: MIB}}
    plan = checked(wanted, actual, approvals=[approval("change-factor", ALICE)])
    forged = replace(plan, approvals=plan.approvals * 1001)
    with pytest.raises(PlanFileError, match="approvals has more than 1,000 items"):
        load_plan(dumped_plan(forged), "plan.json")


def test_files_that_declare_nothing_block() -> None:
    plan = checked({}, users(3))

    assert [(found.rule, found.message, found.override) for found in plan.findings] == [
        ("empty", "the files declare no entries for cluster lab", "--allow empty")
    ]
    assert checked({}, users(3), allowances=["empty"]).is_applyable
    assert "empty" not in rules(checked({ALICE: {}}, {}))


def base_of(number: int) -> DeclaredBase:
    return DeclaredBase(Base("origin/main", "a91be02"), declare(users(number)))


@pytest.mark.parametrize(
    ("before", "after", "blocks"), [(10, 5, False), (10, 4, True), (9, 4, True), (8, 4, False), (7, 3, False)]
)
def test_files_that_shrank_block(before: int, after: int, blocks: bool) -> None:
    plan = checked(users(after), users(before), base=base_of(before), limits=LOOSE)

    assert rules(plan) == (["shrink"] if blocks else [])


def test_a_tombstone_is_not_a_lost_declaration_and_a_new_name_makes_up_for_one() -> None:
    actual = {**users(10), EVERYBODY: {PRODUCER: MIB}}
    gone: dict[Entity, Values] = {entity: {} for entity in users(10)}

    assert "shrink" not in rules(checked(gone, actual, base=base_of(10), limits=LOOSE))
    assert "shrink" not in rules(checked(users(10, first=50), actual, base=base_of(10), limits=LOOSE))


def test_what_shrank_names_the_base_and_both_numbers() -> None:
    plan = checked(users(2), users(9), base=base_of(9), limits=LOOSE)

    assert plan.findings[0].message == (
        "the files declare 2 entities, the base origin/main 9 (limit: less than half, and 5 fewer)"
    )
    assert checked(users(2), users(9), base=base_of(9), limits=LOOSE, allowances=["shrink"]).is_applyable


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (GuardLimits(delete=CountLimit(6, 20)), "guards.delete.count is 6 instead of 5"),
        (GuardLimits(update=CountLimit(50, 51)), "guards.update.percent is 51 instead of 50"),
        (GuardLimits(change_factor=11), "guards.change_factor is 11 instead of 10"),
        (GuardLimits(), "protect has no user=kafka-*"),
    ],
)
def test_a_change_may_not_switch_off_its_own_guards(head: GuardLimits, said: str) -> None:
    base = GuardLimits(protect=(Pattern((("user", "kafka-*"),)),)) if head == GuardLimits() else GuardLimits()
    plan = checked(users(1), users(1), limits=head, base_limits=base)

    assert rules(plan) == ["guards-loosened"]
    assert plan.findings[0].message == f"quotaform.yaml loosens the guards of the base: {said}"
    allowed = checked(users(1), users(1), limits=head, base_limits=base, allowances=["guards-loosened"])
    assert allowed.is_applyable


def test_stricter_guards_loosen_nothing() -> None:
    stricter = GuardLimits(delete=CountLimit(0, 0), change_factor=2, protect=(Pattern((("user", "a"),)),))

    assert checked(users(1), users(1), limits=stricter, base_limits=GuardLimits()).is_applyable


def test_a_limit_of_no_deletions_blocks_each() -> None:
    plan = checked(*deleting(1, 9), limits=GuardLimits(delete=CountLimit(0, 100)))

    assert "delete" in rules(plan)


def noted(plan: Plan, rule: str) -> list[str]:
    return [f"{found.severity}: {found.message}" for found in plan.findings if found.rule == rule]


@pytest.mark.parametrize(
    ("earlier", "notes"),
    [
        (None, []),
        (frozenset(), ["note: the approval of change-factor by carol@example.com is new or changed in this change"]),
        (frozenset([approval("change-factor", ALICE)]), []),
        (
            frozenset([approval("change-factor", ALICE, days=9)]),
            ["note: the approval of change-factor by carol@example.com is new or changed in this change"],
        ),
    ],
)
def test_an_approval_that_the_base_does_not_have_is_noted(
    earlier: frozenset[Approval] | None, notes: list[str]
) -> None:
    wanted, actual = {ALICE: {PRODUCER: 20 * MIB}}, {ALICE: {PRODUCER: MIB}}
    given = approval("change-factor", ALICE)
    plan = plan_of(wanted, actual)
    facts = Facts(
        desired=declare(wanted),
        actual=actual,
        approvals=(given, approval("change-factor", BOB)),
        base=ClusterBase(approvals=earlier),
        today=TODAY,
    )

    assert noted(with_findings(plan, facts, GUARDS), "new-approval") == notes


def test_the_item_that_would_lift_a_block_is_for_its_values() -> None:
    actual: Quotas = {KAFKA: {PRODUCER: 9 * MIB, CONSUMER: 8e6}}
    plan = checked({KAFKA: {PRODUCER: MIB, CONSUMER: 1e6}}, actual, limits=PROTECTED)
    item = '- {rule: protect, address: "user=kafka-1", to: {consumer_byte_rate: 1MB/s, producer_byte_rate: 1MiB/s}, '

    assert approval_item(plan.findings) == f"{item}reason: WHY, approver: WHO, expires: YYYY-MM-DD}}"
    assert approval_item(load_plan(dumped_plan(plan), "plan.json").findings) == approval_item(plan.findings)


@pytest.mark.parametrize("name", ["svc-*", "team[1]", "a?", "[*]"])
def test_the_item_for_a_name_that_looks_like_a_pattern_is_for_this_entity_alone(name: str) -> None:
    """The address that was suggested lifted the block for others as well."""
    entity, others = (
        Entity(user=name),
        (Entity(user="svc-1"), Entity(user="team1"), Entity(user="ab"), Entity(user="*")),
    )
    address = escaped_address(entity.address)
    given = approval("protect", parse_address(address))
    assert parse_address(address).address == address
    assert [each for each in (entity, *others) if is_about(given, finding_of(each), is_deleted=False)] == [entity]
    limits = replace(PROTECTED, protect=(Pattern((("user", escape_glob(name)),)),))
    plan = checked({entity: {PRODUCER: MIB}}, {entity: {PRODUCER: 9 * MIB}}, limits=limits)
    assert f"address: {dumps(address)}," in (approval_item(plan.findings) or "")


def finding_of(entity: Entity) -> Finding:
    return rule.PROTECT.finding("", address=entity.address)


def test_nothing_follows_from_the_deletion_of_a_global_default() -> None:
    """It did when a saved plan was checked, and not when the plan was made."""
    for entity, follows in ((Entity(user=None), False), (Entity(user=None, client_id="a"), True), (ALICE, True)):
        finding = rule.TO_UNLIMITED.finding("", address=entity.address)
        assert follows_deletion(finding, {entity.address}) is follows
