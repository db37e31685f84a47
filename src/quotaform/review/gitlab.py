"""Notes on a merge request of GitLab.

Those of the token's own user are updated, no others. The token of a job (`CI_JOB_TOKEN`) may not write notes: a project
or group access token with the scope `api` and the role Reporter or higher can.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from quotaform.http.api import Api, Transport
from quotaform.http.message import Url
from quotaform.model.text import Secret
from quotaform.model.variable import OwnSecret
from quotaform.review.comment import Posted

API: Final = "https://gitlab.com/api/v4"
LONGEST: Final = 1_000_000
"""The most characters of a note."""

_PER_PAGE: Final = 20
_REMEDIES: Final = {
    401: f"check the token in {OwnSecret.COMMENT_TOKEN} or {OwnSecret.GITLAB_TOKEN}; CI_JOB_TOKEN cannot write notes",
    403: "give the token the scope `api` and the role Reporter or higher",
    404: "check project and number, and that the token may read them",
}


class GitLab:
    """The notes of one merge request."""

    name = "GitLab"
    longest = LONGEST

    def __init__(self, base: Url, project: str, number: int, token: Secret, transport: Transport) -> None:
        self._merge_request = f"/projects/{quote(project, safe='')}/merge_requests/{number}"
        self._path = f"{self._merge_request}/notes"
        self._api = Api(
            base=base,
            token=token,
            credentials={"PRIVATE-TOKEN": token},
            headers={"Accept": "application/json"},
            transport=transport,
            remedies=_REMEDIES,
        )

    def head(self) -> str:
        """Return the newest commit of the merge request."""
        try:
            return str(self._api.get(self._merge_request)["sha"])
        except (KeyError, TypeError):
            raise self._api.malformed() from None

    def comments(self) -> Iterator[Posted]:
        """Yield all notes that people and programs wrote, the oldest first."""
        user = self._user
        for item in self._api.pages(f"{self._path}?sort=asc&order_by=created_at&per_page={_PER_PAGE}"):
            if not (isinstance(item, dict) and item.get("system") is True):
                yield self._posted(item, user)

    def create(self, body: str) -> Posted:
        """Write a note."""
        return self._posted(self._api.write("POST", self._path, {"body": body}))

    def update(self, number: int, body: str) -> Posted:
        """Replace the text of a note."""
        return self._posted(self._api.write("PUT", f"{self._path}/{number}", {"body": body}))

    def _posted(self, item: Any, user: int | None = None) -> Posted:
        """Read a note; without a user it is one that was written just now."""
        try:
            number, body, author = item["id"], item["body"] or "", item["author"]["username"]
            is_own = user is None or item["author"]["id"] == user
        except (KeyError, TypeError):
            raise self._api.malformed() from None
        if not (isinstance(number, int) and isinstance(body, str) and isinstance(author, str)):
            raise self._api.malformed()
        return Posted(id=number, body=body, author=author, is_own=is_own)

    @cached_property
    def _user(self) -> int:
        """The id of the user that the token belongs to."""
        user = self._api.get("/user")
        number = user.get("id") if isinstance(user, dict) else None
        if not isinstance(number, int):
            raise self._api.malformed()
        return number
