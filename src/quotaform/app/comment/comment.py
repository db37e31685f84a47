"""Comments on a pull request: each draft becomes one comment, which the next run updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from quotaform.app.clock import SYSTEM_CLOCK, Clock
from quotaform.app.comment.pull_request import Platform, PullRequest
from quotaform.core.comment import CommentAction, CommentMode, CommentStep, Draft, Posted, plan_comment
from quotaform.core.marker import Marker, read_marker
from quotaform.errors import HttpError, QuotaformError, StaleError, UsageError
from quotaform.files import MIB, read_text
from quotaform.http.api import Transport
from quotaform.http.client import DEFAULT_LIMITS, Limits
from quotaform.http.retry import Retry
from quotaform.model.secret import Secret
from quotaform.notify.github import GitHub
from quotaform.notify.gitlab import GitLab

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
    """What became of a draft.

    Attributes:
        step: What was done for it; `None` after a failure.
        error: Why nothing could be done.
    """

    draft: Draft
    step: CommentStep | None = None
    error: QuotaformError | None = None


def read_drafts(paths: Sequence[Path]) -> tuple[Draft, ...]:
    """Read the files of comments.

    Raises:
        FileReadError: A file cannot be read.
        QuotaformError: A file is no comment of quotaform.
        UsageError: Two files show the same.
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

    Args:
        commit: The commit that the drafts are for, if it is known.

    Raises:
        QuotaformError: The comments cannot be read.
        StaleError: The pull request has a newer commit, whose comment must not be replaced.
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
