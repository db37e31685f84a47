"""Fuzzed: what comes from elsewhere over HTTP, comments on a pull request, and the event of a CI system."""

from __future__ import annotations

from atexit import register
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

from quotaform.http.api import Transport
from quotaform.http.client import Limits, Retry
from quotaform.http.message import Url
from quotaform.model.errors import HttpError, QuotaformError
from quotaform.model.text import Secret
from quotaform.report.comment import read_marker
from quotaform.review.comment import CommentMode, Draft, Posted, plan_comment
from quotaform.review.github import GitHub
from quotaform.review.gitlab import GitLab
from quotaform.review.run import Given, PullRequest, find_pull_request
from tests.fuzz.target import CANARY, Target
from tests.http_server import HttpServer, Received, answer
from tests.pull_request_server import event

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
_USER: Final = answer(200, {"login": "me", "id": 1})
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
    retry = Retry(sleep=lambda _: None, monotonic=lambda: 0.0, now=lambda: _NOW, attempts=2)
    transport = Transport(retry=retry, limits=Limits(connect=5.0, total=5.0))
    base, token = Url.parse(server.http.url), Secret(CANARY)
    for platform in (GitHub(base, "a/b", 7, token, transport), GitLab(base, "1", 7, token, transport)):
        for posted in platform.comments():
            assert isinstance(posted.body, str)


def _decide(document: bytes) -> None:
    """Read a comment, and decide what is done where it is there already."""
    body = document.decode("utf-8", "replace")
    marker = read_marker(body)
    if marker is None:
        raise QuotaformError("no marker")
    draft = Draft("plan.md", marker, body)
    posted = [Posted(id=1, body=body, author="a", is_own=True)]
    assert plan_comment(draft, posted, CommentMode.UPDATE).action == "keep"
    assert isinstance(draft.is_empty, bool)


@cache
def _folder() -> Path:
    folder = Path(mkdtemp(prefix="quotaform-fuzz-"))
    register(rmtree, folder, ignore_errors=True)
    return folder


def _find(document: bytes) -> None:
    """Find the pull request that an event names."""
    path = _folder() / "event.json"
    path.write_bytes(document)
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": str(path)}
    found = find_pull_request(Given(), environ)
    assert found is None or (isinstance(found, PullRequest) and found.number > 0)


def _events() -> Sequence[bytes]:
    return [event(7).encode(), b'{"issue": {"number": 8, "pull_request": {"url": "x"}}}', b'{"before": "0000"}']


def _bodies() -> Sequence[bytes]:
    heading = "### Kafka quota plan for `lab`: no changes"
    counted = _MARKER.replace("}", ',"changes":0}')
    return [f"{counted}\n{heading}\n".encode(), f"{_MARKER}\r\n{heading[:-10]}1 to add\r\n".encode()]


TARGETS: Final = (
    Target("http-answer", lambda: _LISTS, _ask, (HttpError,), refused=_REFUSALS),
    Target("comment", _bodies, _decide, (QuotaformError,)),
    Target("event", _events, _find, (QuotaformError,)),
)
