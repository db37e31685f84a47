"""The comments on a pull request of GitHub (or GitHub Enterprise Server), or on a merge request of GitLab.

Those of the token's own user are updated, no others: anybody may write a comment with the same marker. `GET /user` says
who that is. To the token of a job of GitHub (`GITHUB_TOKEN`) and that of an app it answers 403, and GraphQL's `viewer`
is asked; where that does not answer either, it is taken to be the token of a job. That of a job of GitLab
(`CI_JOB_TOKEN`) may not write notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from re import compile as regex
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from quotaform.http.api import Api, Transport
from quotaform.http.message import Url
from quotaform.model.errors import HttpError
from quotaform.model.text import Secret
from quotaform.model.variable import OwnSecret
from quotaform.review.ci import at
from quotaform.review.comment import Posted


class Platform(StrEnum):
    """The platforms of pull requests."""

    GITHUB = "github"
    GITLAB = "gitlab"


class Site(Struct, frozen=True, kw_only=True):
    """What differs between platforms."""

    name: str
    longest: int  # The most characters of a comment
    url: str  # The REST API, if neither the command line nor `url_variable` has another one
    url_variable: str
    running_variable: str  # It is `true` in a run of the CI system
    repository_variables: tuple[str, ...]
    is_repository: Callable[[str], object]
    token_variable: OwnSecret
    token_header: tuple[str, str]  # Its name, and what stands in front of the token
    headers: Mapping[str, str]
    remedies: Mapping[int, str]  # By the status of an answer
    pull_request: str  # The path of the pull request
    comments: str  # That of its comments
    comment: str  # What the number of one of them follows
    listed: str  # What a list is asked for with, the oldest first
    update: str  # The method that replaces the text of a comment
    commit: tuple[str, ...]  # Where a pull request has its newest commit
    author: tuple[str, str]  # Where a comment has its author, and users their names


SITES: Final = {
    Platform.GITHUB: Site(
        name="GitHub",
        longest=65_536,
        url="https://api.github.com",
        url_variable="GITHUB_API_URL",
        running_variable="GITHUB_ACTIONS",
        repository_variables=("GITHUB_REPOSITORY",),
        is_repository=regex(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+").fullmatch,
        token_variable=OwnSecret.GITHUB_TOKEN,
        token_header=("Authorization", "Bearer "),
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
        remedies={
            401: f"check the token in {OwnSecret.COMMENT_TOKEN} or {OwnSecret.GITHUB_TOKEN}",
            403: "give the job `permissions: {pull-requests: write}`; the token of a pull request from a fork cannot "
            "write",
            404: "check repository and number, and that the token may read them",
            410: "comments are turned off or the pull request is gone",
        },
        pull_request="/repos/{repository}/pulls/{number}",
        comments="/repos/{repository}/issues/{number}/comments",
        comment="/repos/{repository}/issues/comments",
        listed="per_page=100",
        update="PATCH",
        commit=("head", "sha"),
        author=("user", "login"),
    ),
    Platform.GITLAB: Site(
        name="GitLab",
        longest=1_000_000,
        url="https://gitlab.com/api/v4",
        url_variable="CI_API_V4_URL",
        running_variable="GITLAB_CI",
        repository_variables=("CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID"),
        is_repository=regex(r"[0-9]{1,18}|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+").fullmatch,
        token_variable=OwnSecret.GITLAB_TOKEN,
        token_header=("PRIVATE-TOKEN", ""),
        headers={"Accept": "application/json"},
        remedies={
            401: f"check the token in {OwnSecret.COMMENT_TOKEN} or {OwnSecret.GITLAB_TOKEN}; CI_JOB_TOKEN cannot "
            "write notes",
            403: "give the token the scope `api` and the role Reporter or higher",
            404: "check project and number, and that the token may read them",
        },
        pull_request="/projects/{repository}/merge_requests/{number}",
        comments="/projects/{repository}/merge_requests/{number}/notes",
        comment="/projects/{repository}/merge_requests/{number}/notes",
        listed="sort=asc&order_by=created_at&per_page=20",
        update="PUT",
        commit=("sha",),
        author=("author", "username"),
    ),
}  # fmt: skip


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request of GitHub, or a merge request of GitLab."""

    platform: Platform
    api: Url  # The URL of the REST API
    repository: str  # `owner/name`, or the number or the path of a project of GitLab
    number: int  # The number; GitLab calls it iid
    commit: str | None = None  # The commit that the run is for; `None` where nothing says it


