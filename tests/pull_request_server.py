"""The REST APIs of GitHub and GitLab, as far as comments on a pull request go, on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from re import fullmatch
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.http_server import HttpServer, Received, answer

TOKEN = "c4nary-T0ken"
NEWEST = "5" * 40
"""The newest commit of the pull request."""


@dataclass
class FakeGitHub:
    """A repository `acme/quotas` with pull request 7."""

    comments: list[dict[str, Any]] = field(default_factory=list)  # what was written, the oldest first
    login: str = "quota-bot"  # who the token belongs to
    token_kind: str = "personal"  # `personal`, `job` (no `/user`, GraphQL answers) or `bare` (neither answers)
    # Answers to give instead of the right one, the first to the first request and so on; `None` for the right one
    trouble: list[bytes | Iterable[bytes] | None] = field(default_factory=list)
    root: str = ""  # the path of the API; GitHub Enterprise Server has `/api/v3`
    writes: list[tuple[str, str]] = field(default_factory=list)
    after_write: Callable[[], bytes] | None = None

    def add(self, body: str, login: str | None = None, kind: str = "User") -> None:
        """Write a comment as somebody."""
        number = 100 + len(self.comments)
        self.comments.append(
            {
                "id": number,
                "body": body,
                "user": {"login": login or self.login, "type": kind},
                "html_url": f"https://github.example/acme/quotas/pull/7#issuecomment-{number}",
            }
        )

    def reply(self, request: Received) -> bytes | Iterable[bytes]:
        """Answer a request as GitHub does."""
        if self.trouble:
            trouble = self.trouble.pop(0)
            if trouble is not None:
                return trouble
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return answer(401, {"message": f"Bad credentials {request.headers.get('authorization')}"})
        path = urlsplit(request.target)
        if path.path == f"{self.root.removesuffix('/v3')}/graphql" and request.method == "POST":
            if self.token_kind != "job":
                return answer(403, {"message": "no"})
            return answer(200, {"data": {"viewer": {"login": self.login}}})
        if not path.path.startswith(f"{self.root}/"):
            return answer(404, {"message": "Not Found"})
        return self._rest(request, path.path.removeprefix(self.root), parse_qs(path.query))

    def _rest(self, request: Received, path: str, query: dict[str, list[str]]) -> bytes:
        if path == "/user":
            if self.token_kind != "personal":
                return answer(403, {"message": "Resource not accessible by integration"})
            return answer(200, {"login": self.login, "id": 1})
        if path == "/repos/acme/quotas/pulls/7":
            return answer(200, {"number": 7, "head": {"sha": NEWEST}})
        if path == "/repos/acme/quotas/issues/7/comments":
            if request.method == "POST":
                return self._write("create", request)
            return self._page(request, query)
        found = fullmatch(r"/repos/acme/quotas/issues/comments/(\d+)", path)
        if found and request.method == "PATCH":
            return self._write(found[1], request)
        return answer(404, {"message": "Not Found"})

    def _write(self, what: str, request: Received) -> bytes:
        body = request.json()["body"]
        if len(body) > 65_536:
            return answer(422, {"message": "Body is too long (maximum is 65536 characters)"})
        self.writes.append((what, body))
        kind = "Bot" if self.token_kind != "personal" else "User"
        if what == "create":
            self.add(body, kind=kind)
            written = self.comments[-1]
        else:
            (written,) = (each for each in self.comments if each["id"] == int(what))
            written["body"] = body
        if self.after_write is not None:
            after, self.after_write = self.after_write, None
            return after()
        return answer(201 if what == "create" else 200, written)

    def _page(self, request: Received, query: dict[str, list[str]]) -> bytes:
        size, page = int(query["per_page"][0]), int(query.get("page", ["1"])[0])
        begin = (page - 1) * size
        headers = {}
        if begin + size < len(self.comments):
            url = f"http://{request.headers['host']}{self.root}/repos/acme/quotas/issues/7/comments"
            headers["Link"] = (
                f'<{url}?per_page={size}&page={page - 1}>; rel="prev", '
                f'<{url}?per_page={size}&page={page + 1}>; rel="next", <{url}?per_page={size}&page=99>; rel="last"'
            )
        return answer(200, self.comments[begin : begin + size], **headers)

    def server(self) -> HttpServer:
        """Return a server, to be entered."""
        return HttpServer(self.reply)


@dataclass
class FakeGitLab:
    """Project 42 with merge request 7."""

    notes: list[dict[str, Any]] = field(default_factory=list)  # what was written, the oldest first
    user: int = 5  # the id of the user that the token belongs to
    # The method and the text of everything that was written
    writes: list[tuple[str, str]] = field(default_factory=list)
    snapshot: str | None = None  # what the job quotas-snapshot of the main branch wrote

    def add(self, body: str, user: int | None = None, *, is_system: bool = False) -> None:
        """Write a note as somebody."""
        author = self.user if user is None else user
        self.notes.append(
            {
                "id": 300 + len(self.notes),
                "body": body,
                "author": {"id": author, "username": f"user-{author}"},
                "system": is_system,
            }
        )

    def reply(self, request: Received) -> bytes:
        """Answer a request as GitLab does."""
        if TOKEN not in (request.headers.get("private-token"), request.headers.get("authorization", "")[7:]):
            return answer(401, {"message": "401 Unauthorized"})
        path = urlsplit(request.target)
        query = parse_qs(path.query)
        if path.path == "/api/v4/projects/42/jobs/artifacts/main/raw/live/prod-eu.json" and self.snapshot is not None:
            assert query["job"] == ["quotas-snapshot: [prod-eu]"]
            return answer(200, json.loads(self.snapshot))
        notes = "/api/v4/projects/42/merge_requests/7/notes"
        if path.path == "/api/v4/user":
            return answer(200, {"id": self.user, "username": f"user-{self.user}"})
        if path.path == notes.removesuffix("/notes"):
            return answer(200, {"iid": 7, "sha": NEWEST})
        if path.path == notes and request.method == "GET":
            assert (query["sort"], query["order_by"]) == (["asc"], ["created_at"])
            size, page = int(query["per_page"][0]), int(query.get("page", ["1"])[0])
            begin = (page - 1) * size
            target = f"{notes}?sort=asc&order_by=created_at&per_page={size}&page={page + 1}"
            link = f'<http://{request.headers["host"]}{target}>; rel="next"'
            headers = {"Link": link} if begin + size < len(self.notes) else {}
            return answer(200, self.notes[begin : begin + size], **headers)
        if path.path == notes and request.method == "POST":
            self.writes.append(("POST", request.json()["body"]))
            self.add(request.json()["body"])
            return answer(201, self.notes[-1])
        if (found := fullmatch(rf"{notes}/(\d+)", path.path)) and request.method == "PUT":
            self.writes.append(("PUT", request.json()["body"]))
            (note,) = (each for each in self.notes if each["id"] == int(found[1]))
            note["body"] = request.json()["body"]
            return answer(200, note)
        return answer(404, {"error": "404 Project Not Found"})

    def server(self) -> HttpServer:
        """Return a server, to be entered."""
        return HttpServer(self.reply)


def event(number: int, commit: str = NEWEST) -> str:
    """Return the event of a pull request as GitHub writes it."""
    head = {"ref": "x", "sha": commit}
    return json.dumps({"action": "synchronize", "pull_request": {"number": number, "head": head}})
