"""Comments on a pull request: which of them shows what, what becomes of it when there is something new, and how that
is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from quotaform.model.entity import spell_name
from quotaform.model.errors import QuotaformError
from quotaform.model.text import inert, listed
from quotaform.report.comment import Marker, read_marker
from quotaform.report.text import counted


class CommentMode(StrEnum):
    """When a comment is written."""

    UPDATE = "update"
    CHANGES_ONLY = "changes-only"
    NEW = "new"


class CommentAction(StrEnum):
    """What is done with a comment."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    SKIP = "skip"


class DesiredComment(Struct, frozen=True):
    """A comment that is to be there."""

    name: str  # Where its text comes from, for messages
    marker: Marker  # What it shows
    body: str  # Its text, with the marker


class Posted(Struct, frozen=True, kw_only=True):
    """A comment that is there."""

    id: int  # Its number on the platform
    body: str
    author: str
    is_own: bool  # Whether that is who the token belongs to
    url: str | None = None  # Where it can be read; `None` where the platform does not say


class CommentStep(Struct, frozen=True, kw_only=True):
    """What is to be done for a draft, or was."""

    draft: DesiredComment
    action: CommentAction
    target: Posted | None = None  # The comment that is updated or kept
    duplicates: int = 0  # Further own comments that show the same; they are left as they are
    others: tuple[str, ...] = ()  # Who else wrote a comment with the same marker; such comments are never touched
    error: QuotaformError | None = None  # Why it could not be done


def plan_comment(draft: DesiredComment, posted: Iterable[Posted], mode: CommentMode) -> CommentStep:
    """Decide what is done for a draft. `posted` holds all comments, the oldest first.

    | own comments with its marker | `update` | `changes-only` | `new` |
    | --- | --- | --- | --- |
    | none | create | create, unless there are no changes | create |
    | some; the oldest has the same text | keep | keep | create |
    | some; the oldest has another text | update the oldest | update the oldest | create |
    """
    same = [each for each in posted if read_marker(each.body) == draft.marker]
    own = [each for each in same if each.is_own]
    others = tuple(sorted({each.author for each in same if not each.is_own}))
    if own and mode is not CommentMode.NEW:
        is_same = _text(own[0].body) == _text(draft.body)
        action = CommentAction.KEEP if is_same else CommentAction.UPDATE
        return CommentStep(draft=draft, action=action, target=own[0], duplicates=len(own) - 1, others=others)
    is_skipped = mode is CommentMode.CHANGES_ONLY and draft.marker.changes == 0
    action = CommentAction.SKIP if is_skipped else CommentAction.CREATE
    return CommentStep(draft=draft, action=action, others=others)


def _text(body: str) -> str:
    """Return a text as platforms keep it, which differ in line ends and in spaces at the end."""
    return body.replace("\r\n", "\n").rstrip()


_DONE: Final = {
    CommentAction.CREATE: ("created", "would be created"),
    CommentAction.UPDATE: ("updated", "would be updated"),
    CommentAction.KEEP: ("up to date", "is up to date"),
    CommentAction.SKIP: (
        "not created, because there are no changes",
        "would not be created, because there are no changes",
    ),
}
"""What was done, and what would be."""


def render_comment(step: CommentStep, *, is_dry_run: bool = False) -> str:
    """Return one line about a comment."""
    marker = step.draft.marker
    what = _DONE[step.action][is_dry_run]
    place = f": {inert(step.target.url)}" if step.target is not None and step.target.url else ""
    return f"Comment on the {marker.kind} of {spell_name(marker.cluster)}: {what}{place}\n"


def comment_warnings(step: CommentStep) -> list[str]:
    """Return what is odd about the comments that were there."""
    name = spell_name(step.draft.marker.cluster)
    lines = []
    if step.others:
        who = listed(map(inert, step.others))
        lines.append(f"Warning: {who} wrote a comment with the marker of {name}; it was left as it is.")
    if step.duplicates:
        count = counted(step.duplicates, "more comment")
        lines.append(f"Warning: {count} of this token with the marker of {name} left as is; delete what is outdated.")
    return lines
