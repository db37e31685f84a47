"""The REST APIs of GitHub and GitLab, as far as comments on a pull request go, on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from re import fullmatch
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.http_server import HttpServer, Received, answer

TOKEN = "c4nary-T0ken"
NEWEST = "5" * 40
"""The newest commit of the pull request."""


def page_of(items: list[Any], request: Received) -> bytes:
    target = urlsplit(request.target)
    query = dict(parse_qsl(target.query))
    size, page = int(query["per_page"]), int(query.get("page", "1"))
    begin = (page - 1) * size
    links = [
        f'<http://{request.headers["host"]}{target.path}?{urlencode({**query, "page": number})}>; rel="{name}"'
        for name, number in (("prev", page - 1), ("next", page + 1), ("last", 99))
    ]
    headers = {"Link": ", ".join(links)} if begin + size < len(items) else {}
    return answer(200, items[begin : begin + size], **headers)


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
        number = 100 + len(self.comments)
        user, url = {"login": login or self.login, "type": kind}, "https://github.example/acme/quotas/pull/7"
        self.comments.append({"id": number, "body": body, "user": user, "html_url": f"{url}#issuecomment-{number}"})

    def reply(self, request: Received) -> bytes | Iterable[bytes]:
        if self.trouble and (trouble := self.trouble.pop(0)) is not None:
            return trouble
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return answer(401, {"message": f"Bad credentials {request.headers.get('authorization')}"})
        path = urlsplit(request.target).path
        if path == f"{self.root.removesuffix('/v3')}/graphql" and request.method == "POST":
            if self.token_kind != "job":
                return answer(403, {"message": "no"})
            return answer(200, {"data": {"viewer": {"login": self.login}}})
        path = path.removeprefix(self.root) if path.startswith(f"{self.root}/") else ""
        if path == "/user":
            if self.token_kind != "personal":
                return answer(403, {"message": "Resource not accessible by integration"})
            return answer(200, {"login": self.login, "id": 1})
        if path == "/repos/acme/quotas/pulls/7":
            return answer(200, {"number": 7, "head": {"sha": NEWEST}})
        if path == "/repos/acme/quotas/issues/7/comments":
            return self._write("create", request) if request.method == "POST" else page_of(self.comments, request)
        found = fullmatch(r"/repos/acme/quotas/issues/comments/(\d+)", path)
        if found and request.method == "PATCH":
            return self._write(found[1], request)
        return answer(404, {"message": "Not Found"})

    def _write(self, what: str, request: Received) -> bytes:
        body = request.json()["body"]
        if len(body) > 65_536:
            return answer(422, {"message": "Body is too long (maximum is 65536 characters)"})
        self.writes.append((what, body))
        if what == "create":
            self.add(body, kind="Bot" if self.token_kind != "personal" else "User")
            written = self.comments[-1]
        else:
            (written,) = (each for each in self.comments if each["id"] == int(what))
            written["body"] = body
        if self.after_write is not None:
            after, self.after_write = self.after_write, None
            return after()
        return answer(201 if what == "create" else 200, written)

    def server(self) -> HttpServer:
        return HttpServer(self.reply)


@dataclass
class FakeGitLab:
    """Project 42 with merge request 7."""

    notes: list[dict[str, Any]] = field(default_factory=list)  # what was written, the oldest first
    user: int = 5  # the id of the user that the token belongs to
    writes: list[tuple[str, str]] = field(default_factory=list)  # method and text of everything that was written
    trouble: list[bytes | None] = field(default_factory=list)  # as for `FakeGitHub`
    snapshot: str | None = None  # what the job quotas-snapshot of the main branch wrote

    def add(self, body: str, user: int | None = None, *, is_system: bool = False) -> None:
        who = self.user if user is None else user
        author = {"id": who, "username": f"user-{who}"}
        self.notes.append({"id": 300 + len(self.notes), "body": body, "author": author, "system": is_system})

    def reply(self, request: Received) -> bytes:
        if self.trouble and (trouble := self.trouble.pop(0)) is not None:
            return trouble
        if TOKEN not in (request.headers.get("private-token"), request.headers.get("authorization", "")[7:]):
            return answer(401, {"message": "401 Unauthorized"})
        target = urlsplit(request.target)
        path, query = target.path, dict(parse_qsl(target.query))
        notes = "/api/v4/projects/42/merge_requests/7/notes"
        if path == "/api/v4/projects/42/jobs/artifacts/main/raw/live/prod-eu.json" and self.snapshot is not None:
            assert query["job"] == "quotas-snapshot: [prod-eu]"
            return answer(200, json.loads(self.snapshot))
        if path == "/api/v4/user":
            return answer(200, {"id": self.user, "username": f"user-{self.user}"})
        if path == notes.removesuffix("/notes"):
            return answer(200, {"iid": 7, "sha": NEWEST})
        if path == notes and request.method == "GET":
            assert (query["sort"], query["order_by"]) == ("asc", "created_at")
            return page_of(self.notes, request)
        found = fullmatch(rf"{notes}/(\d+)", path)
        if (path, request.method) == (notes, "POST"):
            self.add(request.json()["body"])
            note = self.notes[-1]
        elif found and request.method == "PUT":
            (note,) = (each for each in self.notes if each["id"] == int(found[1]))
            note["body"] = request.json()["body"]
        else:
            return answer(404, {"error": "404 Project Not Found"})
        self.writes.append((request.method, note["body"]))
        return answer(201 if request.method == "POST" else 200, note)

    def server(self) -> HttpServer:
        return HttpServer(self.reply)


def event(number: int, commit: str = NEWEST) -> str:
    head = {"ref": "x", "sha": commit}
    return json.dumps({"action": "synchronize", "pull_request": {"number": number, "head": head}})
