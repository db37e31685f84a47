"""Comments on the pull request that a run is for: each draft becomes one comment, which the next run updates.

Those of the token's own user are updated, no others: anybody may write a comment with the same marker. `GET /user` says
who that is. To the token of a job of GitHub (`GITHUB_TOKEN`) and that of an app it answers 403, and GraphQL's `viewer`
is asked; where that does not answer either, it is taken to be the token of a job. That of a job of GitLab
(`CI_JOB_TOKEN`) may not write notes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from json import dumps
from pathlib import Path
from re import compile as regex
from typing import Any, Final
from urllib.parse import quote as quote_for_url

from msgspec import Struct
from msgspec.structs import replace

from quotaform.http.client import BODY_LIMIT, HttpRequest, Response, Transport, Url, asked_wait, is_rate_limited
from quotaform.model.errors import ArgumentError, HttpError, QuotaformError, StaleError, UsageError
from quotaform.model.text import MIB, Secret, inert, option_of, quote
from quotaform.model.variable import OwnSecret
from quotaform.report.comment import Marker, read_marker
from quotaform.review.ci import at, is_commit_id, read_event
from quotaform.review.comment import CommentAction, CommentMode, CommentStep, DesiredComment, Posted, plan_comment
from quotaform.system.files import read_text

_REF: Final = regex(r"refs/pull/([0-9]{1,18})/(?:merge|head)").fullmatch
_NUMBER: Final = regex(r"[1-9][0-9]{0,17}").fullmatch


class Platform(Struct, frozen=True, kw_only=True):
    """A platform of pull requests, and what differs between them."""

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


PLATFORMS: Final = {
    "github": Platform(
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
    "gitlab": Platform(
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
GITHUB, GITLAB = PLATFORMS.values()


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request of GitHub, or a merge request of GitLab."""

    platform: Platform
    api: Url  # The URL of the REST API
    repository: str  # `owner/name`, or the number or the path of a project of GitLab
    number: int  # The number; GitLab calls it iid
    commit: str | None = None  # The commit that the run is for; `None` where nothing says it


