"""Clients in kafka-python's codec, for what tests ask a broker and quotaform never does, and for a known rate of it.

The sockets block: kafka-python's own producer keeps the interpreter busy while a broker holds it back, so that several
in one process slow each other down.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from time import monotonic, sleep, time
from typing import Any, Final, NamedTuple

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.message import ApiVersions, BrokerRequest, ResponseReader, ResponseT, Writer
from quotaform.model.server import parse_server
from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import USERS
from tests.broker import client_settings

TIMEOUT: Final = 60.0
"""Seconds for connecting, and for each request with the time that the broker holds it back."""


class KafkaPythonRequest(BrokerRequest[Any]):
    """A request of kafka-python, whose answer is the one that kafka-python makes of it."""

    MAX_RESPONSE = 64 << 20
    IS_THROTTLED = False

    def __init__(self, request: Any, answer: Any, version: int | None = None) -> None:
        """Wrap a request and the class of its answer, in one version or in all that both sides speak."""
        self._request = request
        self._answer = answer
        self.API_KEY = request.API_KEY  # type: ignore[misc]
        self.VERSIONS = range(request.max_version + 1) if version is None else range(version, version + 1)  # type: ignore[misc]
        self.FLEXIBLE_FROM = next(v for v in range(100) if v > request.max_version or request.flexible_version_q(v))  # type: ignore[misc]

    def _write(self, writer: Writer, version: int) -> None:
        encoded = bytes(self._request.encode(version=version))
        # The tagged fields at the end are written by both.
        writer.data += encoded[: len(encoded) - writer.is_flexible]

    def _read(self, reader: ResponseReader, version: int) -> Any:
        rest, reader.position = reader.data[reader.position :], len(reader.data) - reader.is_flexible
        return self._answer.decode(rest, version=version)

    def decode(self, answer: bytes, version: int) -> tuple[Any, int]:
        found, _ = super().decode(answer, version)
        return found, getattr(found, "throttle_time_ms", 0)


@contextmanager
def connected(sandbox: Sandbox, user: str, client_id: str) -> Iterator[BrokerConnection]:
    """A connection of a user of a secured sandbox with a client-id, which may be empty."""
    config = from_properties(client_settings(sandbox, "SASL_PLAINTEXT", user=user), environ={})
    connection = BrokerConnection(parse_server(sandbox.bootstrap_servers), config, ssl_context=None, closing=Event())
    connection.client_id = client_id
    try:
        connection.open(monotonic() + TIMEOUT)
        yield connection
    finally:
        connection.close()


def produce_request(topic: str, batch: bytes) -> KafkaPythonRequest:
    """Append a batch of records to the first partition of a topic, and have the leader acknowledge it."""
    from kafka.protocol.producer import ProduceRequest, ProduceResponse

    data = [(topic, [(0, batch)])]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=10_000, topic_data=data)
    return KafkaPythonRequest(request, ProduceResponse, version=8)


def make_batch(value: bytes) -> bytes:
    from kafka.record.memory_records import MemoryRecordsBuilder

    records = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2 * len(value))
    records.append(timestamp=int(time() * 1000), key=None, value=value, headers=[])
    records.close()
    return bytes(records.buffer())


def open_topic(sandbox: Sandbox, topic: str) -> None:
    """Create a topic of a secured broker to which everybody may write."""
    from kafka import KafkaAdminClient
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, NewTopic, ResourcePattern, ResourceType

    known = USERS["admin"]
    client = KafkaAdminClient(
        bootstrap_servers=sandbox.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=client_settings(sandbox, "SASL_PLAINTEXT")["sasl.mechanism"],
        sasl_plain_username=known.name,
        sasl_plain_password=known.password,
    )
    try:
        client.create_topics([NewTopic(topic, 1, 1)])
        everybody = ResourcePattern(ResourceType.TOPIC, topic)
        client.create_acls([ACL("User:*", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, everybody)])
    finally:
        client.close()


def send(connection: BrokerConnection, topic: str, batch: bytes) -> int:
    """Produce a batch, and return for how many milliseconds the broker asks to wait."""
    answer = connection.exchange(produce_request(topic, batch), monotonic() + TIMEOUT)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return connection.throttle_ms


OVERHEAD: Final = 100
"""Bytes of a request to produce besides its batch, about."""
QUOTA_EXCEEDED: Final = 89


class Span(NamedTuple):
    """A time in which a request waits, in seconds of `monotonic`."""

    begin: float
    end: float


def covered(spans: Iterable[Span]) -> float:
    """Return how many seconds some requests wait.

    >>> covered([Span(0.0, 2.0), Span(5.0, 6.0), Span(1.0, 3.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def ask(connection: BrokerConnection, request: BrokerRequest[ResponseT], spans: list[Span]) -> ResponseT:
    """Send a request, and note for how long the broker asks to wait."""
    answer = connection.exchange(request, monotonic() + TIMEOUT)
    if connection.throttle_ms > 0:
        now = monotonic()
        spans.append(Span(now, now + connection.throttle_ms / 1000))
    return answer


def due(seconds: float, rate: float) -> Iterator[None]:
    """Yield when each of the things is due of which there are so many per second."""
    begin = monotonic()
    for number in range(int(seconds * rate)):
        sleep(max(0.0, begin + number / rate - monotonic()))
        yield


def produce(
    sandbox: Sandbox, user: str, client_id: str, topic: str, batch: bytes, seconds: float, rate: float
) -> float:
    """Produce bytes per second, and return for how many seconds the broker lets requests wait."""
    spans: list[Span] = []
    with connected(sandbox, user, client_id) as connection:
        for _ in due(seconds, rate / (len(batch) + OVERHEAD)):
            answer = ask(connection, produce_request(topic, batch), spans)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return covered(spans)


def fetch_request(topic: str, offset: int) -> KafkaPythonRequest:
    """Read from the first partition of a topic as much at once as consumers do by default."""
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[(topic, [(0, -1, offset, -1, 1 << 20)])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return KafkaPythonRequest(request, FetchResponse, version=11)


def _offset_after(batches: bytes, offset: int) -> int:
    """Return the offset after the last batch that is there as a whole."""
    at = 0
    while at + 61 <= len(batches):
        reader = ResponseReader(batches, at)
        first, size = reader.int64(), reader.int32()
        if at + 12 + size > len(batches):
            break
        reader.position = at + 23
        offset, at = first + reader.int32() + 1, at + 12 + size
    return offset


def consume(sandbox: Sandbox, user: str, client_id: str, topic: str, is_over: Event, offset: int) -> tuple[float, int]:
    """Consume from an offset until nothing else comes and all is read.

    Returns for how many seconds the broker lets requests wait, and the offset after what was read.
    """
    spans: list[Span] = []
    with connected(sandbox, user, client_id) as connection:
        while True:
            is_last = is_over.is_set()
            answer = ask(connection, fetch_request(topic, offset), spans)
            assert answer.error_code == 0
            # A broker reads nothing for a client that is to wait.
            for partition in (each for found in answer.responses for each in found.partitions):
                assert partition.error_code == 0
                offset = _offset_after(partition.records or b"", offset)
                if is_last and offset == partition.high_watermark:
                    return covered(spans), offset


def create_topic(name: str, partitions: int) -> KafkaPythonRequest:
    """Ask whether a topic with some partitions could be created, which counts as if it was."""
    from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

    request = CreateTopicsRequest(topics=[(name, partitions, 1, [], [])], timeout_ms=30_000, validate_only=True)
    return KafkaPythonRequest(request, CreateTopicsResponse, version=6)


def mutate(sandbox: Sandbox, user: str, client_id: str, seconds: float, rate: float) -> float:
    """Ask for so many partitions per second, each again as long as the broker refuses it."""
    spans: list[Span] = []
    with connected(sandbox, user, client_id) as connection:
        for _ in due(seconds, rate):
            while ask(connection, create_topic("mutated", 1), spans).topics[0].error_code == QUOTA_EXCEEDED:
                # A broker may refuse and ask for no wait at all.
                sleep(max(0.01, spans[-1].end - monotonic()) if spans else 0.01)
    return covered(spans)


def connect(sandbox: Sandbox, ip: str, seconds: float, rate: float) -> float:
    """Open so many connections per second from an address, each again as long as the broker closes it."""
    host, _, port = sandbox.bootstrap_servers.rpartition(":")
    with ThreadPoolExecutor(int(seconds * rate)) as pool:
        opened = [pool.submit(_open, ip, host, int(port)) for _ in due(seconds, rate)]
        return covered(span for each in opened if (span := each.result()) is not None)


def _open(ip: str, host: str, port: int) -> Span | None:
    """Return how long it took until a connection was answered, if it was refused before."""
    begin = monotonic()
    is_refused = False
    while not _is_answered(ip, host, port):
        is_refused = True
        sleep(0.1)
    return Span(begin, monotonic()) if is_refused else None


def _is_answered(ip: str, host: str, port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(TIMEOUT)
        client.bind((ip, 0))
        try:
            client.connect((host, port))
            client.sendall(ApiVersions("0").encode(3, correlation_id=1, client_id="connect"))
            return bool(client.recv(4))
        except ConnectionError:
            return False
