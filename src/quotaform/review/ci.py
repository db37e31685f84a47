"""The base that a CI system names: what a pull request is compared with, or the commit before a push.

| system | run | base |
| --- | --- | --- |
| GitHub Actions | pull request | `origin/$GITHUB_BASE_REF`, else the base commit of the event file |
| GitHub Actions | merge queue | the base commit of the event file |
| GitHub Actions | push | `before` of the event file |
| GitLab CI | merge request | `$CI_MERGE_REQUEST_DIFF_BASE_SHA`, else its target branch at origin |
| GitLab CI | push | `$CI_COMMIT_BEFORE_SHA` |

There is none for the first push of a branch, and in runs of any other kind. Variables and the event file are checked:
what is no id and no name of a branch is no base.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from json import loads
from pathlib import Path
from re import compile as regex
from typing import Any, Final

from quotaform.model.errors import FileReadError, QuotaformError
from quotaform.model.text import MIB
from quotaform.plan.base import REMOTE_REFS, BaseChoice
from quotaform.system.files import read_bytes

is_commit_id: Final = regex(r"[0-9a-f]{40}|[0-9a-f]{64}").fullmatch
_is_branch: Final = regex(
    r"(?!.*(?:\.\.|@\{|//))[^-\s~^:?*\[\\\x00-\x20\x7f][^\s~^:?*\[\\\x00-\x20\x7f]{0,254}"
).fullmatch


def find_ci_base(environment: Mapping[str, str]) -> BaseChoice | None:
    """Return the base that the CI system names; `None` elsewhere, and in a run that has none."""
    if environment.get("GITHUB_ACTIONS") == "true":
        event: Any = None
        with suppress(QuotaformError):
            event = read_event(environment)
        if branch := environment.get("GITHUB_BASE_REF"):
            commit = _commit(at(event, "pull_request", "base", "sha"))
            return _choice("GITHUB_BASE_REF", _branch(branch), commit, is_proposed=True)
        if environment.get("GITHUB_EVENT_NAME") == "merge_group":
            commit = _commit(at(event, "merge_group", "base_sha"))
            return _choice("the merge group of GITHUB_EVENT_PATH", commit, is_proposed=True)
        if environment.get("GITHUB_EVENT_NAME") == "push":
            return _choice("the push of GITHUB_EVENT_PATH", _commit(at(event, "before")))
    elif environment.get("GITLAB_CI") == "true":
        commit = _commit(environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"))
        target = _branch(environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""))
        if commit or target:
            name = "CI_MERGE_REQUEST_DIFF_BASE_SHA" if commit else "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
            return _choice(name, commit, target, is_proposed=True)
        return _choice("CI_COMMIT_BEFORE_SHA", _commit(environment.get("CI_COMMIT_BEFORE_SHA")))
    return None


def _choice(found_in: str, *refs: str | None, is_proposed: bool = False) -> BaseChoice | None:
    given = tuple(ref for ref in refs if ref)
    return BaseChoice(refs=given, found_in=found_in, is_proposed=is_proposed) if given else None


def _branch(name: str) -> str | None:
    return f"{REMOTE_REFS}origin/{name}" if _is_branch(name) else None


def _commit(identity: object) -> str | None:
    """Return the id of a commit; zeros are none, as before the first push of a branch."""
    is_commit = isinstance(identity, str) and is_commit_id(identity) and identity.strip("0")
    return str(identity) if is_commit else None


def read_event(environment: Mapping[str, str]) -> Any:
    """Return the event that started a run of GitHub Actions; `None` when no variable names it."""
    path = environment.get("GITHUB_EVENT_PATH", "")
    try:
        return loads(read_bytes(Path(path), 32 * MIB)) if path else None
    except FileReadError as error:
        raise QuotaformError(f"the event of GITHUB_EVENT_PATH: {error}") from None
    except (ValueError, RecursionError):
        raise QuotaformError("the event of GITHUB_EVENT_PATH is not JSON") from None


def at(document: Any, *names: str) -> object:
    """Return what a document has at a path of names; `None` if that is nothing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document