PAGE_LIMIT: Final = 32 * MIB
"""The most bytes of one page of a list: 100 comments of GitHub, or 20 notes of GitLab, each as long as it may be."""
_MOST_PAGES: Final = 500
_NEXT: Final = regex(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?')


class Comments:
    """The comments of one pull request; requests are sent again where that helps, and errors are in words."""

    def __init__(self, pull_request: PullRequest, token: Secret, transport: Transport) -> None:
        """Nothing is asked yet."""
        self.platform = platform = pull_request.platform
        safe = "/" if platform is GITHUB else ""
        self._place = {"repository": quote_for_url(pull_request.repository, safe=safe), "number": pull_request.number}
        self._base, self._token, self._transport = pull_request.api, token, transport
        name, begin = platform.token_header
        self._credentials = {name: Secret(f"{begin}{token.reveal()}")}

    def head(self) -> str:
        """Return the newest commit of the pull request."""
        found = at(self._ask("GET", self._url(self.platform.pull_request)).json(), *self.platform.commit)
        if found is None:
            raise self._malformed()
        return str(found)

    def comments(self) -> Iterator[Posted]:
        """Yield all comments that people and programs wrote, the oldest first.

        They come page by page, as the `Link` header leads (RFC 8288). Raises `HttpError` if a page cannot be had, is no
        list, or the next one is on another server.
        """
        own = self._own
        url: Url | None = self._url(f"{self.platform.comments}?{self.platform.listed}")
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            response = self._ask("GET", url, body_limit=PAGE_LIMIT)
            items = response.json()
            if not isinstance(items, list):
                raise self._malformed()
            yield from (self._posted(item, own) for item in items if at(item, "system") is not True)
            url = None
            if found := _NEXT.search(response.headers.get("link", "")):
                try:
                    url = response.url.follow(found[1])
                except ValueError:
                    raise self._malformed() from None
                if url.origin != self._base.origin:
                    problem = f"says that the list goes on at {url.origin}, which is not followed; check the URL"
                    raise HttpError(self._base.origin, problem)
        if url is not None:
            raise HttpError(self._base.origin, f"lists more than {_MOST_PAGES} pages")

    def create(self, body: str) -> Posted:
        """Write a comment."""
        return self._posted(self._ask("POST", self._url(self.platform.comments), {"body": body}).json())

    def update(self, number: int, body: str) -> Posted:
        """Replace the text of a comment."""
        url = self._url(f"{self.platform.comment}/{number}")
        return self._posted(self._ask(self.platform.update, url, {"body": body}).json())

    def _url(self, form: str) -> Url:
        return self._base.under(form.format(**self._place))

    def _ask(self, method: str, url: Url, content: object = None, *, body_limit: int = BODY_LIMIT) -> Response:
        """Send a request, with JSON if there is any, until there is an answer that would stay the same."""
        request = HttpRequest(
            method=method,
            url=url,
            headers={**self.platform.headers, **({} if content is None else {"Content-Type": "application/json"})},
            credentials=self._credentials,
            body=None if content is None else dumps(content).encode(),
            is_repeatable=method == "PATCH",  # It sets what it names to given values.
            body_limit=body_limit,
        )
        response = self._transport.send(request)
        if not response.is_success:
            raise self._error(response)
        return response

    def _error(self, response: Response) -> HttpError:
        status, now = response.status, self._transport.clock.now()
        wait = asked_wait(response, now)
        if is_rate_limited(response):
            when = now + timedelta(seconds=min(wait or 0.0, 10**8))
            problem = (
                f"limits how often the token may ask (status {status}); try again after {when:%Y-%m-%d %H:%M:%S} UTC"
            )
        elif status >= 500:
            problem = f"failed (status {status}); try again later"
        else:
            # A message of the server is text from outside, and may repeat the token.
            content = None
            with suppress(HttpError):
                content = response.json()
            message = content.get("message") or content.get("error") if isinstance(content, dict) else None
            said = message.replace(self._token.reveal(), "***")[:200] if isinstance(message, str) else ""
            problem = f"refused this with status {status}" + (f" ({inert(said)})" if said else "")
            problem += f"; {self.platform.remedies[status]}" if status in self.platform.remedies else ""
        return HttpError(self._base.origin, problem, status=status, retry_after=wait)

    def _malformed(self) -> HttpError:
        return HttpError(self._base.origin, "answered with JSON of an unexpected shape; check the URL of the API")

    def _posted(self, item: Any, own: str | None = None) -> Posted:
        """Read a comment; without who the token belongs to, it is one that was written just now."""
        number, body, url = (at(item, name) for name in ("id", "body", "html_url"))
        user, name = self.platform.author
        author = at(item, user, name) if at(item, user) else "ghost"  # Of an account that was deleted.
        if not (isinstance(number, int) and isinstance(body or "", str) and isinstance(author, str)):
            raise self._malformed()
        is_own = own is None or author == own or (at(item, user, "type") == "Bot" and author == f"{own}[bot]")
        url = url if isinstance(url, str) else None
        return Posted(id=number, body=str(body or ""), author=author, is_own=is_own, url=url)

    @cached_property
    def _own(self) -> str:
        """Who the token belongs to."""
        try:
            return self._name(self._ask("GET", self._url("/user")).json())
        except HttpError as error:
            is_other_token = error.status in (403, 404) and error.retry_after is None
            if self.platform is not GITHUB or not is_other_token:
                raise
        root = self._base.target.rstrip("/")
        graph = dataclasses.replace(self._base, target=f"{root.removesuffix('/v3')}/" if root else "/")
        try:
            answer = self._ask("POST", graph.under("/graphql"), {"query": "query { viewer { login } }"}).json()
        except HttpError as error:
            if error.status is None or error.status >= 500 or error.retry_after is not None:
                raise
            answer = None
        viewer = at(answer, "data", "viewer")
        return "github-actions[bot]" if viewer is None else self._name(viewer)

    def _name(self, user: Any) -> str:
        name = at(user, self.platform.author[1])
        if not isinstance(name, str) or not name:
            raise self._malformed()
        return name


def find_pull_request(
    environ: Mapping[str, str],
    *,
    platform: str | None = None,
    api_url: str | None = None,
    repository: str | None = None,
    number: str | None = None,
    commit: str | None = None,
) -> PullRequest | None:
    """Return the pull request that is meant; `None` when the run of a CI system is for none, such as a push.

    What the command line does not say, the environment does. Raises `UsageError` if they do not say where pull requests
    are, and `QuotaformError` if the event of GitHub cannot be read.
    """
    running = [each for each in PLATFORMS.values() if environ.get(each.running_variable) == "true"]
    if platform is None and len(running) != 1:
        raise ArgumentError(
            "this is neither GitHub Actions nor GitLab CI, so say where the comment goes: {platform}, {repository} and "
            "{pull_request}"
        )
    chosen = running[0] if platform is None else PLATFORMS[platform]
    asked = None if number is None else _number(number)
    if number is not None and asked is None:
        raise ArgumentError("{pull_request} takes the number of a pull request, not {}", quote(number))
    if commit is not None and not is_commit_id(commit):
        raise ArgumentError("{commit} takes the whole id of a commit, not {}", quote(commit))
    variables = (environ.get(name) for name in chosen.repository_variables)
    repository = repository or next(filter(None, variables), "")
    found, its_commit = asked, None
    if asked is None and chosen is GITHUB:
        found, its_commit = _github_number(environ)
    elif asked is None:
        found = _number(environ.get("CI_MERGE_REQUEST_IID"))
        # The commit of its branch: that of a pipeline for merged results is another one.
        its_commit = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ.get("CI_COMMIT_SHA") or None
    if not chosen.is_repository(repository):
        what = "{} is not a repository" if repository else "a repository is needed"
        given = [quote(repository)] if repository else []
        raise ArgumentError(f"{what}; give {{repository}} OWNER/NAME", *given)
    try:
        api = Url.parse(api_url or environ.get(chosen.url_variable) or chosen.url)
        if "?" in api.target:
            raise ValueError("it must not contain a query")
    except ValueError as error:
        raise ArgumentError("the URL of the API cannot be used: {}; check {api_url}", error) from None
    if found is not None:
        commit = commit or its_commit
        return PullRequest(platform=chosen, api=api, repository=repository, number=found, commit=commit)
    if chosen not in running:
        raise ArgumentError("a pull request is needed: give {pull_request} NUMBER")
    return None


def find_token(platform: Platform, environ: Mapping[str, str]) -> Secret:
    """Return the token for a platform. Tokens come from the environment alone: other users can read command lines.

    Raises `QuotaformError` if there is none.
    """
    own = platform.token_variable
    for name in (OwnSecret.COMMENT_TOKEN, own):
        if token := environ.get(name, "").strip():
            return Secret(token)
    also = ""
    if platform is GITLAB and environ.get("CI_JOB_TOKEN"):
        also = ": CI_JOB_TOKEN cannot write notes, so create a project access token with the scope api"
    raise QuotaformError(f"no token is in {OwnSecret.COMMENT_TOKEN} or {own}; set one of them{also}")


def _github_number(environ: Mapping[str, str]) -> tuple[int | None, str | None]:
    """Return the number of the pull request, from an event of it, a comment on it or a run for it, and its commit."""
    try:
        event = read_event(environ)
    except QuotaformError as error:
        raise QuotaformError(f"{error}; give {option_of('pull_request')}") from None
    if at(event, "pull_request"):
        commit = at(event, "pull_request", "head", "sha")
        return _number(at(event, "pull_request", "number")), commit if isinstance(commit, str) else None
    if at(event, "issue", "pull_request"):
        return _number(at(event, "issue", "number")), None
    found = _REF(environ.get("GITHUB_REF", ""))
    return _number(found[1]) if found else None, None


def _number(value: object) -> int | None:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return int(text) if _NUMBER(text) else None


def read_drafts(paths: Sequence[Path]) -> tuple[DesiredComment, ...]:
    """Read the files of comments.

    Raises `FileReadError` if a file cannot be read; `QuotaformError` if a file is no comment of quotaform; `UsageError`
    if two files show the same.
    """
    drafts: dict[Marker, DesiredComment] = {}
    for path in paths:
        body = read_text(path, 4 * MIB)  # A comment of GitLab has at most 1,000,000 characters.
        marker = read_marker(body)
        if marker is None:
            markdown = path.with_suffix(".md")  # Never over a plan that was given by mistake.
            remedy = f"give what plan {option_of('out')} markdown={markdown} writes"
            raise QuotaformError(f"{path} does not begin with the marker of a comment; {remedy}")
        if marker in drafts:
            raise UsageError(
                f"{drafts[marker].name} and {path} are both the {marker.kind} of cluster {marker.cluster}; give one"
            )
        drafts[marker] = DesiredComment(str(path), marker, body)
    return tuple(drafts.values())


def post_comments(
    comments: Comments,
    drafts: Sequence[DesiredComment],
    mode: CommentMode,
    *,
    commit: str | None = None,
    is_dry_run: bool = False,
) -> Iterator[CommentStep]:
    """Write or update a comment for each draft; one that fails keeps none of the others from being written.

    `commit`: the commit that the drafts are for, if it is known.

    Raises `QuotaformError` if the comments cannot be read; `StaleError` if the pull request has a newer commit, whose
    comment must not be replaced.
    """
    if commit is not None and (head := comments.head()) != commit:
        raise StaleError(
            f"the pull request is at commit {head}, and this run is for {commit}; no comment was written, so that none "
            "of a newer commit is replaced"
        )
    posted = list(comments.comments())
    for draft in drafts:
        step = plan_comment(draft, posted, mode)
        try:
            yield step if is_dry_run else _write(comments, step, posted)
        except QuotaformError as error:
            yield replace(step, error=error)


def _write(comments: Comments, step: CommentStep, posted: Sequence[Posted]) -> CommentStep:
    body = step.draft.body
    if step.action in (CommentAction.CREATE, CommentAction.UPDATE) and len(body) > comments.platform.longest:
        raise QuotaformError(
            f"{step.draft.name} has {len(body):,} characters, and a comment of {comments.platform.name} at most "
            f"{comments.platform.longest:,}; nothing was sent"
        )
    if step.action is CommentAction.UPDATE and step.target is not None:
        return replace(step, target=comments.update(step.target.id, body))
    if step.action is not CommentAction.CREATE:
        return step
    known = {each.id for each in posted}
    for _ in range(2):
        try:
            return replace(step, target=comments.create(body))
        except HttpError as error:
            if not error.may_have_arrived or (error.status is not None and error.status < 500):
                raise
        # It may be there all the same.
        for each in comments.comments():
            if each.is_own and each.id not in known and read_marker(each.body) == step.draft.marker:
                return replace(step, target=each)
    return replace(step, target=comments.create(body))
