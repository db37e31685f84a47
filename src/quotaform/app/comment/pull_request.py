"""Which pull request a run is for: what the variables of GitHub Actions and of GitLab CI say, or the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from json import loads
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from quotaform.errors import FileReadError, QuotaformError, UsageError
from quotaform.files import MIB, read_bytes
from quotaform.http.message import Url
from quotaform.model.secret import Secret
from quotaform.model.text import quote
from quotaform.model.variable import OwnSecret
from quotaform.notify import github, gitlab

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
    """A pull request of GitHub, or a merge request of GitLab.

    Attributes:
        api: The URL of the REST API.
        repository: `owner/name`, or the number or the path of a project of GitLab.
        number: The number; GitLab calls it iid.
        commit: The commit that the run is for; `None` where nothing says it.
    """

    platform: Platform
    api: Url
    repository: str
    number: int
    commit: str | None = None


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
