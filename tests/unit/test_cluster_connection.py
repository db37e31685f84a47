"""The connection against brokers that hang, cut, reset, delay and garble: what was sent is known, and time is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
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
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError
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
    def test_two_requests_are_needed_and_no_more(self, broker: FakeBroker) -> None:
        connection = connect(broker)
        assert broker.asked_keys() == [API_VERSIONS, METADATA]
        assert (connection.cluster_id, dict(connection.brokers)) == (
            "fake-cluster",
            {1: parse_servers(broker.address)[0]},
        )

    def test_the_broker_learns_who_is_asking(self, broker: FakeBroker) -> None:
        for config, expected in ((ClientConfig(), "quotaform/"), (ClientConfig(client_id="etl"), "etl")):
            broker.asked.clear()
            connect(broker, config)
            assert all(asked.client_id.startswith(expected) for asked in broker.asked)
            assert broker.asked[0].fields.client_software_name == "quotaform"

    @pytest.mark.parametrize("newest", [0, 1, 2])
    def test_a_broker_of_older_versions_is_asked_in_those(self, broker: FakeBroker, newest: int) -> None:
        """A broker that does not know the version of ApiVersions answers 35 in version 0, with what it knows."""
        broker.versions |= {API_VERSIONS: (0, newest), METADATA: (0, 5), DESCRIBE: (0, 0), ALTER: (0, 0)}
        connection = connect(broker)
        assert [(asked.api_key, asked.version) for asked in broker.asked] == [
            (API_VERSIONS, 3),
            (API_VERSIONS, newest),
            (METADATA, 5),
        ]
        assert connection.send(DESCRIBE_ALL, timeout=60).found == SEEN
        assert [code for _, code, _ in connection.send(AlterClientQuotas(CHANGE), timeout=60)] == [0]

    def test_a_broker_that_no_longer_knows_old_versions_is_asked_in_new_ones(self, broker: FakeBroker) -> None:
        broker.versions |= {METADATA: (10, 13), DESCRIBE: (1, 5)}
        connection = connect(broker)
        assert connection.send(DESCRIBE_ALL, timeout=60).found == SEEN
        assert [(asked.api_key, asked.version) for asked in broker.asked[1:]] == [(METADATA, 12), (DESCRIBE, 1)]

    @pytest.mark.parametrize(
        ("api_key", "words"),
        [
            (API_VERSIONS, "closed the connection at the first request"),
            (METADATA, "closed the connection instead of responding, as"),
        ],
    )
    @pytest.mark.parametrize("end", [HANG_UP, RESET])
    def test_an_answer_cut_anywhere_while_connecting_is_one_sentence(
        self, broker: FakeBroker, api_key: int, words: str, end: str
    ) -> None:
        size = [0]

        def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
            return [frame[: size[0]], end] if asked.api_key == api_key else frame

        broker.spoil = spoil
        for size[0] in range(30):
            with pytest.raises(ClusterError) as caught:
                connect(broker)
            assert str(caught.value).startswith(f"Cannot connect to lab: {broker.address} {words}")
            assert "\n" not in str(caught.value)
            assert "(it closed the connection)" not in str(caught.value)  # It said so twice.

    def test_slow_bytes_do_not_stretch_the_time(self, broker: FakeBroker) -> None:
        """Each byte came in time, and together they took for ever."""
        broker.spoil = lambda asked, frame: [step for byte in frame for step in (bytes([byte]), 0.05)]
        with promptly(), pytest.raises(ConnectError, match=r"did not answer within 0\.3 s"):
            connect(broker, timeout=0.3)

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

    @pytest.mark.parametrize(("api_key", "words"), [(API_VERSIONS, "Kafka protocol"), (METADATA, "more than the")])
    def test_an_answer_that_grows_for_ever_is_not_read(self, broker: FakeBroker, api_key: int, words: str) -> None:
        """Before it is known who a server is, it could fill 256 MB."""
        broker.spoil = at(api_key, pack(">ii", 20 << 20, 1), *[bytes(1 << 16)] * 400)
        with promptly(), pytest.raises(ConnectError, match=words):
            connect(broker)

    def test_a_broker_cannot_name_servers_that_one_could_not_write(self, broker: FakeBroker) -> None:
        """A server that nobody knows yet may name anything; names were shown in messages and connected to."""
        real = broker.address.rpartition(":")
        named = [
            (1, real[0], int(real[2]), None),
            (2, "evil\n::error::forged", 9092, None),
            (3, "esc\x1b[31m", 9092, None),
            (4, "b4", 0, None),
            (5, "b5", 70_000, None),
            (6, "b6", -1, None),
            (7, "", 9092, None),
            (8, "x" * 300, 9092, None),
            (9, "b9", 9092, None),
        ]
        broker._answer_3 = lambda asked: {  # type: ignore[method-assign]
            "brokers": named,
            "cluster_id": "fake-cluster",
            "controller_id": 1,
            "topics": [],
        }
        assert sorted(connect(broker).brokers) == [1, 9]

    def test_servers_that_are_named_no_more_are_forgotten(self, broker: FakeBroker) -> None:
        """Each reconnect added what Metadata named, so that a broker could make the list grow for ever."""
        real = broker.address.rpartition(":")
        count = [0]

        def metadata(asked: Asked) -> dict[str, Any]:
            count[0] += 1
            brokers = [(1, real[0], int(real[2]), None), (2, f"127.0.0.{count[0] + 1}", 1, None)]
            return {"brokers": brokers, "cluster_id": "fake-cluster", "controller_id": 1, "topics": []}

        broker._answer_3 = metadata  # type: ignore[method-assign]
        broker.spoil = lambda asked, frame: [frame, HANG_UP] if asked.api_key == DESCRIBE else frame
        connection = connect(broker)
        for _ in range(5):
            connection.send(DESCRIBE_ALL, timeout=60)
            await_end(broker, count[0])
        assert count[0] == 5
        assert [str(server) for server in connection._servers] == [broker.address, "127.0.0.6:1"]


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
    @pytest.mark.parametrize("end", [HANG_UP, RESET])
    def test_an_answer_cut_anywhere_leaves_the_outcome_of_an_alter_unknown(self, broker: FakeBroker, end: str) -> None:
        size, whole = [0], [1]

        def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
            whole[0] = len(frame)
            return [frame[: size[0]], end] if asked.api_key == ALTER else frame

        broker.spoil = spoil
        with open_gateway(broker) as gateway:
            gateway.alter(CHANGE)
            for size[0] in range(whole[0]):
                [row] = gateway.alter(CHANGE)
                assert row.outcome is Outcome.UNKNOWN
                assert "was lost before it responded" in row.message
                assert "The change may have been made" in row.message

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (lambda frame: frame[:4] + b"\x7f\0\0\0" + frame[8:], "it belongs to another request"),
            (lambda frame: frame[:-1] + b"\xff", "it is truncated"),
            (lambda frame: pack(">i", len(frame) - 3) + frame[4:] + b"x", "1 bytes follow its end"),
            (lambda frame: b"\0\0\0\0", "it has 0 bytes"),
        ],
    )
    def test_a_malformed_answer_is_told_and_never_trusted(
        self, broker: FakeBroker, spoil: Callable[[bytes], bytes], words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quotaform.cluster.kafka.sleep", lambda seconds: None)
        broker.spoil = lambda asked, frame: spoil(frame) if asked.api_key in (ALTER, DESCRIBE) else frame
        with open_gateway(broker) as gateway:
            [row] = gateway.alter(CHANGE)
            assert row.outcome is Outcome.UNKNOWN
            assert row.message.startswith(f"{broker.address} sent a response that cannot be read: {words}")
            with pytest.raises(ClusterError, match=f"^Cannot read the quotas of lab: .* {words}") as caught:
                gateway.describe()
            assert not isinstance(caught.value, UnansweredError)

    def test_a_broker_that_hangs_is_given_up_in_time(self, broker: FakeBroker) -> None:
        broker.spoil = at(DESCRIBE, HANG)
        connection = connect(broker)
        with promptly(), pytest.raises(UnansweredError, match=r" did not answer within 0 s\.$"):
            connection.send(DESCRIBE_ALL, timeout=0.4)
        assert connection.broker is None, "its answer may come yet, and must not be taken for another one"

    def test_a_silent_broker_is_given_up_for_the_next_one_long_before_the_time_is_over(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One read without an answer used up all the time that there was, while two brokers were well."""
        monkeypatch.setattr("quotaform.cluster.kafka.LONE_SILENCE", 1.0)
        broker.spoil = at(DESCRIBE, HANG)
        with serving(FakeBroker(quotas=QUOTAS)) as other:
            connection = ClusterConnection(
                parse_servers([broker.address, other.address]), ClientConfig(), name="lab", timeout=60
            )
            OPEN.append(connection)
            with promptly():
                assert KafkaGateway(connection, name="lab").describe(timeout=60) == SEEN
            connection.close()

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

    def test_an_idle_connection_that_the_broker_ended_is_replaced_before_an_alter(self, broker: FakeBroker) -> None:
        """After `connections.max.idle.ms` an alter must not be lost to a connection that is known to be dead."""
        broker.spoil = lambda asked, frame: [frame, HANG_UP] if asked.api_key == DESCRIBE else frame
        with open_gateway(broker) as gateway:
            gateway.describe()
            await_end(broker)
            assert [row.outcome for row in gateway.alter(CHANGE)] == [Outcome.OK]
        assert broker.connections == 2

    def test_what_comes_unasked_ends_the_connection(self, broker: FakeBroker) -> None:
        broker.spoil = lambda asked, frame: frame + frame if asked.api_key == DESCRIBE else frame
        with open_gateway(broker) as gateway:
            gateway.describe()
            sleep(0.05)
            assert [row.outcome for row in gateway.alter(CHANGE)] == [Outcome.OK]
        assert broker.connections == 2

    def test_nothing_goes_to_another_cluster_after_a_reconnect(self, broker: FakeBroker) -> None:
        broker.spoil = lambda asked, frame: [frame, HANG_UP] if asked.api_key == DESCRIBE else frame
        with open_gateway(broker) as gateway:
            gateway.describe()
            broker.cluster_id = "another"
            await_end(broker)
            with pytest.raises(ConnectError, match="is cluster another, not fake-cluster;"):
                gateway.alter(CHANGE)
        assert ALTER not in broker.asked_keys()


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

    def test_a_throttle_is_waited_for_as_long_as_a_request_may_take_and_no_longer(self, broker: FakeBroker) -> None:
        """It was waited for without end."""
        broker.throttle_time_ms = 3_600_000
        with open_gateway(broker, request_timeout=30) as gateway:
            gateway.describe()
            with promptly(), pytest.raises(ClusterError, match=r"throttles this client .* nothing was sent"):
                gateway.describe(timeout=30)
            with promptly(), pytest.raises(ClusterError, match="nothing was sent"):
                gateway.alter(CHANGE)
        assert ALTER not in broker.asked_keys()


