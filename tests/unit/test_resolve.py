"""Resolving on one cluster: who shares a limit, how addresses meet their entries, and what is worth saying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from quotaform.apply.freshness import AsIfApplied
from quotaform.cluster.gateway import BrokerConfig
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError, StaleError, UsageError
from quotaform.model.finding import Finding, Severity
from quotaform.model.precedence import CLIENT_LEVELS, IP_LEVELS
from quotaform.model.quotas import Quotas
from quotaform.plan.plan import Plan
from quotaform.resolve.index import QuotaIndex
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.resolve.report import render_resolve
from quotaform.resolve.request import shared_by
from quotaform.resolve.resolve import Detail, Resolution, Resolver, make_resolution
from quotaform.resolve.run import ResolveRequest, ResolveRun
from tests.builder import CLIENT_KEYS, CONNECTION, CONSUMER, HEADER, MUTATION, PRODUCER, REQUEST, plan_of
from tests.scripted_gateway import NO_CONFIG, ScriptedGateway

ALICE = Entity(user="alice")
BOTH = Entity(user="alice", client_id="app1")
EMPTY = Entity(user="alice", client_id="")
LIVE: Quotas = {ALICE: {PRODUCER: 1.0}, Entity(user=None): {PRODUCER: 5.0}}


def run(
    quotas: Quotas,
    *asked: Entity,
    plan: Plan | None = None,
    config: BrokerConfig = NO_CONFIG,
    is_live: bool = True,
    detail: Detail | None = None,
) -> ResolveRun:
    ips = ["ip" in entity.types for entity in asked]
    request = ResolveRequest(
        entities=asked,
        has_clients=not all(ips),
        has_ips=any(ips),
        plan=AsIfApplied(plan) if plan else None,
        detail=detail or Detail(),
    )
    return ResolveRun(request, ScriptedGateway(quotas, config=config, is_live=is_live))


def findings(quotas: Quotas, *asked: Entity, **more: Any) -> dict[str, Finding]:
    found = run(quotas, *asked, **more)
    assert len(list(found)) == len(asked)
    return {finding.rule: finding for finding in found.findings()}


def values(resolutions: Sequence[Resolution]) -> list[dict[str, float | None]]:
    return [{row.key: row.resolved.value for row in resolution.keys} for resolution in resolutions]


class TestBuckets:
    @pytest.mark.parametrize(
        ("level", "text"),
        [
            (1, "all requests of alice with client-id app1"),
            (2, "all requests of alice with client-id app1; each other client-id has its own"),
            (3, "all client-ids of alice without an entry of their own"),
            (4, "all requests of alice with client-id app1; each other user has its own"),
            (5, "all requests of alice with client-id app1; each other pair of user and client-id has its own"),
            (6, "all client-ids of alice without an entry of their own; each other user has its own"),
            (7, "all users together that send client-id app1"),
            (8, "all users together that send client-id app1; each other client-id has its own"),
        ],
    )
    def test_who_shares_the_rate_of_a_level(self, level: int, text: str) -> None:
        assert shared_by(CLIENT_LEVELS[level - 1], BOTH) == text

    def test_an_address_has_its_rate_alone(self) -> None:
        assert shared_by(IP_LEVELS[0], Entity(ip="::1")) == "all connections from ::1"
        assert shared_by(IP_LEVELS[1], Entity(ip="::1")).endswith("; each other address has its own")

    def test_a_name_is_spelled_so_that_it_cannot_forge_a_line(self) -> None:
        text = shared_by(CLIENT_LEVELS[0], Entity(user="a\nb", client_id="c\x1b[31m"))
        assert text == r'all requests of "a\nb" with client-id "c\u001b[31m"'


class TestKeys:
    def test_keys_come_in_kafka_s_order_and_unknown_ones_last(self) -> None:
        quotas = {ALICE: {"zz_rate": 1.0, MUTATION: 2.0, "aa_rate": 3.0}}
        rows = make_resolution(ALICE, Resolver(QuotaIndex(quotas))).keys
        assert CLIENT_KEYS[:4] == (PRODUCER, CONSUMER, REQUEST, MUTATION)
        assert [row.key for row in rows] == [*CLIENT_KEYS, "aa_rate", "zz_rate"]

    def test_a_key_that_only_the_plan_removes_is_still_there(self) -> None:
        quotas = {ALICE: {"future_rate": 1.0}}
        rows = make_resolution(
            ALICE, Resolver(QuotaIndex(quotas)), Resolver(QuotaIndex({})), Detail(keys=("future_rate",))
        ).keys
        assert [(row.resolved.value, row.before and row.before.value) for row in rows] == [(None, 1.0)]

    def test_a_key_that_nobody_knows_is_refused(self) -> None:
        with pytest.raises(
            UsageError, match=r'"producer_rate" is not a known quota key.*choose from producer_byte_rate'
        ):
            run({ALICE: {PRODUCER: 1.0}}, ALICE, detail=Detail(keys=("producer_rate",)))

    def test_a_key_that_only_the_cluster_knows_is_resolved(self) -> None:
        found = run({ALICE: {"future_rate": 1.0}}, ALICE, detail=Detail(keys=("future_rate",)))
        assert values(list(found)) == [{"future_rate": 1.0}]

    @pytest.mark.parametrize(("key", "asked"), [(CONNECTION, ALICE), (PRODUCER, Entity(ip="::1"))])
    def test_a_key_that_cannot_limit_what_is_asked_is_refused(self, key: str, asked: Entity) -> None:
        with pytest.raises(UsageError, match=f"{key} is only valid for .*, but no request names one"):
            run({}, asked, detail=Detail(keys=(key,)))


class TestAddresses:
    @pytest.mark.parametrize("live", ["10.0.0.1", "::ffff:10.0.0.1", "10.1"])
    @pytest.mark.parametrize("asked", ["10.0.0.1", "::ffff:10.0.0.1", "10.1"])
    def test_an_address_finds_its_entry_however_that_is_written(self, live: str, asked: str) -> None:
        quotas = {Entity(ip=live): {CONNECTION: 5.0}, Entity(ip=None): {CONNECTION: 9.0}}
        assert values([make_resolution(Entity(ip=asked), Resolver(QuotaIndex(quotas)))]) == [{CONNECTION: 5.0}]
        found = findings(quotas, Entity(ip=asked)).get("ip-alias")
        assert (found is None) if live == asked else (found is not None and found.severity is Severity.NOTE)

    def test_several_spellings_of_one_address_are_a_warning(self) -> None:
        quotas = {Entity(ip=name): {CONNECTION: 5.0} for name in ("::1", "0:0::1", "10.0.0.1")}
        found = findings(quotas, Entity(ip="::1"))["ip-alias"]
        assert found.severity is Severity.WARNING
        assert "0:0::1, ::1 are the same address" in found.message
        assert "ip-alias" not in findings(quotas, Entity(ip="10.0.0.1"))

    def test_a_host_name_is_no_address(self) -> None:
        found = findings({Entity(ip="broker.example"): {CONNECTION: 5.0}}, Entity(ip="broker.example"))
        assert "connections come from addresses" in found["ip-name"].message


class TestEmptyClientIds:
    @pytest.mark.parametrize(
        ("entity", "severity"),
        [
            (Entity(user="alice", client_id="app1"), Severity.WARNING),
            (Entity(user="alice", client_id=None), Severity.WARNING),
            (Entity(user=None, client_id="app1"), Severity.WARNING),
            (Entity(user=None, client_id=None), Severity.WARNING),
            (Entity(client_id="app1"), Severity.WARNING),
            (Entity(client_id=None), Severity.WARNING),
            (Entity(user="alice"), Severity.NOTE),
            (Entity(user=None), Severity.NOTE),
            (Entity(user="bob", client_id="app1"), Severity.NOTE),
            (Entity(user="bob", client_id=None), Severity.NOTE),
        ],
    )
    def test_it_is_a_warning_when_entries_with_a_client_id_are_passed_over(
        self, entity: Entity, severity: Severity
    ) -> None:
        found = findings({entity: {PRODUCER: 1.0}}, EMPTY)["empty-client-id"]
        assert (found.severity, found.address) == (severity, 'user=alice,client-id=""')

    def test_many_of_them_are_one_finding(self) -> None:
        found = findings({}, *(Entity(user=f"u{number}", client_id="") for number in range(1200)))["empty-client-id"]
        assert "(and 1,199 more)" in found.message

    def test_a_request_with_a_client_id_and_one_of_an_address_have_no_such_finding(self) -> None:
        assert findings({}, BOTH, ALICE, Entity(ip="::1")) == {}


class TestUnmentionedNames:
    """An omitted client-id was resolved as an empty one, which nearly no client sends, and plans meant another one."""

    QUOTAS: ClassVar[Quotas] = {
        ALICE: {PRODUCER: 1.0},
        BOTH: {PRODUCER: 2.0},
        Entity(user="alice", client_id="same"): {PRODUCER: 3.0},
        Entity(user="alice", client_id=None): {PRODUCER: 3.0},
        Entity(client_id="x"): {CONSUMER: 4.0},
        Entity(client_id=None): {CONSUMER: 5.0},
        Entity(user=None): {REQUEST: 6.0},
        Entity(user="bob"): {REQUEST: 7.0},
    }

    def test_an_omitted_client_id_is_one_that_no_quota_mentions(self) -> None:
        (found,) = run(self.QUOTAS, ALICE)
        assert found.unmentioned == ("client-id",)
        rows = {row.key: row.resolved for row in found.keys}
        assert [(rows[key].value, rows[key].differs) for key in (PRODUCER, CONSUMER, REQUEST)] == [
            (3.0, {"client-id": 1}),
            (5.0, {"client-id": 1}),
            (6.0, {}),
        ]

    def test_a_whole_request_and_one_with_an_empty_client_id_assume_nothing(self) -> None:
        for found in run(self.QUOTAS, BOTH, EMPTY, Entity(ip="::1")):
            assert found.unmentioned == ()
            assert not any(row.resolved.differs for row in found.keys)

    def test_an_empty_client_id_counts_no_user_whose_entries_it_does_not_match(self) -> None:
        """A user with an entry for the default client-id was counted, which an empty client-id does not match."""
        quotas: Quotas = {Entity(user="alice", client_id=None): {PRODUCER: 3.0}, Entity(user="bob"): {PRODUCER: 4.0}}
        (found,) = run(quotas, Entity(client_id=""))
        assert {row.key: row.resolved.differs for row in found.keys}[PRODUCER] == {"user": 1}
        (found,) = run(quotas, Entity(client_id="app1"))
        assert {row.key: row.resolved.differs for row in found.keys}[PRODUCER] == {"user": 2}

    def test_a_name_with_entries_on_two_levels_counts_by_the_stronger_one(self) -> None:
        quotas: Quotas = {
            Entity(user="alice", client_id=None): {PRODUCER: 5.0},
            ALICE: {PRODUCER: 9.0},
            Entity(user=None): {PRODUCER: 5.0},
        }
        (found,) = run(quotas, Entity(client_id="app1"))
        assert not any(row.resolved.differs for row in found.keys)

    def test_names_that_differ_in_an_unknown_key_are_counted_when_it_is_asked_for(self) -> None:
        """A key that no entry of the request holds was shown as unlimited for every client-id."""
        (found,) = run({Entity(client_id="x"): {"future_rate": 4.0}}, ALICE, detail=Detail(keys=("future_rate",)))
        assert [(row.resolved.value, row.resolved.differs) for row in found.keys] == [(None, {"client-id": 1})]

    def test_the_api_says_it_too(self) -> None:
        admin = QuotaAdmin(ScriptedGateway(self.QUOTAS))
        found = admin.resolve(user="alice")
        assert (found[PRODUCER].value, found[PRODUCER].differs) == (3.0, {"client-id": 1})
        assert admin.resolve(user="alice", client_id="")[PRODUCER].value == 1.0
        assert admin.resolve_all([ALICE])[ALICE] == found


def test_a_client_id_that_is_called_like_a_user_is_not_taken_for_it() -> None:
    """What was kept for a user was found again by a client-id of the same name, where no entry names a client-id."""
    admin = QuotaAdmin(ScriptedGateway({ALICE: {PRODUCER: 1.0}}))
    both, other = Entity(user="alice", client_id="alice"), Entity(user="bob", client_id="alice")
    found = admin.resolve_all([Entity(user="alice", client_id="x"), both, other])
    assert (found[both][PRODUCER].value, found[both][PRODUCER].overridden) == (1.0, ())
    assert found[other][PRODUCER].value is None


class TestNoRows:
    @pytest.mark.parametrize(
        ("key", "entity", "text"),
        [
            (
                PRODUCER,
                Entity(ip="10.0.0.1"),
                "producer_byte_rate is not valid for ip=10.0.0.1, which can have connection_creation_rate",
            ),
            (
                CONNECTION,
                ALICE,
                "connection_creation_rate is not valid for user=alice, which can have producer_byte_rate",
            ),
        ],
    )
    def test_a_key_that_is_not_valid_for_one_of_many_requests_is_said(
        self, key: str, entity: Entity, text: str
    ) -> None:
        """It was said that no key has an entry of its own, as if another option would show one."""
        found = run({}, BOTH, Entity(ip="::1"), entity, detail=Detail(keys=(key,), inherited=False))
        assert f"  ({text}" in "".join(render_resolve(found, found.header, found.findings))

    def test_inherited_values_that_are_left_out_are_said(self) -> None:
        found = run(LIVE, BOTH, detail=Detail(inherited=False))
        text = "".join(render_resolve(found, found.header, found.findings))
        assert "  (all values are inherited from other entities)\n" in text

    def test_a_value_of_its_own_that_a_plan_takes_away_is_not_left_out(self) -> None:
        (found,) = run(LIVE, ALICE, plan=plan_of({ALICE: {}}, LIVE), detail=Detail(inherited=False))
        assert [(row.resolved.value, row.before and row.before.value) for row in found.keys] == [(5.0, 1.0)]

    def test_an_unknown_key_that_only_another_entity_has_is_no_limit(self) -> None:
        """The request had no line at all, and it was said that no key has an entry of its own."""
        found = run({ALICE: {"future_rate": 1.0}}, Entity(user="bob"), detail=Detail(keys=("future_rate",)))
        text = "".join(render_resolve(found, found.header, found.findings))
        assert "  future_rate = unlimited: no entry applies\n" in text


class TestFindings:
    def test_a_name_that_looks_like_the_default_is_a_warning(self) -> None:
        assert (
            "is used literally as a name"
            in findings({}, Entity(user="<default>", client_id="x"))["default-word"].message
        )

    @pytest.mark.parametrize("key", [PRODUCER, CONSUMER, REQUEST, MUTATION])
    def test_nan_that_applies_is_a_warning(self, key: str) -> None:
        found = findings({ALICE: {key: float("nan")}}, BOTH)["nan-value"]
        assert (found.address, found.key) == ("user=alice", key)

    def test_nan_that_is_overridden_is_none(self) -> None:
        assert findings({ALICE: {PRODUCER: float("nan")}, BOTH: {PRODUCER: 1.0}}, BOTH) == {}

    @pytest.mark.parametrize(
        ("value", "words"),
        [(0.0, "it blocks everything"), (-1.0, "blocks"), (1e-7, "blocks"), (1024.0000005, "whole")],
    )
    def test_a_value_that_is_not_what_it_looks_like_is_a_warning(self, value: float, words: str) -> None:
        assert words in findings({ALICE: {PRODUCER: value}}, BOTH)["odd-value"].message

    @pytest.mark.parametrize("value", [1.0, 2.0**63])
    def test_a_value_that_files_may_hold_is_none(self, value: float) -> None:
        assert findings({ALICE: {PRODUCER: value, REQUEST: 1e308}}, BOTH) == {}

    def test_no_limit_by_infinity_is_none(self) -> None:
        assert findings({ALICE: {REQUEST: float("inf")}}, BOTH) == {}

    def test_shapes_that_only_a_broker_knows_are_noted(self) -> None:
        quotas: Quotas = {Entity({"group": f"g{number}"}): {"x": 1.0} for number in range(7)}
        found = findings(quotas, BOTH)["unknown-shape"]
        assert found.severity is Severity.NOTE
        assert "group=g0, group=g1, group=g2, group=g3, group=g4 and 2 more" in found.message


class TestCallback:
    def test_a_broker_that_decides_by_itself_is_a_warning(self) -> None:
        config = BrokerConfig({1: "a.Callback", 2: None, 3: "a.Callback", 4: "b.Callback\n"}, {})
        found = run({}, BOTH, config=config).findings()
        assert [(f.rule, f.severity) for f in found] == [("quota-callback", Severity.WARNING)] * 2
        assert "is a.Callback on brokers 1, 3: this callback determines" in found[0].message
        assert r'is "b.Callback\n" on broker 4' in found[1].message

    def test_a_broker_that_cannot_be_asked_is_a_note_and_stops_nothing(self) -> None:
        config = BrokerConfig({1: None}, {number: ConnectError("no connection") for number in range(2, 9)})
        found = findings({}, BOTH, config=config)
        assert found.keys() == {"quota-callback-unchecked"}
        note = found["quota-callback-unchecked"]
        assert note.severity is Severity.NOTE
        assert "whether brokers 2, 3, 4, 5, 6 and 2 more use a custom quota callback" in note.message
        assert note.message.endswith(": no connection")

    @pytest.mark.parametrize(("asked", "is_live"), [(Entity(ip="::1"), True), (BOTH, False)])
    def test_nobody_is_asked_for_addresses_or_of_a_snapshot(self, asked: Entity, is_live: bool) -> None:
        gateway = ScriptedGateway({}, is_live=is_live)
        is_ip = "ip" in asked.types
        ResolveRun(ResolveRequest(entities=(asked,), has_clients=not is_ip, has_ips=is_ip), gateway)
        assert gateway.log == ["describe"]


class TestPlans:
    def test_a_plan_for_another_cluster_is_refused(self) -> None:
        plan = plan_of({ALICE: {}}, LIVE)
        request = ResolveRequest(entities=(BOTH,), has_clients=True, has_ips=False, plan=AsIfApplied(plan))
        with pytest.raises(StaleError, match=f"the plan is for cluster {HEADER.cluster_id}"):
            ResolveRun(request, ScriptedGateway(LIVE, cluster_id="other"))

    def test_a_cluster_that_moved_on_is_resolved_all_the_same_with_a_warning(self) -> None:
        plan = plan_of({ALICE: {PRODUCER: 2.0}}, LIVE)
        moved = {**LIVE, ALICE: {PRODUCER: 7.0, CONSUMER: 3.0}}
        found = run(moved, BOTH, plan=plan)
        rows = {row.key: row for row in next(iter(found)).keys}
        assert (rows[PRODUCER].resolved.value, rows[CONSUMER].resolved.value) == (2.0, 3.0)
        assert {finding.rule for finding in found.findings()} == {"plan-stale"}

    def test_an_applied_plan_changes_nothing(self) -> None:
        plan = plan_of({ALICE: {PRODUCER: 2.0}}, LIVE)
        found = run({**LIVE, ALICE: {PRODUCER: 2.0}}, BOTH, plan=plan)
        row = next(iter(found)).keys[0]
        assert row.resolved == row.before
        assert found.findings() == []

    def test_a_blocked_plan_is_resolved_with_a_warning(self) -> None:
        blocked = Finding(rule="cluster-id", message="no", blocking=True)
        plan = plan_of({ALICE: {}}, LIVE, findings=[blocked])
        found = findings(LIVE, BOTH, plan=plan)
        assert "the plan is blocked (cluster-id)" in found["plan-blocked"].message
