"""Fuzzed: answers of a broker and a whole connection to one, of GitHub and GitLab, and the event of a CI system."""

from __future__ import annotations

from atexit import register
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from socket import SHUT_WR, socketpair
from threading import Event
from time import monotonic
from types import SimpleNamespace
from typing import Any, Final

from quotaform.cluster.broker import AlterClientQuotas, DescribeClientQuotas
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.sasl.password import Password, scram
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.failure import (
    AttemptError,
    Failure,
    connect_error,
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
from quotaform.http.client import Transport, Url
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError, HttpError, QuotaformError
from quotaform.model.filter import EVERYTHING
from quotaform.model.server import Server
from quotaform.model.text import Secret
from quotaform.report.comment import read_marker
from quotaform.review.comment import CommentMode, DesiredComment, Posted, plan_comment
from quotaform.review.run import PLATFORMS, Comments, PullRequest, find_pull_request
from tests.fake_broker import FakeBroker, decode
from tests.fuzz.target import CANARY, Target, scratch
from tests.http_server import HttpServer, Received, answer

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
    opened: Any = connection
    opened._socket, opened._connect = ours, lambda deadline: None
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
            assert all(isinstance(entity, Entity) for entity in described.found)
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
_CAUSES: Final = (MalformedError, AttemptError, OSError)


def _scram(document: bytes) -> None:
    """Answer a SCRAM login with the lines of a document; NONCE in them is the client's own."""
    steps = scram("SCRAM-SHA-256", "alice", Secret(CANARY), nonce="NONCE")
    next(steps)
    try:
        for line in document.split(b"\n")[:3]:
            steps.send(line)
    except StopIteration:
        raise AssertionError("a server that does not know the password was believed") from None
    except (ValueError, KeyError, MalformedError):
        return


_NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)
_MARKER: Final = '<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->'
_COMMENTS: Final = [
    {
        "id": 1,
        "body": _MARKER,
        "user": {"login": "me", "type": "User"},
        "html_url": "https://a/1",
        "author": {"id": 1, "username": "me"},
    },
    {"id": 2, "body": None, "user": None, "system": True, "author": {"id": 2, "username": "b"}},
]
_USER: Final = answer(200, {"login": "me", "username": "me", "id": 1})
_LISTS: Final = (
    answer(200, _COMMENTS),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
)
_REFUSALS: Final = (
    answer(200, _COMMENTS, Link='<http://localhost/2>; rel="next", <http://localhost/9>; rel="last"'),
    answer(403, {"message": f"rate limit of {CANARY}"}, Retry_After="7", X_RateLimit_Remaining="0"),
    answer(429, {"error": "no"}, RateLimit_Reset="1795352400", Retry_After="Sun, 22 Nov 2026 12:00:30 GMT"),
    answer(302, b"", Location="https://elsewhere.example/path?a=b"),
    answer(422, {"message": f"Bad {CANARY}"}),
)


class _Server:
    """One server for all documents: it knows the user, and each document is its answer to all other requests."""

    def __init__(self) -> None:
        self.document = b""
        self.http = HttpServer(self._reply)
        self.http.__enter__()
        register(self.http.__exit__, None, None, None)

    def _reply(self, request: Received) -> bytes:
        self.http.received.clear()
        return _USER if request.target == "/user" else self.document


@cache
def _server() -> _Server:
    return _Server()


def _ask(document: bytes) -> None:
    """List the comments of both platforms, of a server that answers with the document."""
    server = _server()
    server.document = document
    clock: Any = SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0.0, now=lambda: _NOW)
    transport = Transport(connect=5.0, total=5.0, attempts=2, clock=clock)
    base, token = Url.parse(server.http.url), Secret(CANARY)
    for platform in PLATFORMS.values():
        pull_request = PullRequest(platform=platform, api=base, repository="a/b", number=7)
        for posted in Comments(pull_request, token, transport).comments():
            assert isinstance(posted.body, str)


def _decide(document: bytes) -> None:
    """Read a comment, and decide what is done where it is there already."""
    body = document.decode("utf-8", "replace")
    marker = read_marker(body)
    if marker is None:
        raise QuotaformError("no marker")
    draft = DesiredComment("plan.md", marker, body)
    posted = [Posted(id=1, body=body, author="a", is_own=True)]
    assert plan_comment(draft, posted, CommentMode.UPDATE).action == "keep"


def _find(document: bytes) -> None:
    path = scratch() / "event.json"
    path.write_bytes(document)
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(path)}
    found = find_pull_request(environ)
    assert found is None or (isinstance(found, PullRequest) and found.number > 0)


TARGETS: Final = (
    Target("answer", _read_answer, (MalformedError,), _answers),
    Target("connection", _converse, (ClusterError,), _conversations),
    Target("scram", _scram, ()),
    Target("http-answer", _ask, (HttpError,), lambda: _LISTS, refused=_REFUSALS),
    Target("comment", _decide, (QuotaformError,)),
    Target("event", _find, (QuotaformError,)),
)
