"""Comments on the pull request that a run is for: each draft becomes one comment, which the next run updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from json import loads
from pathlib import Path
from re import compile as regex
from typing import Any, Final, Protocol

from quotaform.http.api import Transport
from quotaform.http.client import DEFAULT_LIMITS, Limits, Retry
from quotaform.http.message import Url
from quotaform.model.errors import FileReadError, HttpError, QuotaformError, StaleError, UsageError
from quotaform.model.text import MIB, Secret, quote
from quotaform.model.variable import OwnSecret
from quotaform.report.comment import Marker, read_marker
from quotaform.review import github, gitlab
from quotaform.review.comment import CommentAction, CommentMode, CommentStep, Draft, Posted, plan_comment
from quotaform.review.github import GitHub
from quotaform.review.gitlab import GitLab
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import read_bytes, read_text

_EVENT_LIMIT: Final = 16 * MIB
_REF: Final = regex(r"refs/pull/([0-9]{1,18})/(?:merge|head)").fullmatch
_REPOSITORY: Final = regex(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+").fullmatch
_PROJECT: Final = regex(r"[0-9]{1,18}|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+").fullmatch
_COMMIT: Final = regex(r"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_NUMBER: Final = regex(r"[1-9][0-9]{0,17}").fullmatch


class Platform(StrEnum):
    """Where pull requests are."""

    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request of GitHub, or a merge request of GitLab."""

    platform: Platform
    api: Url  # The URL of the REST API
    repository: str  # `owner/name`, or the number or the path of a project of GitLab
    number: int  # The number; GitLab calls it iid
    commit: str | None = None  # The commit that the run is for; `None` where nothing says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line says of a pull request; the environment says the rest."""

    platform: Platform | None = None
    api_url: str | None = None
    repository: str | None = None
    number: str | None = None
    commit: str | None = None


def find_pull_request(given: Given, environ: Mapping[str, str]) -> PullRequest | None:
    """Return the pull request that is meant; `None` when the run of a CI system is for none, such as a push.

    Raises `UsageError` if command line and environment do not say where pull requests are, and `QuotaformError` if the
    event of GitHub cannot be read.
    """
    platform = given.platform or _detect(environ)
    asked = None if given.number is None else _number(given.number)
    if given.number is not None and asked is None:
        raise UsageError(f"--pull-request takes the number of a pull request, not {quote(given.number)}")
    if given.commit is not None and not _COMMIT(given.commit):
        raise UsageError(f"--commit takes the whole id of a commit, not {quote(given.commit)}")
    if platform is Platform.GITHUB:
        api_url = given.api_url or environ.get("GITHUB_API_URL") or github.API
        repository = given.repository or environ.get("GITHUB_REPOSITORY", "")
        number, commit = (asked, None) if asked else _github_number(environ)
        is_valid, variables = _REPOSITORY(repository) is not None, "GITHUB_REPOSITORY"
    else:
        api_url = given.api_url or environ.get("CI_API_V4_URL") or gitlab.API
        repository = given.repository or environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID", "")
        number, commit = asked or _number(environ.get("CI_MERGE_REQUEST_IID")), None
        if not asked:  # That of a pipeline for merged results is not the commit of the branch.
            commit = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ.get("CI_COMMIT_SHA")
        is_valid, variables = _PROJECT(repository) is not None, "CI_PROJECT_ID"
    if not is_valid:
        what = f"--repository or {variables} has {quote(repository)}, which is none" if repository else "none is given"
        raise UsageError(f"a repository is needed: {what}; give --repository OWNER/NAME")
    try:
        api = Url.parse(api_url)
    except ValueError as error:
        raise UsageError(f"the URL of the API cannot be used: {error}; check --api-url") from None
    if "?" in api.target:
        raise UsageError("the URL of the API cannot be used: it must not contain a query; check --api-url")
    if number is not None:
        commit = given.commit or commit or None
        return PullRequest(platform=platform, api=api, repository=repository, number=number, commit=commit)
    if not _is_running(platform, environ):
        raise UsageError("a pull request is needed: give --pull-request NUMBER")
    return None


def find_token(platform: Platform, environ: Mapping[str, str]) -> Secret:
    """Return the token for a platform. Tokens come from the environment alone: other users can read command lines.

    Raises `QuotaformError` if there is none.
    """
    own = OwnSecret.GITHUB_TOKEN if platform is Platform.GITHUB else OwnSecret.GITLAB_TOKEN
    for name in (OwnSecret.COMMENT_TOKEN, own):
        if token := environ.get(name, "").strip():
            return Secret(token)
    also = ""
    if platform is Platform.GITLAB and environ.get("CI_JOB_TOKEN"):
        also = ": CI_JOB_TOKEN cannot write notes, so create a project access token with the scope api"
    raise QuotaformError(f"no token is in {OwnSecret.COMMENT_TOKEN} or {own}; set one of them{also}")


def _detect(environ: Mapping[str, str]) -> Platform:
    found = [platform for platform in Platform if _is_running(platform, environ)]
    if len(found) != 1:
        raise UsageError(
            "this is neither GitHub Actions nor GitLab CI, so say where the comment goes: --platform, --repository and "
            "--pull-request"
        )
    return found[0]


def _is_running(platform: Platform, environ: Mapping[str, str]) -> bool:
    return environ.get("GITHUB_ACTIONS" if platform is Platform.GITHUB else "GITLAB_CI") == "true"


