"""What Kafka's own tests ask of client quotas (KIP-546), asked of `QuotaAdmin` on a real broker."""

from __future__ import annotations

from collections.abc import Mapping
from time import sleep

import pytest

from quotaform import Alteration, AlterResult, Entity, Outcome, QuotaAdmin
from quotaform.cluster.wire.client_quotas import AlterClientQuotas
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.errors import (
    InvalidRequestError,
    PolicyError,
)
from quotaform.sandbox import Sandbox
from tests.broker import strictly
from tests.broker_release import holds
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

    def test_an_entity_is_changed_whole_or_not_at_all(self, admin: QuotaAdmin) -> None:
        entity = Entity(user="whole")
        put(admin, {entity: {CONSUME: 5.0}})
        with pytest.raises(InvalidRequestError):
            alter(admin, {entity: {PRODUCE: 1.0, CONSUME: None, REQUEST: -1.0}}).raise_for_errors()
        sleep(0.1)
        assert admin.describe() == {entity: {CONSUME: 5.0}}

    @pytest.mark.usefixtures("admin")
    def test_more_values_than_a_broker_takes_in_one_request_are_a_policy_error(
        self, admin: QuotaAdmin, connection: ClusterConnection, sandbox: Sandbox
    ) -> None:
        # Values that are there already are no change and do not count, so the broker must be empty.
        from quotaform.cluster.broker import match_rows

        alterations = [Alteration(Entity(user=f"u{number}"), {PRODUCE: 1.0}) for number in range(10_001)]
        assert not admin.describe(), "a value that is there already is no change"
        answer = connection.send(AlterClientQuotas(alterations, True), timeout=65)
        if not holds(sandbox, "limit"):
            assert not AlterResult(match_rows(alterations, answer.rows)).failed
            return
        with pytest.raises(PolicyError, match="policy"):
            AlterResult(match_rows(alterations, answer.rows)).raise_for_errors()