class Comments:
    """The comments of one pull request."""

    def __init__(self, pull_request: PullRequest, token: Secret, transport: Transport) -> None:
        """Nothing is asked yet."""
        self.site = site = SITES[pull_request.platform]
        safe = "/" if pull_request.platform is Platform.GITHUB else ""
        self._place = {"repository": quote(pull_request.repository, safe=safe), "number": pull_request.number}
        name, begin = site.token_header
        self._api = Api(
            base=pull_request.api,
            token=token,
            credentials={name: Secret(f"{begin}{token.reveal()}")},
            headers=site.headers,
            transport=transport,
            remedies=site.remedies,
        )

    def head(self) -> str:
        """Return the newest commit of the pull request."""
        found = at(self._api.get(self._path(self.site.pull_request)), *self.site.commit)
        if found is None:
            raise self._api.malformed()
        return str(found)

    def comments(self) -> Iterator[Posted]:
        """Yield all comments that people and programs wrote, the oldest first."""
        own = self._own
        for item in self._api.pages(f"{self._path(self.site.comments)}?{self.site.listed}"):
            if at(item, "system") is not True:
                yield self._posted(item, own)

    def create(self, body: str) -> Posted:
        """Write a comment."""
        return self._posted(self._api.write("POST", self._path(self.site.comments), {"body": body}))

    def update(self, number: int, body: str) -> Posted:
        """Replace the text of a comment."""
        path = f"{self._path(self.site.comment)}/{number}"
        return self._posted(self._api.write(self.site.update, path, {"body": body}))

    def _path(self, form: str) -> str:
        return form.format(**self._place)

    def _posted(self, item: Any, own: str | None = None) -> Posted:
        """Read a comment; without who the token belongs to, it is one that was written just now."""
        number, body, url = (at(item, name) for name in ("id", "body", "html_url"))
        user, name = self.site.author
        author = at(item, user, name) if at(item, user) else "ghost"  # Of an account that was deleted.
        if not (isinstance(number, int) and isinstance(body or "", str) and isinstance(author, str)):
            raise self._api.malformed()
        is_own = own is None or author == own or (at(item, user, "type") == "Bot" and author == f"{own}[bot]")
        url = url if isinstance(url, str) else None
        return Posted(id=number, body=str(body or ""), author=author, is_own=is_own, url=url)

    @cached_property
    def _own(self) -> str:
        """Who the token belongs to."""
        try:
            return self._name(self._api.get("/user"))
        except HttpError as error:
            is_other_token = error.status in (403, 404) and error.retry_after is None
            if self.site is not SITES[Platform.GITHUB] or not is_other_token:
                raise
        base = self._api.base
        root = base.target.rstrip("/")
        api = replace(self._api, base=replace(base, target=f"{root.removesuffix('/v3')}/" if root else "/"))
        try:
            answer = api.write("POST", "/graphql", {"query": "query { viewer { login } }"})
        except HttpError as error:
            if error.status is None or error.status >= 500 or error.retry_after is not None:
                raise
            answer = None
        viewer = at(answer, "data", "viewer")
        return "github-actions[bot]" if viewer is None else self._name(viewer)

    def _name(self, user: Any) -> str:
        name = at(user, self.site.author[1])
        if not isinstance(name, str) or not name:
            raise self._api.malformed()
        return name
