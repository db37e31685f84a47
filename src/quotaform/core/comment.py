"""Comments on a pull request: which of them shows what, and what becomes of it when there is something new to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from quotaform.core.marker import Marker, read_changes, read_marker


class CommentMode(StrEnum):
    """When a comment is written."""

    UPDATE = "update"
    CHANGES_ONLY = "changes-only"
    NEW = "new"


class CommentAction(StrEnum):
    """What becomes of a comment."""

    CREATE = "create"
    UPDATE = "update"
    KEEP = "keep"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Draft:
    """A comment that is to be there.

    Attributes:
        name: Where its text comes from, for messages.
        marker: What it shows.
        body: Its text, with the marker.
    """

    name: str
    marker: Marker
    body: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to review: its marker says that there are no changes."""
        return read_changes(self.body) == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A comment that is there.

    Attributes:
        id: Its number on the platform.
        is_own: Whether that is who the token belongs to.
        url: Where it can be read; `None` where the platform does not say.
    """

    id: int
    body: str
    author: str
    is_own: bool
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentStep:
    """What is to be done for a draft.

    Attributes:
        target: The comment that is updated or kept.
        duplicates: Further own comments that show the same; they are left as they are.
        others: Who else wrote a comment with the same marker; such comments are never touched.
    """

    draft: Draft
    action: CommentAction
    target: Posted | None = None
    duplicates: int = 0
    others: tuple[str, ...] = ()


def plan_comment(draft: Draft, posted: Iterable[Posted], mode: CommentMode) -> CommentStep:
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
    is_skipped = mode is CommentMode.CHANGES_ONLY and draft.is_empty
    action = CommentAction.SKIP if is_skipped else CommentAction.CREATE
    return CommentStep(draft=draft, action=action, others=others)


def _text(body: str) -> str:
    """Return a text as platforms keep it, which differ in line ends and in spaces at the end."""
    return body.replace("\r\n", "\n").rstrip()
