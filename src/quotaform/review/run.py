"""Comments on the pull request that a run is for: each draft becomes one comment, which the next run updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from re import compile as regex
from typing import Final

from msgspec.structs import replace

from quotaform.http.api import Transport
from quotaform.http.client import DEFAULT_LIMITS, Retry, Timeouts
from quotaform.http.message import Url
from quotaform.model.errors import ArgumentError, HttpError, QuotaformError, StaleError, UsageError
from quotaform.model.text import MIB, Secret, option_of, quote
from quotaform.model.variable import OwnSecret
from quotaform.report.comment import Marker, read_marker
from quotaform.review.ci import at, read_event
from quotaform.review.comment import CommentAction, CommentMode, CommentStep, DesiredComment, Posted, plan_comment
from quotaform.review.platform import SITES, Comments, Platform, PullRequest
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import read_text

_REF: Final = regex(r"refs/pull/([0-9]{1,18})/(?:merge|head)").fullmatch
_COMMIT: Final = regex(r"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_NUMBER: Final = regex(r"[1-9][0-9]{0,17}").fullmatch


def find_pull_request(
    environ: Mapping[str, str],
    *,
    platform: Platform | None = None,
    api_url: str | None = None,
    repository: str | None = None,
    number: str | None = None,
    commit: str | None = None,
) -> PullRequest | None:
    """Return the pull request that is meant; `None` when the run of a CI system is for none, such as a push.

    What the command line does not say, the environment does. Raises `UsageError` if they do not say where pull requests
    are, and `QuotaformError` if the event of GitHub cannot be read.
    """
    platform = platform or _detect(environ)
    site = SITES[platform]
    asked = None if number is None else _number(number)
    if number is not None and asked is None:
        raise ArgumentError("{pull_request} takes the number of a pull request, not {}", quote(number))
    if commit is not None and not _COMMIT(commit):
        raise ArgumentError("{commit} takes the whole id of a commit, not {}", quote(commit))
    variables = (environ.get(name) for name in site.repository_variables)
    repository = repository or next(filter(None, variables), "")
    find = _github_number if platform is Platform.GITHUB else _gitlab_number
    found, its_commit = (asked, None) if asked else find(environ)
    if not site.is_repository(repository):
        what, given = "none is given", []
        if repository:
            what = f"{{}} ({{repository}}, or {site.repository_variables[-1]}) is not a repository"
            given = [quote(repository)]
        raise ArgumentError(f"a repository is needed: {what}; give {{repository}} OWNER/NAME", *given)
    try:
        api = Url.parse(api_url or environ.get(site.url_variable) or site.url)
    except ValueError as error:
        raise ArgumentError("the URL of the API cannot be used: {}; check {api_url}", error) from None
    if "?" in api.target:
        raise ArgumentError("the URL of the API cannot be used: it must not contain a query; check {api_url}")
    if found is not None:
        commit = commit or its_commit
        return PullRequest(platform=platform, api=api, repository=repository, number=found, commit=commit)
    if not _is_running(platform, environ):
        raise ArgumentError("a pull request is needed: give {pull_request} NUMBER")
    return None


def find_token(platform: Platform, environ: Mapping[str, str]) -> Secret:
    """Return the token for a platform. Tokens come from the environment alone: other users can read command lines.

    Raises `QuotaformError` if there is none.
    """
    own = SITES[platform].token_variable
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
        raise ArgumentError(
            "this is neither GitHub Actions nor GitLab CI, so say where the comment goes: {platform}, {repository} and "
            "{pull_request}"
        )
    return found[0]


def _is_running(platform: Platform, environ: Mapping[str, str]) -> bool:
    return environ.get(SITES[platform].running_variable) == "true"


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


def _gitlab_number(environ: Mapping[str, str]) -> tuple[int | None, str | None]:
    """Return the number of the merge request, and the commit of its branch.

    That of a pipeline for merged results is another one.
    """
    commit = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ.get("CI_COMMIT_SHA")
    return _number(environ.get("CI_MERGE_REQUEST_IID")), commit or None


def _number(value: object) -> int | None:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return int(text) if _NUMBER(text) else None


DRAFT_LIMIT: Final = 4 * MIB
"""The most bytes of a file with a comment; a comment of GitLab has at most 1,000,000 characters."""
_ATTEMPTS: Final = 3
_PATIENCE: Final = 60.0
"""Seconds: a job waits for a platform no longer."""


def read_drafts(paths: Sequence[Path]) -> tuple[DesiredComment, ...]:
    """Read the files of comments.

    Raises `FileReadError` if a file cannot be read; `QuotaformError` if a file is no comment of quotaform; `UsageError`
    if two files show the same.
    """
    drafts: dict[Marker, DesiredComment] = {}
    for path in paths:
        body = read_text(path, DRAFT_LIMIT)
        marker = read_marker(body)
        if marker is None:
            markdown = path.with_suffix(".md")  # Never over a plan that was given by mistake.
            remedy = f"write it with plan {option_of('out')} markdown={markdown}"
            if markdown != path:
                remedy = f"give what plan {option_of('out')} markdown={markdown} writes"
            raise QuotaformError(f"{path} does not begin with the marker of a comment; {remedy}")
        if marker in drafts:
            raise UsageError(
                f"{drafts[marker].name} and {path} are both the {marker.kind} of cluster {marker.cluster}; give one"
            )
        drafts[marker] = DesiredComment(str(path), marker, body)
    return tuple(drafts.values())


def make_transport(
    ca_file: Path | None = None, limits: Timeouts = DEFAULT_LIMITS, clock: Clock = SYSTEM_CLOCK
) -> Transport:
    """Return how requests are sent: again for at most a minute after a failure that may pass.

    `ca_file` holds the certificates that are trusted, in PEM; `None` for those of the system. `limits` is how long a
    request may take.
    """
    return Transport(retry=Retry(clock=clock, total=_PATIENCE), limits=limits, ca_file=ca_file)


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
    if step.action in (CommentAction.CREATE, CommentAction.UPDATE) and len(body) > comments.site.longest:
        raise QuotaformError(
            f"{step.draft.name} has {len(body):,} characters, and a comment of {comments.site.name} at most "
            f"{comments.site.longest:,}; nothing was sent"
        )
    if step.action is CommentAction.CREATE:
        return replace(step, target=_create(comments, step.draft, {each.id for each in posted}))
    if step.action is CommentAction.UPDATE and step.target is not None:
        return replace(step, target=comments.update(step.target.id, body))
    return step


def _create(comments: Comments, draft: DesiredComment, known: set[int]) -> Posted:
    """Write a comment once: after a failure it may be there all the same, so that it is looked for."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return comments.create(draft.body)
        except HttpError as error:
            if not error.may_have_arrived or (error.status is not None and error.status < 500):
                raise
        for each in comments.comments():
            if each.is_own and each.id not in known and read_marker(each.body) == draft.marker:
                return each
    return comments.create(draft.body)
