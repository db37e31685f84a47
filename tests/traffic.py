"""Clients that ask for a known rate whatever the broker says, and for how long it lets them wait.

They use blocking sockets for the reason that `tests.producer` has.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from time import monotonic, sleep
from typing import Final, NamedTuple

from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.codec import INT8, INT16, INT32, INT64, Reader, Writer
from quotaform.cluster.wire.message import ApiVersions, BrokerRequest, BrokerResponse, ResponseT
from quotaform.sandbox import Sandbox
from tests.producer import TIMEOUT, Produce, connected

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
    if answer.throttle_time_ms > 0:
        now = monotonic()
        spans.append(Span(now, now + answer.throttle_time_ms / 1000))
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
            assert ask(connection, Produce(topic, batch), spans).error_code == 0
    return covered(spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched(BrokerResponse):
    """The answer to a Fetch request.

    Attributes:
        error_code: 0, or why nothing was read.
        end: The offset after the last record that can be read; `None` if the broker reads nothing for the client now.
        next_offset: The offset after the last record that was read.
    """

    error_code: int
    end: int | None
    next_offset: int


@dataclass(frozen=True, slots=True)
class Fetch(BrokerRequest[Fetched]):
    """Read from the first partition of a topic as much at once as consumers do by default."""

    API_KEY = 1
    VERSIONS = range(11, 12)
    FLEXIBLE_FROM = 12
    MAX_RESPONSE = 64 << 20

    topic: str
    offset: int

    def write(self, writer: Writer, version: int) -> None:
        def partition(index: int) -> None:
            writer.number(INT32, index)
            writer.number(INT32, -1)  # the epoch of the leader
            writer.number(INT64, self.offset)
            writer.number(INT64, -1)  # the start of a follower's log
            writer.number(INT32, 1 << 20)

        def topic(name: str) -> None:
            writer.string(name)
            writer.array([0], partition)

        writer.number(INT32, -1)  # a consumer
        writer.number(INT32, 500)  # the longest wait in milliseconds
        writer.number(INT32, 1)  # the fewest bytes
        writer.number(INT32, 50 << 20)  # the most bytes
        writer.number(INT8, 0)  # the isolation level
        writer.number(INT32, 0)  # the session: a whole one for each request
        writer.number(INT32, -1)
        writer.array([self.topic], topic)
        writer.array([], topic)  # forgotten topics
        writer.string("")  # the rack

    def read(self, reader: Reader, version: int) -> Fetched:
        def aborted() -> None:
            reader.int64()
            reader.int64()

        def partition() -> tuple[int, int, bytes]:
            reader.int32()
            code, end = reader.int16(), reader.int64()
            reader.int64()
            reader.int64()
            reader.array(aborted)
            reader.int32()
            return code, end, reader.nullable_bytes() or b""

        def topic() -> list[tuple[int, int, bytes]]:
            reader.string()
            return reader.array(partition)

        throttle, error_code = reader.int32(), reader.int16()
        reader.int32()
        topics = reader.array(topic)
        if error_code or not topics:
            return Fetched(throttle_time_ms=throttle, error_code=error_code, end=None, next_offset=self.offset)
        [[(code, end, batches)]] = topics
        return Fetched(
            throttle_time_ms=throttle,
            error_code=code,
            end=end,
            next_offset=_offset_after(batches, self.offset),
        )


def _offset_after(batches: bytes, offset: int) -> int:
    """Return the offset after the last batch that is there as a whole."""
    at = 0
    while at + 61 <= len(batches):
        reader = Reader(batches, at)
        first, size = reader.int64(), reader.int32()
        if at + 12 + size > len(batches):
            break
        reader.position = at + 23
        offset, at = first + reader.int32() + 1, at + 12 + size
    return offset


def consume(sandbox: Sandbox, user: str, client_id: str, topic: str, is_over: Event, offset: int) -> tuple[float, int]:
    """Consume until it is over and all is read.

    Args:
        sandbox: Where.
        user: Who.
        client_id: Which client.
        topic: What.
        is_over: Whether nothing else comes.
        offset: Where to begin.

    Returns:
        For how many seconds the broker lets requests wait, and the offset after what was read.
    """
    spans: list[Span] = []
    with connected(sandbox, user, client_id) as connection:
        while True:
            is_last = is_over.is_set()
            answer = ask(connection, Fetch(topic, offset), spans)
            assert answer.error_code == 0
            offset = answer.next_offset
            if is_last and offset == answer.end:
                return covered(spans), offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Created(BrokerResponse):
    """The answer to a CreateTopics request."""

    error_code: int


@dataclass(frozen=True, slots=True)
class CreateTopic(BrokerRequest[Created]):
    """Ask whether a topic with some partitions could be created, which counts as if it was."""

    API_KEY = 19
    VERSIONS = range(6, 7)
    FLEXIBLE_FROM = 5

    name: str
    partitions: int

    def write(self, writer: Writer, version: int) -> None:
        def topic(name: str) -> None:
            writer.string(name)
            writer.number(INT32, self.partitions)
            writer.number(INT16, 1)  # replicas
            writer.array([], writer.string)  # assignments
            writer.array([], writer.string)  # settings
            writer.tags()

        writer.array([self.name], topic)
        writer.number(INT32, 30_000)  # the timeout in milliseconds
        writer.boolean(True)
        writer.tags()

    def read(self, reader: Reader, version: int) -> Created:
        def setting() -> None:
            reader.string()
            reader.nullable_string()
            reader.int8()
            reader.int8()
            reader.int8()
            reader.tags()

        def topic() -> int:
            reader.string()
            code = reader.int16()
            reader.nullable_string()
            reader.int32()
            reader.int16()
            reader.array(setting)
            reader.tags()
            return code

        throttle = reader.int32()
        [code] = reader.array(topic)
        reader.tags()
        return Created(throttle_time_ms=throttle, error_code=code)


def mutate(sandbox: Sandbox, user: str, client_id: str, seconds: float, rate: float) -> float:
    """Ask for so many partitions per second, each again as long as the broker refuses it."""
    spans: list[Span] = []
    with connected(sandbox, user, client_id) as connection:
        for _ in due(seconds, rate):
            while ask(connection, CreateTopic("mutated", 1), spans).error_code == QUOTA_EXCEEDED:
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
