"""Fuzzed: answers of a broker, for each reader of one in each version, and for a whole connection."""

from __future__ import annotations

from collections.abc import Sequence
from socket import SHUT_WR, socketpair
from threading import Event
from time import monotonic
from typing import Any, Final

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password, scram
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.client_quotas import AlterClientQuotas, DescribeClientQuotas
from quotaform.cluster.wire.connect_error import connect_error
from quotaform.cluster.wire.failure import (
    CodeError,
    Failure,
    LostError,
    NotKafkaError,
    TooOldError,
    UnprovenError,
    unanswered,
)
from quotaform.cluster.wire.message import (
    ApiVersions,
    BrokerRequest,
    MalformedError,
    Metadata,
    SaslAuthenticate,
    SaslHandshake,
)
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError
from quotaform.model.filter import EVERYTHING
from quotaform.model.server import Server
from quotaform.model.text import Secret
from tests.fake_broker import FakeBroker, decode
from tests.fuzz.target import CANARY, Target

_CHANGE: Final = [Alteration(Entity(user="a"), {"producer_byte_rate": 1.0})]
_QUOTAS: Final[Sequence[tuple[list[tuple[str, str | None]], list[tuple[str, float]]]]] = (
    ([("user", "alice"), ("client-id", None)], [("producer_byte_rate", 1.0), ("request_percentage", 0.5)]),
    ([("ip", "10.0.0.1")], [("connection_creation_rate", 7.0)]),
    ([("user", "Å" * 100)], [("consumer_byte_rate", 2.0)]),
)
_REQUESTS: Final[tuple[BrokerRequest[Any], ...]] = (
    ApiVersions("1"), Metadata(), SaslHandshake("PLAIN"), SaslAuthenticate(b"\0alice\0alice-secret"),
    DescribeClientQuotas(EVERYTHING), AlterClientQuotas(_CHANGE),
)  # fmt: skip
_READERS: Final = tuple((request, version) for request in _REQUESTS for version in request.VERSIONS)


def _answers() -> Sequence[bytes]:
    """Return a right answer for each reader; its number is the first byte."""
    broker = FakeBroker(quotas=_QUOTAS, address="127.0.0.1:9092")
    found = []
    for number, (request, version) in enumerate(_READERS):
        asked = decode(request.encode(version, correlation_id=1, client_id="fuzz")[4:])
        found.append(bytes([number]) + broker.answer(asked)[4:])
    return found


def _read_answer(document: bytes) -> None:
    request, version = _READERS[document[0] % len(_READERS)] if document else _READERS[0]
    request.decode(document[1:], version)


def _conversations() -> Sequence[bytes]:
    """Return the frames of a connection, a describe and an alter, without a login and with one."""
    broker = FakeBroker(quotas=_QUOTAS, address="127.0.0.1:1")
    versions, metadata, handshake, authenticate, describe, alter = _REQUESTS
    found = []
    for number, login in enumerate(((), (handshake, authenticate))):
        frames = [
            broker.answer(decode(request.encode(request.VERSIONS[-1], correlation_id=place, client_id="f")[4:]))
            for place, request in enumerate((versions, *login, metadata, describe, alter), 1)
        ]
        found.append(bytes([number]) + b"".join(frames))
    return found


def _converse(document: bytes) -> None:
    """Connect to a broker that has sent all of its answers already, and hung up."""
    has_login = bool(document) and document[0] % 2 == 1
    config = _LOGIN_CONFIG if has_login else ClientConfig()
    ours, theirs = socketpair()
    connection = BrokerConnection(_SERVER, config, ssl_context=None, closing=Event())
    stream: Any = connection.stream
    stream._socket, stream.connect = ours, lambda server, deadline: None
    with ours, theirs:
        theirs.sendall(document[1:_LONGEST])
        theirs.shutdown(SHUT_WR)
        deadline = monotonic() + 2
        try:
            metadata = connection.open(deadline)
        except _CAUSES as error:
            failure = Failure(server=str(_SERVER), stage=connection.stage, cause=error, seconds=2.0)
            raise connect_error("lab", _LOGIN_CONFIG, [failure]) from error
        assert all(isinstance(server, Server) for server in metadata.brokers.values())
        try:
            described = connection.exchange(DescribeClientQuotas(EVERYTHING), deadline)
            assert all(isinstance(entity, Entity) for entity in described.quotas)
            connection.exchange(AlterClientQuotas(_CHANGE), deadline)
        except _CAUSES as error:
            raise unanswered(str(_SERVER), error, 2.0) from error


_LONGEST: Final = 60_000
"""What a socket takes without anybody reading from it."""
_SERVER: Final = Server("b1", 9092)
_LOGIN_CONFIG: Final = ClientConfig(
    security_protocol="SASL_PLAINTEXT",
    credentials=Password(mechanism="PLAIN", username="alice", password=Secret(CANARY)),
)
_CAUSES: Final = (
    MalformedError, NotKafkaError, LostError, CodeError, TooOldError, UnprovenError, OSError,
)  # fmt: skip


def _scram(document: bytes) -> None:
    """Answer a SCRAM login with the lines of a document; NONCE in them is the client's own."""
    steps = scram("SCRAM-SHA-256", "alice", Secret(CANARY), nonce="NONCE")
    next(steps)
    try:
        for line in document.split(b"\n")[:3]:
            steps.send(line)
    except StopIteration:
        raise AssertionError("a server that does not know the password was believed") from None
    except (ValueError, KeyError, MalformedError, UnprovenError):
        return


TARGETS: Final = (
    Target("answer", _answers, _read_answer, (MalformedError,)),
    Target("connection", _conversations, _converse, (ClusterError,)),
    Target("scram", lambda: [b"r=NONCEabc,s=QSXCR+Q6sek8bf92,i=4096\nv=rmF9pqV8S7suAoZWja4dJRkFsKQ="], _scram, ()),
)
