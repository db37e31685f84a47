"""Comments on a pull request of GitHub, or of GitHub Enterprise Server.

Those of the token's own user are updated, no others: anybody may write a comment with the same marker. Who that is,
`GET /user` says to a personal token. The token of a job (`GITHUB_TOKEN`) and that of an app get 403 there, and ask
GraphQL's `viewer`; where that does not answer either, it is taken to be that of a job, which writes as
`github-actions[bot]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from quotaform.http.api import Api, Transport
from quotaform.http.message import Url
from quotaform.model.errors import HttpError
from quotaform.model.text import Secret
from quotaform.model.variable import OwnSecret
from quotaform.review.comment import Posted

API: Final = "https://api.github.com"
LONGEST: Final = 65_536
"""The most characters of a comment."""

_BOT: Final = "[bot]"
_ACTIONS: Final = "github-actions[bot]"
_PER_PAGE: Final = 100
_REMEDIES: Final = {
    401: f"check the token in {OwnSecret.COMMENT_TOKEN} or {OwnSecret.GITHUB_TOKEN}",
    403: "give the job `permissions: {pull-requests: write}`; the token of a pull request from a fork cannot write",
    404: "check repository and number, and that the token may read them",
    410: "comments are turned off or the pull request is gone",
}


class GitHub:
    """The comments of one pull request."""

    name = "GitHub"
    longest = LONGEST

    def __init__(self, base: Url, repository: str, number: int, token: Secret, transport: Transport) -> None:
        self._path = f"/repos/{quote(repository)}"
        self._number = number
        self._api = Api(
            base=base,
            token=token,
            credentials={"Authorization": Secret(f"Bearer {token.reveal()}")},
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
            transport=transport,
            remedies=_REMEDIES,
        )

    def head(self) -> str:
        """Return the newest commit of the pull request."""
        try:
            return str(self._api.get(f"{self._path}/pulls/{self._number}")["head"]["sha"])
        except (KeyError, TypeError):
            raise self._api.malformed() from None

    def comments(self) -> Iterator[Posted]:
        """Yield all comments, the oldest first."""
        login = self._login
        for item in self._api.pages(f"{self._path}/issues/{self._number}/comments?per_page={_PER_PAGE}"):
            yield self._posted(item, login)

    def create(self, body: str) -> Posted:
        """Write a comment."""
        return self._posted(self._api.write("POST", f"{self._path}/issues/{self._number}/comments", {"body": body}))

    def update(self, number: int, body: str) -> Posted:
        """Replace the text of a comment."""
        return self._posted(self._api.write("PATCH", f"{self._path}/issues/comments/{number}", {"body": body}))

    def _posted(self, item: Any, login: str | None = None) -> Posted:
        """Read a comment; without a login it is one that was written just now."""
        try:
            user = item["user"] or {"login": "ghost", "id": 0}  # Of an account that was deleted.
            number, body, author = item["id"], item["body"] or "", user["login"]
            is_bot, url = user.get("type") == "Bot", item.get("html_url")
        except (AttributeError, KeyError, TypeError):
            raise self._api.malformed() from None
        if not (isinstance(number, int) and isinstance(body, str) and isinstance(author, str)):
            raise self._api.malformed()
        is_own = login is None or author == login or (is_bot and author == f"{login}{_BOT}")
        return Posted(id=number, body=body, author=author, is_own=is_own, url=url if isinstance(url, str) else None)

    @cached_property
    def _login(self) -> str:
        """Who the token belongs to."""
        try:
            user = self._api.get("/user")
        except HttpError as error:
            if error.status not in (403, 404) or error.retry_after is not None:
                raise
            return self._viewer() or _ACTIONS
        return self._require_login(user)

    def _viewer(self) -> str | None:
        base = self._api.base
        root = base.target.rstrip("/")
        api = replace(self._api, base=replace(base, target=f"{root.removesuffix('/v3')}/" if root else "/"))
        try:
            answer = api.write("POST", "/graphql", {"query": "query { viewer { login } }"})
            return self._require_login(answer["data"]["viewer"])
        except HttpError as error:
            if error.status is None or error.status >= 500 or error.retry_after is not None:
                raise
        except (KeyError, TypeError):
            pass
        return None

    def _require_login(self, user: Any) -> str:
        login = user.get("login") if isinstance(user, dict) else None
        if not isinstance(login, str) or not login:
            raise self._api.malformed()
        return login