def _github_number(environ: Mapping[str, str]) -> tuple[int | None, str | None]:
    """Return the number of the pull request, from an event of it, a comment on it or a run for it, and its commit."""
    path = environ.get("GITHUB_EVENT_PATH")
    event = _read_event(Path(path)) if path else {}
    pull_request = event.get("pull_request")
    issue = event.get("issue")
    if isinstance(pull_request, dict):
        head = pull_request.get("head")
        commit = head.get("sha") if isinstance(head, dict) else None
        return _number(pull_request.get("number")), commit if isinstance(commit, str) else None
    if isinstance(issue, dict) and issue.get("pull_request"):
        return _number(issue.get("number")), None
    found = _REF(environ.get("GITHUB_REF", ""))
    return _number(found[1]) if found else None, None


def _read_event(path: Path) -> dict[str, Any]:
    try:
        event = loads(read_bytes(path, _EVENT_LIMIT))
    except FileReadError as error:
        raise QuotaformError(f"the event of GITHUB_EVENT_PATH: {error}; give --pull-request") from None
    except (ValueError, RecursionError):
        raise QuotaformError("the event of GITHUB_EVENT_PATH is not JSON; give --pull-request") from None
    return event if isinstance(event, dict) else {}


def _number(value: object) -> int | None:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return int(text) if _NUMBER(text) else None


DRAFT_LIMIT: Final = 4 * MIB
"""The most bytes of a file with a comment; a comment of GitLab has at most 1,000,000 characters."""
_ATTEMPTS: Final = 3
_PATIENCE: Final = 60.0
"""Seconds: a job waits for a platform no longer."""


class Comments(Protocol):
    """The comments of one pull request."""

    name: str
    longest: int

    def head(self) -> str:
        """Return the newest commit of the pull request."""

    def comments(self) -> Iterator[Posted]:
        """Yield all comments, the oldest first."""

    def create(self, body: str) -> Posted:
        """Write a comment."""

    def update(self, number: int, body: str) -> Posted:
        """Replace the text of a comment."""


@dataclass(frozen=True, slots=True)
class CommentOutcome:
    """What became of a draft."""

    draft: Draft
    step: CommentStep | None = None  # What was done for it; `None` after a failure
    error: QuotaformError | None = None  # Why nothing could be done


def read_drafts(paths: Sequence[Path]) -> tuple[Draft, ...]:
    """Read the files of comments.

    Raises `FileReadError` if a file cannot be read; `QuotaformError` if a file is no comment of quotaform; `UsageError`
    if two files show the same.
    """
    drafts: dict[Marker, Draft] = {}
    for path in paths:
        body = read_text(path, DRAFT_LIMIT)
        marker = read_marker(body)
        if marker is None:
            markdown = path.with_suffix(".md")  # Never over a plan that was given by mistake.
            remedy = f"write it with plan --out markdown={markdown}"
            if markdown != path:
                remedy = f"give what plan --out markdown={markdown} writes"
            raise QuotaformError(f"{path} does not begin with the marker of a comment; {remedy}")
        if marker in drafts:
            raise UsageError(
                f"{drafts[marker].name} and {path} are both the {marker.kind} of cluster {marker.cluster}; give one"
            )
        drafts[marker] = Draft(str(path), marker, body)
    return tuple(drafts.values())


def open_comments(pull_request: PullRequest, token: Secret, transport: Transport) -> Comments:
    """Return the comments of a pull request; nothing is asked yet."""
    kind = GitHub if pull_request.platform is Platform.GITHUB else GitLab
    return kind(pull_request.api, pull_request.repository, pull_request.number, token, transport)


def make_transport(
    ca_file: Path | None = None, limits: Limits = DEFAULT_LIMITS, clock: Clock = SYSTEM_CLOCK
) -> Transport:
    """Return how requests are sent: again for at most a minute after a failure that may pass.

    `ca_file` holds the certificates that are trusted, in PEM; `None` for those of the system. `limits` is how long a
    request may take.
    """
    retry = Retry(sleep=clock.sleep, monotonic=clock.monotonic, now=clock.now, total=_PATIENCE)
    return Transport(retry=retry, limits=limits, ca_file=ca_file)


def post_comments(
    comments: Comments,
    drafts: Sequence[Draft],
    mode: CommentMode,
    *,
    commit: str | None = None,
    is_dry_run: bool = False,
) -> Iterator[CommentOutcome]:
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
            yield CommentOutcome(draft, step if is_dry_run else _write(comments, step, posted))
        except QuotaformError as error:
            yield CommentOutcome(draft, error=error)


def _write(comments: Comments, step: CommentStep, posted: Sequence[Posted]) -> CommentStep:
    body = step.draft.body
    if step.action in (CommentAction.CREATE, CommentAction.UPDATE) and len(body) > comments.longest:
        raise QuotaformError(
            f"{step.draft.name} has {len(body):,} characters, and a comment of {comments.name} at most "
            f"{comments.longest:,}; nothing was sent"
        )
    if step.action is CommentAction.CREATE:
        return replace(step, target=_create(comments, step.draft, {each.id for each in posted}))
    if step.action is CommentAction.UPDATE and step.target is not None:
        updated = comments.update(step.target.id, body)
        return replace(step, target=updated)
    return step


def _create(comments: Comments, draft: Draft, known: set[int]) -> Posted:
    """Write a comment once: after a failure it may be there all the same, so that it is looked for."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return comments.create(draft.body)
        except HttpError as error:
            is_unknown = error.may_have_arrived and (error.status is None or error.status >= 500)
            if not is_unknown:
                raise
        for each in comments.comments():
            if each.is_own and each.id not in known and read_marker(each.body) == draft.marker:
                return each
    return comments.create(draft.body)
