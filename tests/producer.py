"""Producers for tests of quotas: a connection to a secured sandbox, and one batch after the other on it.

The sockets block: kafka-python's own producer keeps the interpreter busy while a broker holds it back, so that several
in one process slow each other down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from time import monotonic, time
from typing import Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.codec import INT16, INT32, Reader, Writer
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse
from quotaform.model.secret import Secret
from quotaform.model.server import parse_server
from quotaform.sandbox import Sandbox
from quotaform.sandbox.security import USERS

TIMEOUT: Final = 60.0
"""Seconds for connecting, and for each request with the time that the broker holds it back."""


def mechanism_of(sandbox: Sandbox, user: str) -> str:
    """Return with which mechanism a known user authenticates."""
    return USERS[user].mechanisms[0] if sandbox.release.formats_scram else "PLAIN"


@contextmanager
def connected(sandbox: Sandbox, user: str, client_id: str) -> Iterator[BrokerConnection]:
    """A connection of a user of a secured sandbox with a client-id, which may be empty."""
    known = USERS[user]
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT",
        credentials=Password(
            mechanism=mechanism_of(sandbox, user), username=known.name, password=Secret(known.password)
        ),
    )
    connection = BrokerConnection(
        parse_server(sandbox.bootstrap_servers), config, ssl_context=None, software_version="0", closing=Event()
    )
    connection.client_id = client_id
    try:
        connection.open(monotonic() + TIMEOUT)
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced(BrokerResponse):
    """The answer to a Produce request."""

    error_code: int


@dataclass(frozen=True, slots=True)
class Produce(BrokerRequest[Produced]):
    """Append a batch of records to the first partition of a topic, and have the leader acknowledge it."""

    API_KEY = 0
    VERSIONS = range(8, 9)
    FLEXIBLE_FROM = 9

    topic: str
    batch: bytes

    def write(self, writer: Writer, version: int) -> None:
        def partition(index: int) -> None:
            writer.number(INT32, index)
            writer.bytes(self.batch)

        def topic(name: str) -> None:
            writer.string(name)
            writer.array([0], partition)

        writer.nullable_string(None)  # the transactional id
        writer.number(INT16, 1)  # acks
        writer.number(INT32, 10_000)  # the timeout in milliseconds
        writer.array([self.topic], topic)

    def read(self, reader: Reader, version: int) -> Produced:
        def record_error() -> None:
            reader.int32()
            reader.nullable_string()

        def partition() -> int:
            reader.int32()
            code = reader.int16()
            for _ in ("base offset", "time", "start of the log"):
                reader.int64()
            reader.array(record_error)
            reader.nullable_string()
            return code

        def topic() -> list[int]:
            reader.string()
            return reader.array(partition)

        [[code]] = reader.array(topic)
        return Produced(error_code=code, throttle_time_ms=reader.int32())


def make_batch(value: bytes) -> bytes:
    """One record as a batch."""
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
        sasl_mechanism=mechanism_of(sandbox, "admin"),
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
    answer = connection.exchange(Produce(topic, batch), monotonic() + TIMEOUT)
    assert answer.error_code == 0
    return answer.throttle_time_ms