class TestAuthentication:
    def test_a_session_is_renewed_before_it_is_over(self, broker: FakeBroker, clock: PatientClock) -> None:
        """KIP-368: a broker ends the connection at the first request after the lifetime that it told."""
        broker.session_lifetime_ms = 300_000
        connection = connect(broker, SASL)
        first = [API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA]
        assert broker.asked_keys() == first
        connection.send(DESCRIBE_ALL, timeout=60)
        assert broker.asked_keys() == [*first, DESCRIBE]
        clock.advance(260)
        connection.send(DESCRIBE_ALL, timeout=60)
        assert broker.asked_keys() == [*first, DESCRIBE, HANDSHAKE, AUTHENTICATE, DESCRIBE]
        assert broker.connections == 1

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

    @pytest.mark.parametrize("end", [HANG_UP, RESET])
    def test_a_renewal_that_is_cut_short_is_a_new_connection(self, broker: FakeBroker, end: str) -> None:
        broker.session_lifetime_ms = 1
        connection = connect(broker, SASL)
        sleep(0.01)
        broker.spoil = at(HANDSHAKE, end, times=1)
        assert connection.send(DESCRIBE_ALL, timeout=60).found == SEEN
        assert broker.connections == 2

    def test_a_renewal_that_is_refused_is_told_and_not_repeated(self, broker: FakeBroker) -> None:
        """Repeating wrong credentials locks accounts."""
        broker.session_lifetime_ms = 1
        connection = connect(broker, SASL)
        sleep(0.01)
        broker._answer_36 = lambda asked: {"error_code": 58, "error_message": None, "auth_bytes": b""}  # type: ignore[method-assign]
        with pytest.raises(AuthenticationError, match=r"did not accept user alice \(PLAIN\); check user name"):
            connection.send(AlterClientQuotas(CHANGE), timeout=60)
        assert (broker.asked_keys().count(AUTHENTICATE), broker.connections) == (2, 1)
        assert ALTER not in broker.asked_keys()

    def test_wrong_credentials_go_to_one_server_alone(self, broker: FakeBroker) -> None:
        with serving(FakeBroker()) as other:
            wrong = ClientConfig(
                security_protocol="SASL_PLAINTEXT",
                credentials=Password(mechanism="PLAIN", username="alice", password=Secret("wrong-secret")),
            )
            with pytest.raises(AuthenticationError, match=r"did not accept user alice \(PLAIN\)") as caught:
                KafkaGateway.connect([broker.address, other.address], wrong, name="lab")
            assert "secret" not in str(caught.value)
            assert (broker.asked_keys().count(AUTHENTICATE), other.connections) == (1, 0)

    def test_a_broker_that_says_why_and_hangs_up_at_once_is_heard(self, broker: FakeBroker) -> None:
        """The bytes that came with the end of the stream, which are the error message, were dropped."""
        broker._answer_17 = lambda asked: {"error_code": 33, "mechanisms": []}  # type: ignore[method-assign]
        broker.spoil = lambda asked, frame: [frame, HANG_UP] if asked.api_key == HANDSHAKE else frame
        with pytest.raises(AuthenticationError, match="does not offer the SASL mechanism PLAIN"):
            connect(broker, SASL)

    @pytest.mark.parametrize(
        "token",
        [
            b"",
            b"\xff\xfe",
            b"r=x,s=!!!,i=4096",
            b"e=other-error",
            b"i=",
            b"r=x,s=QUJD,i=2147483647",
            b"r=x,s=QUJD,i=" + b"9" * 5000,
            b"i=0000099999999",
        ],
    )
    def test_what_a_server_says_before_it_proved_anything_is_read_with_care(
        self, broker: FakeBroker, token: bytes
    ) -> None:
        """A server could ask for 2,147,483,647 rounds of hashing, which nothing interrupts."""
        scram = replace(SASL, credentials=Password(mechanism="SCRAM-SHA-512", username="alice", password=Secret("x")))
        broker._answer_17 = lambda asked: {"error_code": 0, "mechanisms": []}  # type: ignore[method-assign]
        broker._answer_36 = lambda asked: {"error_code": 0, "error_message": None, "auth_bytes": token}  # type: ignore[method-assign]
        with promptly(), pytest.raises(ClusterError, match=r"did not prove its identity|SCRAM iterations"):
            connect(broker, scram)

    @pytest.mark.parametrize("api_key", [HANDSHAKE, AUTHENTICATE])
    def test_an_answer_cut_anywhere_while_authenticating_is_one_sentence(
        self, broker: FakeBroker, api_key: int
    ) -> None:
        size = [0]
        broker.spoil = lambda asked, frame: [frame[: size[0]], HANG_UP] if asked.api_key == api_key else frame
        for size[0] in range(12):
            with pytest.raises(AuthenticationError, match=r"closed the connection while user alice \(PLAIN\) was auth"):
                connect(broker, SASL)


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
