"""The gateway on a real broker: what goes in comes out, and what is refused is told apart from what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isnan, nan
from os import getpid, kill
from signal import SIGINT
from threading import Timer
from time import monotonic, sleep

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.client_quotas import AlterClientQuotas
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration, AlterResult, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, ConnectError, UnsupportedError
from quotaform.model.quotas import Quotas, Values, same_values
from quotaform.sandbox import Sandbox
from tests.broker import SHORT_SESSIONS
from tests.broker_release import broker_release, holds
from tests.waiting import once, wait_until

pytestmark = pytest.mark.kafka

PRODUCE = "producer_byte_rate"
CONSUME = "consumer_byte_rate"
REQUEST = "request_percentage"
MUTATE = "controller_mutation_rate"
CONNECT = "connection_creation_rate"


@pytest.fixture(scope="module")
def gateway(sandbox: Sandbox) -> Iterator[KafkaGateway]:
    with KafkaGateway.connect(sandbox.bootstrap_servers, name="lab") as gateway:
        yield gateway


def broker_of(gateway: KafkaGateway) -> BrokerConnection:
    """Return the connection that a gateway uses."""
    broker = connection_of(gateway).broker
    assert broker is not None
    return broker


def connection_of(gateway: KafkaGateway) -> ClusterConnection:
    assert isinstance(gateway.connection, ClusterConnection)
    return gateway.connection


def is_asked(gateway: KafkaGateway) -> Callable[[], bool]:
    """Return what says whether a request went to the broker since this call."""
    broker = broker_of(gateway)
    before = broker._correlation_id
    return lambda: broker._correlation_id > before


def answers(gateway: KafkaGateway) -> bool:
    try:
        gateway.describe()
    except ClusterError:
        return False
    return True


def set_quotas(gateway: KafkaGateway, quotas: Quotas) -> AlterResult:
    return gateway.alter([Alteration(entity, values) for entity, values in quotas.items()])


def remove(gateway: KafkaGateway, quotas: Quotas) -> None:
    gateway.alter([Alteration(entity, dict.fromkeys(values)) for entity, values in quotas.items()]).raise_for_errors()
    wait_until(lambda: not quotas.keys() & gateway.describe().keys())


def read(gateway: KafkaGateway, expected: Quotas) -> Quotas:
    """Describe until the expected entities are as expected, or for a minute; return those entities."""
    deadline = monotonic() + 60
    while True:
        live = gateway.describe()
        found = {entity: live[entity] for entity in expected if entity in live}
        as_expected = found.keys() == expected.keys() and all(
            same_values(found[entity], values) for entity, values in expected.items()
        )
        if as_expected or monotonic() > deadline:
            return found
        sleep(0.02)


@pytest.fixture
def round_trip(gateway: KafkaGateway) -> Iterator[list[Quotas]]:
    """Begin without quotas, and clean up what a test names here: what other tests left would be read as well."""
    remove(gateway, gateway.describe())
    used: list[Quotas] = []
    yield used
    for quotas in used:
        remove(gateway, quotas)


class TestReadingAndWriting:
    def test_a_cluster_has_an_id_and_a_name(self, gateway: KafkaGateway, sandbox: Sandbox) -> None:
        assert gateway.cluster_id() == sandbox.cluster_id
        assert gateway.is_live
        with KafkaGateway.connect(sandbox.bootstrap_servers.split(",")) as unnamed:
            assert unnamed.name == sandbox.bootstrap_servers

    def test_every_shape_and_every_key_comes_back_bit_for_bit(
        self, gateway: KafkaGateway, round_trip: list[Quotas], sandbox: Sandbox
    ) -> None:
        clients: Values = {PRODUCE: 2.0**63, CONSUME: 1024.0000005, REQUEST: 0.1 + 0.2, MUTATE: 5e-324}
        quotas: dict[Entity, Values] = {
            Entity(user="shape"): clients,
            Entity(user=None): {REQUEST: 1e308},
            Entity(client_id="shape"): {PRODUCE: 2.0**53 + 2},
            Entity(client_id=None): {REQUEST: 1e308, MUTATE: 0.5},
            Entity(user="shape", client_id="c"): clients,
            Entity(user="shape", client_id=None): {CONSUME: 1.0},
            Entity(user=None, client_id="c"): {MUTATE: 1e308},
            Entity(user=None, client_id=None): {REQUEST: 2147483647.0},
            Entity(ip="10.9.8.7"): {CONNECT: 2147483647.0},
            Entity(ip="2001:db8::1"): {CONNECT: 5e-324},
            Entity(ip=None): {CONNECT: 2147483647.0},
        }
        refused: set[Entity] = set()
        if not holds(sandbox, "verbatim"):
            refused = {Entity(user="shape"), Entity(user="shape", client_id="c")}
        if not holds(sandbox, "ipv6"):
            refused.add(Entity(ip="2001:db8::1"))
        taken = {entity: values for entity, values in quotas.items() if entity not in refused}
        round_trip.append(taken)
        result = set_quotas(gateway, quotas)
        assert {row.entity: row.code for row in result.failed} == dict.fromkeys(refused, 42)
        assert read(gateway, taken) == taken
        assert not refused & gateway.describe().keys()

    def test_a_value_that_is_no_number_is_shown_as_it_is(self, gateway: KafkaGateway, round_trip: list[Quotas]) -> None:
        entity = Entity(user="no-number")
        round_trip.append({entity: {REQUEST: nan}})
        gateway.connection.send(AlterClientQuotas([Alteration(entity, {REQUEST: nan})]), timeout=65)
        assert isnan(read(gateway, {entity: {REQUEST: nan}})[entity][REQUEST])

    @pytest.mark.parametrize(
        "name",
        [
            "with space",
            "quote\"and'apostrophe",
            "comma,equals=colon:",
            "percent%20%",
            "<default>",
            "new\nline\ttab",
            "CN=a b,O=Å/ß+*~",
            "😀",
            "e\u0301",
            "\u202e\u2028\x7f",
            "x" * 32_767,
            "é" * 16_383,
        ],
        ids=lambda name: ascii(name)[:20],
    )
    def test_any_name_comes_back_as_it_is(self, gateway: KafkaGateway, round_trip: list[Quotas], name: str) -> None:
        quotas = {Entity(user=name, client_id=name): {PRODUCE: 1.0}}
        round_trip.append(quotas)
        set_quotas(gateway, quotas).raise_for_errors()
        assert read(gateway, quotas) == quotas

    def test_none_is_the_default_and_the_word_default_is_a_name(
        self, gateway: KafkaGateway, round_trip: list[Quotas]
    ) -> None:
        quotas = {Entity(client_id="<default>"): {MUTATE: 1.0}, Entity(client_id=None): {MUTATE: 2.0}}
        round_trip.append(quotas)
        set_quotas(gateway, quotas).raise_for_errors()
        assert read(gateway, quotas) == quotas

    def test_keys_are_set_and_removed_in_one_go(self, gateway: KafkaGateway, round_trip: list[Quotas]) -> None:
        entity = Entity(user="set-and-remove")
        round_trip.append({entity: {PRODUCE: 0.0, CONSUME: 0.0}})
        set_quotas(gateway, {entity: {PRODUCE: 1.0}}).raise_for_errors()
        gateway.alter([Alteration(entity, {PRODUCE: None, CONSUME: 2.0, "unknown": None})]).raise_for_errors()
        assert read(gateway, {entity: {CONSUME: 2.0}}) == {entity: {CONSUME: 2.0}}


class TestRefusals:
    def test_one_bad_entity_does_not_keep_the_others(self, gateway: KafkaGateway, round_trip: list[Quotas]) -> None:
        good = {Entity(user=f"good-{number}"): {PRODUCE: 1.0} for number in range(3)}
        round_trip.append(good)
        bad: dict[Entity, Values] = {
            Entity(user="bad-value"): {PRODUCE: 0.0},
            Entity(user="bad-fraction"): {PRODUCE: 1.5, CONSUME: 1.0},
            Entity(user="bad-key"): {"nope": 1.0},
            Entity(user=""): {PRODUCE: 1.0},
            Entity(ip="10.1.1.1", user="x"): {CONNECT: 1.0},
            Entity(ip="no.such.host.invalid"): {CONNECT: 1.0},
            Entity({"group": "x"}): {PRODUCE: 1.0},
            Entity(): {PRODUCE: 1.0},
        }
        result = set_quotas(gateway, bad | good)
        assert [row.entity for row in result] == [*bad, *good]
        assert [(row.outcome, row.code) for row in result] == [(Outcome.REFUSED, 42)] * len(bad) + [(Outcome.OK, 0)] * 3
        assert all(row.message for row in result.failed)
        assert read(gateway, good) == good
        assert read(gateway, {}) == {}
        assert not bad.keys() & gateway.describe().keys()
        with pytest.raises(ClusterError, match=r"user=bad-value: .*\(and 7 more\)"):
            result.raise_for_errors()

    def test_a_validation_changes_nothing_and_says_the_same(self, gateway: KafkaGateway) -> None:
        before = gateway.describe()
        asked = [
            Alteration(Entity(user="only-asked"), {PRODUCE: 1.0}),
            Alteration(Entity(user="only-asked-too"), {PRODUCE: -1.0}),
        ]
        rows = gateway.alter(asked, validate_only=True).rows
        assert [row.outcome for row in rows] == [Outcome.OK, Outcome.REFUSED]
        sleep(0.2)
        assert gateway.describe() == before


class TestBulk:
    def test_more_values_than_a_broker_takes_at_once_are_split(self, gateway: KafkaGateway) -> None:
        quotas = {Entity(user=f"bulk-{number}"): {PRODUCE: 1.0 + number} for number in range(10_001)}
        told: list[int] = []
        result = gateway.alter(
            [Alteration(entity, values) for entity, values in quotas.items()],
            progress=lambda what, done, total: told.append(done),
        )
        assert {row.outcome for row in result} == {Outcome.OK}
        assert told == [4_000, 8_000, 10_001]
        assert read(gateway, quotas) == quotas
        remove(gateway, quotas)

    def test_long_names_are_split_by_bytes_before_a_controller_resigns(
        self, gateway: KafkaGateway, sandbox: Sandbox
    ) -> None:
        count = 270 if holds(sandbox, "names") else 100
        quotas = {Entity(user=f"{number:03}" + "x" * 32_000): {PRODUCE: 1.0} for number in range(count)}
        assert {row.outcome for row in set_quotas(gateway, quotas)} == {Outcome.OK}
        assert read(gateway, quotas) == quotas
        remove(gateway, quotas)


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

    def test_a_broker_without_client_quotas_is_told_with_its_version(self, sandbox: Sandbox) -> None:
        with KafkaGateway.connect(sandbox.bootstrap_servers, name="old") as gateway:
            # What the broker says that it can do, as one of Kafka 2.5 says it (KIP-546 came with 2.6).
            versions = broker_of(gateway).versions
            versions.clear()
            versions.update({3: (0, 9), 18: (0, 3), 29: (0, 2)})
            with pytest.raises(UnsupportedError, match=r"old runs Kafka 2\.5, .* need Kafka 2\.6 or later"):
                gateway.describe()
            with pytest.raises(UnsupportedError):
                gateway.alter([Alteration(Entity(user="a"), {PRODUCE: 1.0})])

    def test_a_muted_client_waits_as_long_as_the_broker_asks_for(self, sandbox: Sandbox) -> None:
        entity = Entity(client_id="muted")
        with (
            KafkaGateway.connect(sandbox.bootstrap_servers) as admin,
            KafkaGateway.connect(sandbox.bootstrap_servers, ClientConfig(client_id="muted")) as muted,
        ):
            admin.alter([Alteration(entity, {REQUEST: 0.0001})]).raise_for_errors()
            read(admin, {entity: {REQUEST: 0.0001}})
            # A broker shows a quota a moment before it enforces it.
            deadline = monotonic() + 60
            seconds = 0.0
            while seconds <= 0.5:
                assert monotonic() < deadline
                begin = monotonic()
                for _ in range(4):
                    muted.describe()
                seconds = monotonic() - begin
            remove(admin, {entity: {REQUEST: 0.0}})


class TestBrokersThatFail:
    def test_a_broker_that_is_killed_leaves_its_request_unknown_and_the_rest_not_sent(self) -> None:
        alterations = [Alteration(Entity(user=f"u{number}"), {PRODUCE: 1.0}) for number in range(40_000)]
        with (
            Sandbox(properties=SHORT_SESSIONS) as kafka,
            KafkaGateway.connect(kafka.bootstrap_servers, name="lab") as gateway,
        ):
            connection = connection_of(gateway)
            connection._timeout = 1.0
            rows: list[AlterRow] = []
            for number, chunk in enumerate(gateway.alter_chunks(alterations)):
                rows += chunk
                if number == 1:
                    # The third request is on its way to a broker that never answers it.
                    kafka.pause(1)
                    once(is_asked(gateway), lambda: kafka.kill(1))
            assert [row.entity for row in rows] == [each.entity for each in alterations]
            outcomes = [row.outcome for row in rows]
            assert outcomes == [Outcome.OK] * 8_000 + [Outcome.UNKNOWN] * 4_000 + [Outcome.NOT_SENT] * 28_000
            assert "was lost before it responded" in rows[8_000].message
            begin = monotonic()
            with pytest.raises(ConnectError, match="nothing listens at"):
                gateway.describe()
            assert monotonic() - begin < 20
            connection._timeout = 60.0
            kafka.restart(1)
            assert len(gateway.describe()) >= 8_000

    @pytest.mark.prove
    def test_a_paused_broker_is_given_up_in_time(self) -> None:
        with Sandbox() as kafka:
            config = ClientConfig(request_timeout=3.0, api_timeout=6.0)
            with KafkaGateway.connect(kafka.bootstrap_servers, config, name="lab") as gateway:
                connection_of(gateway)._timeout = 1.0
                kafka.pause(1)
                try:
                    begin = monotonic()
                    with pytest.raises(ClusterError, match="did not answer within 1 s"):
                        gateway.describe()
                    assert monotonic() - begin < 25
                    with pytest.raises(ConnectError, match="accepted the connection and did not answer within 1 s"):
                        KafkaGateway.connect(kafka.bootstrap_servers, timeout=1.0)
                finally:
                    kafka.resume(1)
                connection_of(gateway)._timeout = 60.0
                if broker_release(kafka).has_zookeeper:
                    # Its session with ZooKeeper is over; it answers code -1 until it has a new one.
                    wait_until(lambda: answers(gateway))
                assert gateway.describe(timeout=60) == {}

    @pytest.mark.prove
    def test_an_interrupt_while_a_broker_is_awaited_is_prompt_and_says_what_was_done(self) -> None:
        alterations = [Alteration(Entity(user=f"u{number}"), {PRODUCE: 1.0}) for number in range(12_000)]
        rows: list[AlterRow] = []
        with Sandbox() as kafka, KafkaGateway.connect(kafka.bootstrap_servers) as gateway:
            chunks = gateway.alter_chunks(alterations)
            rows += next(chunks)
            kafka.pause(1)
            once(is_asked(gateway), lambda: Timer(0.2, kill, (getpid(), SIGINT)).start())
            begin = monotonic()
            rows += next(chunks)
            rows += next(chunks)
            with pytest.raises(KeyboardInterrupt):
                next(chunks)
            gateway.close()
            assert monotonic() - begin < 20
        outcomes = [row.outcome for row in rows]
        assert outcomes == [Outcome.OK] * 4_000 + [Outcome.UNKNOWN] * 4_000 + [Outcome.NOT_SENT] * 4_000

    def test_reading_goes_on_at_another_broker_and_no_acked_change_is_lost(self, three_brokers: Sandbox) -> None:
        quotas: dict[Entity, Values] = {}
        with KafkaGateway.connect(three_brokers.bootstrap_servers, name="three") as gateway:
            serving = 1 + three_brokers.bootstrap_servers.split(",").index(str(broker_of(gateway).server))
            kill = Timer(0.3, three_brokers.kill, (serving,))
            kill.start()
            try:
                lost = 0
                deadline = monotonic() + 30
                while (not lost or len(quotas) < 40) and monotonic() < deadline:
                    entity = Entity(user=f"failover-{len(quotas) + lost}")
                    [row] = gateway.alter([Alteration(entity, {PRODUCE: 1.0})])
                    assert row.outcome in {Outcome.OK, Outcome.UNKNOWN}
                    if row.outcome is Outcome.OK:
                        quotas[entity] = {PRODUCE: 1.0}
                    else:
                        lost += 1
                assert lost <= 2
                assert read(gateway, quotas) == quotas
            finally:
                kill.join()
                three_brokers.restart(serving)
            remove(gateway, quotas)
