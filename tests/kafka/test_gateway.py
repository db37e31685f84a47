"""The gateway on a real broker: what goes in comes out, and what is refused is told apart from what is not known.

That every shape, name and value comes back bit for bit is in `test_interop`, where Kafka's own tool reads it as well.
What it does when a broker is killed, frozen or cut off is judged in rounds of faults, and at moments that a script
chooses in `tests/golden/broker.txt` and `tests/golden/decided-sent.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, nan
from threading import Timer
from time import monotonic, sleep
from typing import Final

import pytest

from quotaform.cluster.broker import AlterClientQuotas
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError, InvalidRequestError, UnsupportedError
from quotaform.model.quotas import Quotas, Values
from quotaform.sandbox import Sandbox
from tests.broker import become, broker_release, holds, kafka_configs, wait_for
from tests.builder import CONNECTION, CONSUMER, PRODUCER, REQUEST
from tests.faulty_sandbox import FaultySandbox
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka


USER: Final = Entity(user="user")
REFUSED: Final = [
    # what is asked for, and what the broker says
    (Entity(user=""), {PRODUCER: 1.0}, "Empty user not supported"),
    (Entity(client_id=""), {PRODUCER: 1.0}, "Empty client-id not supported"),
    (Entity({"": "name"}), {PRODUCER: 1.0}, "Unhandled client quota entity type: "),
    (Entity({"group": "g"}), {PRODUCER: 1.0}, "Unhandled client quota entity type: group"),
    (Entity(), {PRODUCER: 1.0}, "Invalid empty client quota entity"),
    (Entity(user="u", ip="1.2.3.4"), {CONNECTION: 1.0}, "Invalid quota entity combination"),
    (Entity(client_id="c", ip="1.2.3.4"), {CONNECTION: 1.0}, "Invalid quota entity combination"),
    (Entity(user="unknown key"), {"bad": 1.0}, "Invalid configuration key bad"),
    (Entity(user="key of ips"), {CONNECTION: 1.0}, f"Invalid configuration key {CONNECTION}"),
    (Entity(ip="1.2.3.4"), {PRODUCER: 1.0}, f"Invalid configuration key {PRODUCER}"),
    (Entity(user="fraction"), {PRODUCER: 10000.5, CONSUMER: 1.0}, f"{PRODUCER} cannot be a fractional value."),
    (Entity(user="zero"), {PRODUCER: 0.0}, f"Quota {PRODUCER} must be greater than 0"),
    (Entity(user="negative"), {REQUEST: -1.0}, f"Quota {REQUEST} must be greater than 0"),
    (Entity(user="large"), {PRODUCER: 1e308}, f"Proposed value for {PRODUCER} is too large for a LONG."),
    (Entity(ip="1.2.3.5"), {CONNECTION: 2.0**31}, f"Proposed value for {CONNECTION} is too large for an INT."),
    (Entity(ip="no.such.host.invalid"), {CONNECTION: 1.0}, "is not a valid IP or resolvable host."),
]  # fmt: skip


@pytest.fixture(scope="module")
def connected(sandbox: Sandbox) -> Iterator[KafkaGateway]:
    with KafkaGateway.connect(sandbox.bootstrap_servers, name="lab") as gateway:
        yield gateway


@pytest.fixture
def gateway(connected: KafkaGateway) -> Iterator[KafkaGateway]:
    """A connection to a broker without any quotas."""
    become(connected, {})
    yield connected
    become(connected, {})


class TestReadingAndWriting:
    def test_a_value_that_is_no_number_is_shown_as_it_is(self, gateway: KafkaGateway) -> None:
        gateway.connection.send(AlterClientQuotas([Alteration(USER, {REQUEST: nan})]), timeout=65)
        wait_until(gateway.describe)
        assert isnan(gateway.describe()[USER][REQUEST])

    def test_keys_are_set_and_removed_in_one_go_whether_they_are_there_or_not(self, gateway: KafkaGateway) -> None:
        become(gateway, {USER: {PRODUCER: 1.0}})
        changes = {PRODUCER: None, CONSUMER: 2.0, REQUEST: None, "unknown": None, CONNECTION: None}
        gone = Alteration(Entity(user="gone"), {PRODUCER: None})
        gateway.alter([Alteration(USER, changes), gone]).raise_for_errors()
        wait_for(gateway, {USER: {CONSUMER: 2.0}})

    def test_the_credentials_of_a_user_are_no_quotas(self, gateway: KafkaGateway, sandbox: Sandbox) -> None:
        written = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=not-a-secret]")
        done = kafka_configs(sandbox, *written, "--entity-type", "users", "--entity-name", "scram-user")
        assert (done.returncode == 0) == holds(sandbox, "scram"), done.stderr
        become(gateway, {Entity(user="scram-user"): {CONSUMER: 10000.0}})


class TestRefusals:
    def test_what_makes_no_sense_is_refused_in_the_brokers_words_and_does_not_keep_the_others(
        self, gateway: KafkaGateway
    ) -> None:
        good: Quotas = {Entity(user=f"good-{number}"): {PRODUCER: 1.0} for number in range(3)}
        asked = {**{entity: values for entity, values, _ in REFUSED}, **good}
        for validate_only in (True, False):
            result = gateway.alter([Alteration(*item) for item in asked.items()], validate_only=validate_only)
            assert [row.entity for row in result] == list(asked)
            for row, (entity, _, words) in zip(result, REFUSED, strict=False):
                assert (row.outcome, row.code) == (Outcome.REFUSED, 42), entity
                assert words.strip() in row.message, entity
            assert {row.outcome for row in result.rows[len(REFUSED) :]} == {Outcome.OK}
            with pytest.raises(InvalidRequestError, match=r'user="": Empty user.*\(and 15 more\)'):
                result.raise_for_errors()
            sleep(0.2)
            assert validate_only is (gateway.describe() == {})
        wait_for(gateway, good)

    def test_an_entity_is_changed_whole_or_not_at_all(self, gateway: KafkaGateway) -> None:
        become(gateway, {USER: {CONSUMER: 5.0}})
        assert gateway.alter([Alteration(USER, {PRODUCER: 1.0, CONSUMER: None, REQUEST: -1.0})]).failed
        sleep(0.1)
        assert gateway.describe() == {USER: {CONSUMER: 5.0}}


@pytest.mark.parametrize("name", ["bulk", "bulk" + "x" * 32_000])
def test_a_request_is_split_before_a_broker_refuses_it_or_a_controller_resigns(
    gateway: KafkaGateway, sandbox: Sandbox, name: str
) -> None:
    """A broker takes 10,000 values at once, and a controller resigns over a few hundred long names."""
    is_long = len(name) > 10
    count = 10_001 if not is_long else 270 if holds(sandbox, "names") else 100
    quotas: Quotas = {Entity(user=f"{name}-{number}"): {PRODUCER: 1.0 + number} for number in range(count)}
    told: list[int] = []
    result = gateway.alter(
        [Alteration(entity, values) for entity, values in quotas.items()],
        progress=lambda what, done, total: told.append(done),
    )
    assert {row.outcome for row in result} == {Outcome.OK}
    assert is_long or told == [4_000, 8_000, 10_001]
    wait_for(gateway, quotas)


class TestConnection:
    def test_a_controller_is_not_taken_for_a_broker(self, sandbox: Sandbox) -> None:
        names = "controller.quorum.bootstrap.servers", "controller.quorum.voters", "zookeeper.connect"
        controller = next(
            line.split("@", 1)[-1] if "@" in line else line.split("=", 1)[1]
            for line in (sandbox.data_dir / "node-1" / "server.properties").read_text().splitlines()
            if line.startswith(names)
        )
        kind, words = UnsupportedError, "is a KRaft controller or a broker that is too old"
        if broker_release(sandbox).has_zookeeper:
            kind, words = ConnectError, "check that this is"  # type: ignore[assignment]
        with pytest.raises(kind, match=words):
            KafkaGateway.connect(controller)


def test_work_goes_on_at_another_broker_and_no_acked_change_is_lost(three_brokers: FaultySandbox) -> None:
    quotas: dict[Entity, Values] = {}
    with KafkaGateway.connect(three_brokers.bootstrap_servers, name="three") as gateway:
        assert isinstance(gateway.connection, ClusterConnection)
        assert gateway.connection.broker is not None
        serving = 1 + three_brokers.bootstrap_servers.split(",").index(str(gateway.connection.broker.server))
        kill = Timer(0.3, three_brokers.kill, (serving,))
        kill.start()
        try:
            lost = 0
            deadline = monotonic() + 30
            while (not lost or len(quotas) < 40) and monotonic() < deadline:
                entity = Entity(user=f"failover-{len(quotas) + lost}")
                [row] = gateway.alter([Alteration(entity, {PRODUCER: 1.0})])
                assert row.outcome in {Outcome.OK, Outcome.UNKNOWN}
                if row.outcome is Outcome.OK:
                    quotas[entity] = {PRODUCER: 1.0}
                else:
                    lost += 1
            assert lost <= 2
            wait_until(lambda: quotas.items() <= gateway.describe().items())
        finally:
            kill.join()
            three_brokers.restart(serving)
        become(gateway, {})
