"""The connection against brokers that hang, cut, reset, delay and garble: what was sent is known, and time is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from os import getpid, kill
from signal import SIGINT
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from struct import pack
from threading import Thread
from threading import enumerate as threads
from time import monotonic, sleep
from typing import Any

import pytest

from quotaform.cluster.client.config import ClientConfig, Exchange
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.client_quotas import AlterClientQuotas, DescribeClientQuotas
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import BrokerRequest
from quotaform.cluster.wire.stream import Stream
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import Entity, Part
from quotaform.model.errors import ConnectError
from quotaform.model.filter import EVERYTHING
from quotaform.model.server import parse_servers
from quotaform.model.text import Secret
from quotaform.resolve.quota_admin import QuotaAdmin
from quotaform.sandbox.security import Certificates
from tests.fake_broker import (
    ALTER,
    API_VERSIONS,
    AUTHENTICATE,
    DESCRIBE,
    HANDSHAKE,
    HANG,
    HANG_UP,
    HANGING,
    METADATA,
    RESET,
    Asked,
    FakeBroker,
    Step,
    serving,
)
from tests.waiting import PatientClock, wait_until

pytestmark = pytest.mark.slow

KEY = "producer_byte_rate"
QUOTAS: list[tuple[list[Part], list[tuple[str, float]]]] = [
    ([("user", "a")], [(KEY, 1.0)]),
    ([("user", None), ("client-id", "c")], [(KEY, 2.0)]),
]
SEEN = {Entity(user="a"): {KEY: 1.0}, Entity(user=None, client_id="c"): {KEY: 2.0}}
DESCRIBE_ALL = DescribeClientQuotas(EVERYTHING)
CHANGE = [Alteration(Entity(user="a"), {KEY: 1.0})]
SASL = ClientConfig(
    security_protocol="SASL_PLAINTEXT",
    credentials=Password(mechanism="PLAIN", username="alice", password=Secret("alice-secret")),
)
Spoil = Callable[[Asked, bytes], "bytes | list[Step]"]


def at(api_key: int, *steps: Step, times: int = 10**9) -> Spoil:
    """Answer one kind of request by these steps, the first times; all others well."""
    left = [times]

    def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
        if asked.api_key != api_key or not left[0]:
            return frame
        left[0] -= 1
        return list(steps)

    return spoil


def connect(broker: FakeBroker, config: ClientConfig | None = None, timeout: float = 60.0) -> ClusterConnection:
    made = ClusterConnection(parse_servers(broker.address), config or ClientConfig(), name="lab", timeout=timeout)
    OPEN.append(made)
    return made


OPEN: list[ClusterConnection] = []
"""What a test connected."""


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    before = set(threads())
    with serving(FakeBroker(quotas=QUOTAS)) as made:
        yield made
        # However the test ended.
        while OPEN:
            OPEN.pop().close()
    assert not [thread for thread in set(threads()) - before if thread.name.startswith("quotaform")]


@contextmanager
def open_gateway(broker: FakeBroker, **options: float) -> Iterator[KafkaGateway]:
    connection = connect(broker)
    with KafkaGateway(connection, name="lab", **options) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> PatientClock:
    """The clock of all connections."""
    return PatientClock.of_connections(monkeypatch)


@contextmanager
def promptly() -> Iterator[None]:
    """Do something that must not take as long as a broker that hangs."""
    begin = monotonic()
    yield
    assert monotonic() - begin < HANGING / 2


def await_end(broker: FakeBroker, connections: int = 1) -> None:
    """Wait until the broker has closed so many connections."""
    wait_until(lambda: broker.ended >= connections)


class TestConnecting:
    @pytest.mark.parametrize("open_one", [KafkaGateway.connect, QuotaAdmin.connect])
    def test_without_a_timeout_a_broker_that_never_answers_is_given_up_after_ten_seconds(
        self, broker: FakeBroker, clock: PatientClock, open_one: Callable[[str], object]
    ) -> None:
        def spoil(asked: Asked, frame: bytes) -> list[Step]:
            clock.advance(10)
            return [HANG]

        broker.spoil = spoil
        with promptly(), pytest.raises(ConnectError, match=r"did not answer within 10 s"):
            open_one(broker.address)

    def test_a_huge_length_takes_no_memory(self, broker: FakeBroker) -> None:
        """Within the limit of a frame, room was to be made for what never comes."""
        import tracemalloc

        broker.spoil = at(DESCRIBE, pack(">ii", 200 << 20, 1), HANG_UP)
        connection = connect(broker)
        tracemalloc.start()
        with pytest.raises(UnansweredError, match="was lost before it responded"):
            connection.send(DESCRIBE_ALL, timeout=60)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10 << 20


@contextmanager
def meanwhile(broker: FakeBroker, api_key: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something in another thread once the broker was asked."""

    def work() -> None:
        wait_until(lambda: api_key in broker.asked_keys())
        # Until it is waited for the answer.
        sleep(0.05)
        act()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def interrupted(broker: FakeBroker, api_key: int) -> AbstractContextManager[None]:
    """Press Ctrl-C once the broker was asked; `pytest.raises` must stand before this, lest the run of the tests end."""
    return meanwhile(broker, api_key, lambda: kill(getpid(), SIGINT))


