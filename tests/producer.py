"""Producers for tests of quotas: a connection to a secured sandbox, and one batch after the other on it.

The sockets block: kafka-python's own producer keeps the interpreter busy while a broker holds it back, so that several
in one process slow each other down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic, time
from typing import Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.model.server import parse_server
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from quotaform.sandbox.security import USERS
from tests.kafka_python_request import KafkaPythonRequest

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
    answer = connection.exchange(produce_request(topic, batch), monotonic() + TIMEOUT)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)
