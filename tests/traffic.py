"""Clients that ask for a known rate whatever the broker says, and for how long it lets them wait.

They use blocking sockets for the reason that `tests.producer` has.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic, sleep
from typing import Final, NamedTuple

from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.message import (
    ApiVersions,
    BrokerRequest,
    Reader,
    ResponseT,
)
from quotaform.sandbox import Sandbox
from tests.kafka_python_request import KafkaPythonRequest
from tests.producer import TIMEOUT, connected, produce_request

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
        reader = Reader(batches, at)
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