class TestAnswers:
    def test_a_broker_that_takes_long_is_waited_for_longer_each_time(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quotaform.cluster.kafka.LONE_SILENCE", 0.5)
        broker.spoil = at(DESCRIBE, HANG, times=2)
        waited: list[float | None] = []
        receive = Stream.receive

        def receive_and_note(stream: Stream, size: int, deadline: float, silence: float | None = None) -> bytes:
            waited.append(silence)
            return receive(stream, size, deadline, silence)

        monkeypatch.setattr(Stream, "receive", receive_and_note)
        with open_gateway(broker) as gateway, promptly():
            assert gateway.describe(timeout=60) == SEEN
        assert broker.asked_keys().count(DESCRIBE) == 3
        assert list(dict.fromkeys(filter(None, waited))) == [0.5, 1.0, 2.0]

    def test_a_large_answer_that_comes_in_pieces_is_not_silence(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quotaform.cluster.kafka.LONE_SILENCE", 1.5)
        pieces = 8

        def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
            size = len(frame) // pieces + 1
            parts = [frame[start : start + size] for start in range(0, len(frame), size)]
            return [step for part in parts for step in (part, 0.25)] if asked.api_key == DESCRIBE else frame

        broker.spoil = spoil
        with open_gateway(broker) as gateway:
            begin = monotonic()
            assert gateway.describe(timeout=60) == SEEN
            assert monotonic() - begin > 1.5
        assert broker.asked_keys().count(DESCRIBE) == 1

    def test_a_connection_that_is_closed_while_an_alter_is_answered_leaves_its_outcome_unknown(
        self, broker: FakeBroker
    ) -> None:
        """It was told as not sent."""
        broker.spoil = at(ALTER, HANG)
        with open_gateway(broker) as gateway, meanwhile(broker, ALTER, gateway.close):
            assert [row.outcome for row in gateway.alter(CHANGE)] == [Outcome.UNKNOWN]

    def test_a_broker_that_reads_nothing_is_given_up_in_time(self, broker: FakeBroker, clock: PatientClock) -> None:
        broker.spoil = at(DESCRIBE, HANG)
        connection = connect(broker)
        stuck = connection.broker
        assert stuck is not None
        stuck.send(stuck.encode(DESCRIBE_ALL, stuck.choose_version(DESCRIBE_ALL)), clock() + 60)
        with promptly(), pytest.raises(TimeoutError):
            stuck.send(bytes(64 << 20), clock() + 0.3)


class TestInterrupts:
    @pytest.mark.parametrize("request_", [DESCRIBE_ALL, AlterClientQuotas(CHANGE)])
    def test_an_interrupt_is_prompt_and_nothing_is_sent_afterwards(
        self, broker: FakeBroker, request_: BrokerRequest[Any]
    ) -> None:
        api_key = request_.API_KEY
        broker.spoil = at(api_key, HANG)
        connection = connect(broker)
        with promptly(), pytest.raises(KeyboardInterrupt), interrupted(broker, api_key):
            connection.send(request_, timeout=60)
        assert connection.broker is None
        connection.close()
        assert broker.asked_keys().count(api_key) == 1

    def test_what_waits_for_a_throttle_is_not_sent_after_an_interrupt(
        self, broker: FakeBroker, clock: PatientClock
    ) -> None:
        """The request went out when the throttle was over, after Ctrl-C."""
        broker.throttle_time_ms = 50_000
        with open_gateway(broker) as gateway:
            gateway.describe()
            with promptly(), pytest.raises(KeyboardInterrupt), interrupted(broker, DESCRIBE):
                list(gateway.alter_chunks(CHANGE))
            clock.advance(60)
            sleep(0.5)
        assert ALTER not in broker.asked_keys()


class TestThrottling:
    """KIP-219: the broker answers first and the client is to wait."""

    def test_the_next_request_waits_as_long_as_the_broker_asked_for(self, broker: FakeBroker) -> None:
        broker.throttle_time_ms = 150
        with open_gateway(broker) as gateway:
            begin = monotonic()
            gateway.describe()
            gateway.describe()
            assert 0.15 <= monotonic() - begin < HANGING / 2


class TestAuthentication:
    def test_the_time_that_it_takes_to_get_a_token_is_not_the_brokers(
        self, broker: FakeBroker, clock: PatientClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The broker was said not to have answered, since the token command had used up the time to connect."""
        exchange = Password.exchange

        def slowly(self: Password, host: str) -> Exchange:
            clock.advance(100)
            yield from exchange(self, host)

        monkeypatch.setattr(Password, "exchange", slowly)
        connect(broker, SASL, timeout=60)
        assert broker.asked_keys() == [API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA]


@pytest.fixture(scope="module")
def tls(certificates: Certificates) -> tuple[SSLContext, ClientConfig]:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    return context, ClientConfig(security_protocol="SSL", tls=Tls(ca=certificates.authority.read_text()))


class TestTls:
    @pytest.fixture
    def secured(self, broker: FakeBroker, tls: tuple[SSLContext, ClientConfig]) -> tuple[FakeBroker, ClientConfig]:
        broker.tls, config = tls
        return broker, config

    def test_large_messages_pass_in_both_directions(self, secured: tuple[FakeBroker, ClientConfig]) -> None:
        broker, config = secured
        broker.quotas = [([("user", f"{number}" + "x" * 1000)], [(KEY, 1.0)]) for number in range(2000)]
        connection = connect(broker, config)
        assert len(connection.send(DESCRIBE_ALL, timeout=60).found) == 2000
        many = [Alteration(Entity(user=f"{number}" + "x" * 1000), {KEY: 1.0}) for number in range(2000)]
        assert len(connection.send(AlterClientQuotas(many), timeout=60)) == 2000

    @pytest.mark.parametrize("end", [HANG_UP, RESET])
    def test_a_lost_connection_is_found_before_the_next_alter(
        self, secured: tuple[FakeBroker, ClientConfig], end: str
    ) -> None:
        broker, config = secured
        broker.spoil = lambda asked, frame: [frame, end] if asked.api_key == DESCRIBE else frame
        connection = connect(broker, config)
        assert connection.send(DESCRIBE_ALL, timeout=60).found == SEEN
        await_end(broker)
        assert len(connection.send(AlterClientQuotas(CHANGE), timeout=60)) == 1
        assert broker.connections == 2
