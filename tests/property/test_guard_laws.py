"""What holds of guards for any files and any cluster, and of lints about precedence for any request."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from quotaform.desired.config import Config
from quotaform.model.entity import Entity
from quotaform.model.errors import SavedFileError
from quotaform.model.finding import DELETE, Allowance, Approval, Finding
from quotaform.model.quotas import Action, Desired, Quotas
from quotaform.model.rule import APPROVABLE
from quotaform.model.scope import Pattern, Scope
from quotaform.model.settings import Capacity, CountLimit, GuardLimits, LintSettings
from quotaform.plan.check.check import with_findings
from quotaform.plan.check.guard import GUARDS, Facts, Safeguards
from quotaform.plan.check.lint import LintFacts, check_lints, shadowed_keys
from quotaform.plan.plan import Plan, PlanOptions
from quotaform.plan.records import load_plan
from tests.builder import declare, dumped_plan, plan_of
from tests.property.test_plan_laws import size
from tests.property.test_resolve_agreement import CLIENT_KEYS, OTHER, oracle
from tests.strategies import IPS, NAMES, desired, live_quotas, quotas

TODAY = date(2026, 11, 20)
LIMITS = st.builds(
    GuardLimits,
    delete=st.builds(CountLimit, st.integers(0, 5), st.integers(0, 100)),
    update=st.builds(CountLimit, st.integers(0, 5), st.integers(0, 100)),
    change_factor=st.integers(2, 100),
    protect=st.sampled_from([(), (Pattern((("user", "*"),)),), (Pattern((("client-id", None),)),)]),
)
ALLOWANCES = st.frozensets(
    st.builds(Allowance, st.sampled_from(["empty", "change-factor", "to-unlimited", "default-entity"]))
    | st.builds(Allowance, st.sampled_from(["delete", "update"]), st.integers(0, 6))
)


def checked(
    files: Desired,
    actual: Quotas,
    limits: GuardLimits,
    allowances: frozenset[Allowance] = frozenset(),
    approvals: tuple[Approval, ...] = (),
) -> Plan:
    plan = plan_of(files, actual, allowances=allowances)
    plan = replace(plan, header=structs.replace(plan.header, options=PlanOptions.of(limits=limits)))
    own, held = Safeguards(Config(guard_limits=limits)), dict.fromkeys(approvals)
    facts = Facts(desired=files, actual=actual, safeguards=own, approvals=held, today=TODAY)
    return with_findings(plan, facts, GUARDS)


def blocking(plan: Plan) -> set[tuple[str, str | None, str | None]]:
    return {(found.rule, found.address, found.key) for found in plan.findings if found.blocking}


@given(desired(), live_quotas(), LIMITS)
def test_a_plan_over_a_limit_is_blocked_unless_somebody_allows_it(
    files: Desired, actual: Quotas, limits: GuardLimits
) -> None:
    plan = checked(files, actual, limits)
    deleted, updated = plan.count(Action.DELETE), plan.count(Action.UPDATE)
    rules = {rule for rule, _, _ in blocking(plan)}

    if deleted > limits.delete.count or (deleted and deleted == plan.managed):
        assert "delete" in rules
    if updated > limits.update.count:
        assert "update" in rules
    if any(change.becomes_unlimited for change in plan.changes):
        assert "to-unlimited" in rules
    protected = Scope(include=limits.protect)
    deletes = [change.entity for change in plan.changes if change.action is Action.DELETE]
    if limits.protect and any(map(protected.contains, deletes)):
        assert "protect" in rules
    if not files:
        assert "empty" in rules


@given(desired(), live_quotas(), LIMITS, ALLOWANCES, ALLOWANCES)
def test_one_more_allowance_never_blocks_more(
    files: Desired, actual: Quotas, limits: GuardLimits, some: frozenset[Allowance], more: frozenset[Allowance]
) -> None:
    assert blocking(checked(files, actual, limits, some | more)) <= blocking(checked(files, actual, limits, some))


@given(desired(), live_quotas(), LIMITS)
def test_what_the_findings_say_allows_the_plan(files: Desired, actual: Quotas, limits: GuardLimits) -> None:
    """All but `protect`, which takes an approval."""
    said = {found.override for found in checked(files, actual, limits).findings if found.blocking}
    allowances = frozenset(
        Allowance.parse(text.removeprefix("--allow ")) for text in said if text and text.startswith("--allow ")
    )
    allowed = checked(files, actual, limits, allowances)
    assert {rule for rule, _, _ in blocking(allowed)} <= {"protect"}
    assert "unused-allowance" not in {found.rule for found in allowed.findings}


@given(desired(), live_quotas(), LIMITS, st.data())
def test_an_approval_lifts_the_findings_of_its_rule_and_address_and_no_others(
    files: Desired, actual: Quotas, limits: GuardLimits, data: st.DataObject
) -> None:
    plain = checked(files, actual, limits)
    pairs = [
        (found.rule, change.entity, change.action)
        for change in plain.changes
        for found in plain.findings
        if found.address == change.entity.address and found.rule in APPROVABLE
    ]
    if not pairs:
        return
    name, entity, action = data.draw(st.sampled_from(pairs))
    approval = Approval(
        rule=name,
        address=entity.address,
        reason="r",
        approver="a",
        expires=TODAY + timedelta(days=1),
        action=DELETE if action is Action.DELETE else None,
    )

    lifted = blocking(plain) - blocking(checked(files, actual, limits, approvals=(approval,)))

    assert lifted == {each for each in blocking(plain) if each[:2] == (name, entity.address)}


@given(desired(), live_quotas(), LIMITS, ALLOWANCES)
def test_a_plan_file_from_which_a_guard_was_removed_is_refused(
    files: Desired, actual: Quotas, limits: GuardLimits, allowances: frozenset[Allowance]
) -> None:
    """A file whose digests are computed again says what its author wants, but what follows from it is computed, too."""
    plan = checked(files, actual, limits, allowances)
    assert dumped_plan(load_plan(dumped_plan(plan), "plan.json")) == dumped_plan(plan)

    own = {(row.entity.address, row.key) for row in plan.rows}
    for found in plan.findings:
        # What other entries do to a protected entity takes the whole cluster to find, which no plan file holds.
        is_in_plan = found.rule != "protect" or found.key is None or (found.address, found.key) in own
        if found.blocking and is_in_plan:
            for forged in (_without(plan, found), _without(plan, found, structs.replace(found, blocking=False))):
                with pytest.raises(SavedFileError):
                    load_plan(dumped_plan(forged), "plan.json")


def _without(plan: Plan, found: Finding, *instead: Finding) -> Plan:
    findings = [*(each for each in plan.findings if each is not found), *instead]
    return replace(plan, findings=tuple(findings))


GLOBS = st.one_of(st.none(), st.text("ab*?[!]-", min_size=1, max_size=5))
FEW_NAMES = st.one_of(st.none(), st.text("ab!]-[", min_size=1, max_size=4))
PATTERNS = st.builds(
    lambda parts: Pattern(tuple(parts.items())),
    st.dictionaries(st.sampled_from(["user", "client-id"]), GLOBS, min_size=1),
)
SCOPES = st.builds(
    Scope, include=st.lists(PATTERNS, max_size=3).map(tuple), exclude=st.lists(PATTERNS, max_size=2).map(tuple)
)


def including(user: str) -> Scope:
    return Scope(include=(Pattern((("user", user),)),))


@given(SCOPES, SCOPES, FEW_NAMES, FEW_NAMES)
@example(including("a*b"), including("a?b"), "aab", None)
@example(including("a*]"), including("a[b]"), "ab", None)
def test_a_scope_that_is_not_wider_selects_nothing_more(
    base: Scope, head: Scope, user: str | None, client: str | None
) -> None:
    entity = Entity({"user": user, "client-id": client})
    if not list(head.wider_than(base)) and head.contains(entity):
        assert base.contains(entity)


NEW = "another name that no quota mentions"
USERS = (*NAMES, OTHER, NEW)
CLIENTS = ("", *USERS)


def winner(all_quotas: Quotas, user: str, client: str, key: str) -> tuple[float | None, Entity | None]:
    """The value that applies to a request, and the entry that it comes from."""
    found = oracle(all_quotas, Entity(user=user, client_id=client), key)
    return found[0][:2] if found else (None, None)


def wins_somewhere(all_quotas: Quotas, entity: Entity, key: str) -> bool:
    """Whether any request has a key from an entity."""
    if "ip" in entity.names:
        ips = (*IPS, "192.0.2.9")
        return any((ip if Entity(ip=ip) in all_quotas else None) == entity.names["ip"] for ip in ips)
    return any(winner(all_quotas, user, client, key)[1] == entity for user in USERS for client in CLIENTS)


@given(quotas(max_size=20))
def test_an_entry_is_shadowed_when_it_wins_for_no_request_at_all(all_quotas: Quotas) -> None:
    facts = facts_of(declare(all_quotas))
    for entity, values in all_quotas.items():
        shadowed = shadowed_keys(facts, entity, values)
        for key in values:
            assert (key in shadowed) != wins_somewhere(all_quotas, entity, key), (entity.address, key)


def facts_of(desired: Desired) -> LintFacts:
    return LintFacts(desired=desired, settings=LintSettings(), capacity=Capacity(), today=date(2026, 11, 22))


@given(quotas(max_size=20), st.sampled_from(CLIENT_KEYS))
def test_a_client_id_is_renamable_when_a_request_with_another_one_has_more(all_quotas: Quotas, key: str) -> None:
    every = {entity: {key: values[key]} for entity, values in all_quotas.items() if key in values}
    linted = check_lints(facts_of(declare(every)))
    found = {each.address for each in linted.findings if each.rule == "renamable-client-id"}

    expected = set()
    for entity in every:
        client = entity.names.get("client-id")
        if client is None:
            continue
        user = entity.names.get("user") or OTHER
        value, source = winner(every, user, client, key)
        other, _ = winner(every, user, NEW, key)
        if source == entity and size(key, other) > size(key, value):
            expected.add(entity.address)
    assert found == expected
