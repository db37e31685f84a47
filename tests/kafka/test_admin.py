"""What Kafka's own tests ask of client quotas (KIP-546), asked of `QuotaAdmin` on a real broker."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan, nan
from time import monotonic, sleep

import pytest

from quotaform import ANY, Alteration, AlterResult, Entity, EntityFilter, Outcome, QuotaAdmin
from quotaform.cluster.wire.client_quotas import AlterClientQuotas
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.errors import (
    AuthorizationError,
    ClusterError,
    ConnectError,
    InvalidRequestError,
    PolicyError,
    UnknownOutcomeError,
    UnsupportedError,
)
from quotaform.sandbox import Sandbox
from tests.age import holds
from tests.broker import strictly
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATE, CONNECT = "request_percentage", "controller_mutation_rate", "connection_creation_rate"

Ops = Mapping[str, float | None]


@pytest.fixture
def admin(admin: QuotaAdmin) -> QuotaAdmin:
    """The shared broker without any quotas."""
    found = admin.describe()
    admin.alter([Alteration(entity, dict.fromkeys(values)) for entity, values in found.items()])
    wait_until(lambda: not admin.describe())
    return admin


def alter(admin: QuotaAdmin, quotas: Mapping[Entity, Ops], *, validate_only: bool = False) -> AlterResult:
    alterations = [Alteration(entity, ops) for entity, ops in quotas.items()]
    return admin.alter(alterations, validate_only=validate_only)


def put(admin: QuotaAdmin, quotas: Mapping[Entity, Ops]) -> None:
    """Alter, and wait until every set value shows and every removed one is gone."""
    alter(admin, quotas).raise_for_errors()

    def holds() -> bool:
        live = admin.describe()
        return all(
            live.get(entity, {}).get(key) == value for entity, ops in quotas.items() for key, value in ops.items()
        )

    wait_until(holds)


class TestAlter:
    def test_values_are_added_updated_and_removed_key_by_key(self, admin: QuotaAdmin) -> None:
        entity = Entity(user="user", client_id="client-id")
        assert strictly(admin, entity) == {}
        put(admin, {entity: {PRODUCE: 10000.0, CONSUME: 20000.0}})
        assert strictly(admin, entity) == {entity: {PRODUCE: 10000.0, CONSUME: 20000.0}}
        put(admin, {entity: {PRODUCE: 15000.0, CONSUME: None, REQUEST: 12.34}})
        assert strictly(admin, entity) == {entity: {PRODUCE: 15000.0, REQUEST: 12.34}}
        put(admin, {entity: {PRODUCE: 15000.0}})
        assert strictly(admin, entity) == {entity: {PRODUCE: 15000.0, REQUEST: 12.34}}
        put(admin, {entity: {PRODUCE: None}})
        assert strictly(admin, entity) == {entity: {REQUEST: 12.34}}
        put(admin, {entity: {REQUEST: None}})
        assert admin.describe() == {}

    def test_what_is_not_there_can_be_removed(self, admin: QuotaAdmin) -> None:
        there, gone = Entity(user="there"), Entity(user="gone")
        put(admin, {there: {PRODUCE: 1.0}})
        removals = {there: {CONSUME: None, "unknown": None, CONNECT: None}, gone: {PRODUCE: None}}
        alter(admin, removals).raise_for_errors()
        assert admin.describe() == {there: {PRODUCE: 1.0}}

    def test_a_validation_judges_and_changes_nothing(self, admin: QuotaAdmin) -> None:
        entity = Entity(user="user", client_id="client-id")
        put(admin, {entity: {PRODUCE: 20000.0, REQUEST: 23.45}})
        alter(admin, {entity: {PRODUCE: 10000.0, REQUEST: None, CONSUME: 1.0}}, validate_only=True).raise_for_errors()
        alter(admin, {entity: {PRODUCE: None, REQUEST: None}}, validate_only=True).raise_for_errors()
        refused = alter(admin, {entity: {PRODUCE: -1.0}}, validate_only=True)
        assert [row.outcome for row in refused] == [Outcome.REFUSED]
        sleep(0.2)
        assert admin.describe() == {entity: {PRODUCE: 20000.0, REQUEST: 23.45}}

    def test_the_credentials_of_a_user_are_no_quotas(self, admin: QuotaAdmin, sandbox: Sandbox) -> None:
        done = sandbox.run_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", sandbox.bootstrap_servers, "--alter",
            "--entity-type", "users", "--entity-name", "scram-user",
            "--add-config", "SCRAM-SHA-256=[iterations=4096,password=not-a-secret]",
        )  # fmt: skip
        assert (done.returncode == 0) == holds(sandbox, "scram"), done.stderr
        entity = Entity(user="scram-user")
        assert admin.describe() == {}
        put(admin, {entity: {CONSUME: 10000.0}})
        assert admin.describe() == {entity: {CONSUME: 10000.0}}
        [row] = alter(admin, {entity: {"SCRAM-SHA-256": 4096.0}}).failed
        assert row.code == 42

    def test_connections_of_an_address_and_of_all_addresses_are_limited(self, admin: QuotaAdmin) -> None:
        known, other, default = Entity(ip="1.2.3.4"), Entity(ip="2.3.4.5"), Entity(ip=None)
        put(admin, {default: {CONNECT: 20000.0}, known: {CONNECT: 10000.0}})
        assert strictly(admin, default) == {default: {CONNECT: 20000.0}}
        assert strictly(admin, known) == {known: {CONNECT: 10000.0}}
        assert strictly(admin, other) == {}
        both = {default: {CONNECT: 20000.0}, known: {CONNECT: 10000.0}}
        assert admin.describe(EntityFilter.contains_only(ip=ANY)) == both
        put(admin, {default: {CONNECT: None}, known: {CONNECT: None}})
        assert admin.describe() == {}

    def test_a_null_name_is_the_default_and_the_word_is_a_name(self, admin: QuotaAdmin) -> None:
        literal, default = Entity(client_id="<default>"), Entity(client_id=None)
        put(admin, {literal: {PRODUCE: 1.0}})
        assert strictly(admin, default) == {}
        put(admin, {default: {PRODUCE: 2.0}})
        assert strictly(admin, literal) == {literal: {PRODUCE: 1.0}}
        assert strictly(admin, default) == {default: {PRODUCE: 2.0}}

    @pytest.mark.parametrize("name", ["user with spaces", "CN=a b,O=Å/ß+*~'\"", "%3Cdefault%3E", "a%20b", "!@#$%^&*()"])
    def test_names_that_kafka_encodes_elsewhere_are_plain_here(self, admin: QuotaAdmin, name: str) -> None:
        entity = Entity(user=name, client_id=name)
        put(admin, {entity: {PRODUCE: 9999.0}})
        assert admin.describe() == {entity: {PRODUCE: 9999.0}}


class TestRefusals:
    @pytest.mark.parametrize(
        ("entity", "ops", "words"),
        [
            (Entity(user=""), {PRODUCE: 1.0}, "Empty user not supported"),
            (Entity(client_id=""), {PRODUCE: 1.0}, "Empty client-id not supported"),
            (Entity({"": "name"}), {PRODUCE: 1.0}, "Unhandled client quota entity type: "),
            (Entity({"group": "g"}), {PRODUCE: 1.0}, "Unhandled client quota entity type: group"),
            (Entity(), {PRODUCE: 1.0}, "Invalid empty client quota entity"),
            (Entity(user="u", ip="1.2.3.4"), {CONNECT: 1.0}, "Invalid quota entity combination"),
            (Entity(client_id="c", ip="1.2.3.4"), {CONNECT: 1.0}, "Invalid quota entity combination"),
            (Entity(user="u"), {"bad": 1.0}, "Invalid configuration key bad"),
            (Entity(user="u"), {CONNECT: 1.0}, f"Invalid configuration key {CONNECT}"),
            (Entity(ip="1.2.3.4"), {PRODUCE: 1.0}, f"Invalid configuration key {PRODUCE}"),
            (Entity(user="u"), {PRODUCE: 10000.5}, f"{PRODUCE} cannot be a fractional value."),
            (Entity(user="u"), {PRODUCE: 0.0}, f"Quota {PRODUCE} must be greater than 0"),
            (Entity(user="u"), {REQUEST: -1.0}, f"Quota {REQUEST} must be greater than 0"),
            (Entity(user="u"), {PRODUCE: 1e308}, f"Proposed value for {PRODUCE} is too large for a LONG."),
            (Entity(ip="1.2.3.4"), {CONNECT: 2.0**31}, f"Proposed value for {CONNECT} is too large for an INT."),
            (Entity(ip="no.such.host.invalid"), {CONNECT: 1.0}, "is not a valid IP or resolvable host."),
        ],
        ids=lambda case: case.address or "nobody" if isinstance(case, Entity) else "",
    )
    def test_what_makes_no_sense_is_an_invalid_request_in_the_brokers_words(
        self, admin: QuotaAdmin, entity: Entity, ops: Ops, words: str
    ) -> None:
        result = alter(admin, {entity: ops})
        [row] = result.failed
        assert (row.outcome, row.code) == (Outcome.REFUSED, 42)
        with pytest.raises(InvalidRequestError, match=words.replace(".", r"\.").rstrip()):
            result.raise_for_errors()
        assert admin.describe() == {}

    def test_every_entity_has_an_answer_of_its_own_in_the_order_asked(self, admin: QuotaAdmin) -> None:
        quotas: dict[Entity, Ops] = {
            Entity(user=f"u{number}"): {PRODUCE: -1.0 if number % 3 == 0 else 1.0} for number in range(9)
        }
        result = alter(admin, quotas)
        assert [row.entity for row in result] == list(quotas)
        assert [row.entity.names["user"] for row in result.failed] == ["u0", "u3", "u6"]
        with pytest.raises(InvalidRequestError, match=r"^user=u0: .* \(and 2 more\)$"):
            result.raise_for_errors()
        wait_until(lambda: len(admin.describe()) == 6)
        assert len(admin.describe()) == 6

    def test_an_entity_is_changed_whole_or_not_at_all(self, admin: QuotaAdmin) -> None:
        entity = Entity(user="whole")
        put(admin, {entity: {CONSUME: 5.0}})
        with pytest.raises(InvalidRequestError):
            alter(admin, {entity: {PRODUCE: 1.0, CONSUME: None, REQUEST: -1.0}}).raise_for_errors()
        sleep(0.1)
        assert admin.describe() == {entity: {CONSUME: 5.0}}

    def test_an_entity_twice_in_a_call_is_refused_before_half_of_it_is_done(self, admin: QuotaAdmin) -> None:
        one, same = Entity(user="u", client_id="c"), Entity({"client-id": "c", "user": "u"})
        with pytest.raises(ValueError, match="user=u,client-id=c is altered twice"):
            admin.alter([Alteration(one, {PRODUCE: 1.0}), Alteration(same, {CONSUME: 1.0})])
        sleep(0.1)
        assert admin.describe() == {}

    @pytest.mark.parametrize("value", [nan, inf, -inf])
    def test_what_is_no_finite_number_is_never_sent(self, admin: QuotaAdmin, value: float) -> None:
        with pytest.raises(ValueError, match="not a finite number"):
            alter(admin, {Entity(user="u"): {REQUEST: value}})
        assert admin.describe() == {}

    def test_a_nan_that_is_live_is_described_as_it_is(self, admin: QuotaAdmin, connection: ClusterConnection) -> None:
        entity = Entity(user="u")
        request = AlterClientQuotas([Alteration(entity, {REQUEST: nan})])
        connection.send(request, timeout=65)
        wait_until(lambda: entity in admin.describe())
        assert isnan(admin.describe()[entity][REQUEST])

    def test_more_values_than_a_broker_takes_are_split_and_not_refused(self, admin: QuotaAdmin) -> None:
        quotas: dict[Entity, Ops] = {Entity(user=f"u{number}"): {PRODUCE: 1.0} for number in range(10_001)}
        alter(admin, quotas).raise_for_errors()
        wait_until(lambda: len(admin.describe()) == len(quotas))
        assert admin.describe() == quotas

    @pytest.mark.usefixtures("admin")
    def test_more_values_than_a_broker_takes_in_one_request_are_a_policy_error(
        self, admin: QuotaAdmin, connection: ClusterConnection, sandbox: Sandbox
    ) -> None:
        # Values that are there already are no change and do not count, so the broker must be empty.
        from quotaform.cluster.alter_chunk import match_rows

        alterations = [Alteration(Entity(user=f"u{number}"), {PRODUCE: 1.0}) for number in range(10_001)]
        assert not admin.describe(), "a value that is there already is no change"
        answer = connection.send(AlterClientQuotas(alterations, True), timeout=65)
        if not holds(sandbox, "limit"):
            assert not AlterResult(match_rows(alterations, answer.rows)).failed
            return
        with pytest.raises(PolicyError, match="policy"):
            AlterResult(match_rows(alterations, answer.rows)).raise_for_errors()


class TestResolve:
    def test_a_request_is_resolved_on_the_live_quotas(self, admin: QuotaAdmin) -> None:
        own, default = Entity(user="a", client_id="x"), Entity(user=None)
        put(admin, {own: {PRODUCE: 1.0}, default: {PRODUCE: 2.0, CONSUME: 3.0}})
        found = admin.resolve(user="a", client_id="x")
        assert (found[PRODUCE].value, found[PRODUCE].source, found[PRODUCE].source_name) == (1.0, own, "ClientInUser")
        assert [lost.source for lost in found[PRODUCE].overridden] == [default]
        assert (found[CONSUME].value, found[CONSUME].source_name) == (3.0, "DefaultUser")
        assert (found[REQUEST].value, found[REQUEST].source) == (None, None)
        assert admin.resolve(user="a")[PRODUCE].value == 2.0
        many = admin.resolve_all([Entity(user="a", client_id="x"), Entity(ip="1.2.3.4")])
        assert many[Entity(user="a", client_id="x")] == found
        assert many[Entity(ip="1.2.3.4")][CONNECT].value is None

    def test_what_makes_no_request_is_refused(self, admin: QuotaAdmin) -> None:
        for names in ({}, {"user": ""}, {"user": "a", "ip": "1.2.3.4"}):
            with pytest.raises(ValueError, match=r"give|only a client-id can be"):
                admin.resolve(**names)
        with pytest.raises(ValueError, match="not a concrete entity"):
            admin.resolve_all([Entity(user=None)])


class TestErrorsByCode:
    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (-1, UnknownOutcomeError),
            (7, UnknownOutcomeError),
            (31, AuthorizationError),
            (35, UnsupportedError),
            (42, InvalidRequestError),
            (44, PolicyError),
            (41, ClusterError),
        ],
    )
    def test_a_code_has_a_class(self, code: int, kind: type[ClusterError]) -> None:
        from quotaform.cluster.alter_chunk import match_rows

        alteration = Alteration(Entity(user="u"), {PRODUCE: 1.0})
        result = AlterResult(match_rows([alteration], [([("user", "u")], code, None)]))
        with pytest.raises(kind, match=f"user=u: .*{code if code != 31 else 'ALTER_CONFIGS'}") as caught:
            result.raise_for_errors()
        assert type(caught.value) is kind

    def test_one_without_rights_is_told_which_are_missing(self, secured_sandbox: Sandbox) -> None:
        listener = "SASL_PLAINTEXT"
        text = secured_sandbox.client_properties(listener, user="tenant")
        properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        with QuotaAdmin.connect(secured_sandbox.listeners[listener], properties=properties) as tenant:
            with pytest.raises(AuthorizationError, match="DESCRIBE_CONFIGS on the Cluster"):
                tenant.describe()
            with pytest.raises(AuthorizationError, match="ALTER_CONFIGS on the Cluster"):
                alter(tenant, {Entity(user="u"): {PRODUCE: 1.0}}, validate_only=True).raise_for_errors()


class TestConnection:
    def test_an_admin_is_closed_at_the_end_of_its_block(self, sandbox: Sandbox) -> None:
        with QuotaAdmin.connect(sandbox.bootstrap_servers.split(",")) as admin:
            assert admin.cluster_id() == sandbox.cluster_id
        with pytest.raises(ClusterError, match="is closed"):
            admin.describe()
        admin.close()

    def test_nobody_there_is_one_sentence_at_once(self) -> None:
        begin = monotonic()
        with pytest.raises(ConnectError, match=r"nothing listens at 127\.0\.0\.1:1"):
            QuotaAdmin.connect("127.0.0.1:1")
        assert monotonic() - begin < 9
