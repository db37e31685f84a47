"""Comments on a pull request: which of them shows what, and what becomes of it when there is something new to show.

The first line of a comment is a marker that readers do not see:
`<!-- quotaform:plan {"v":1,"cluster":"prod-eu","root":"quotas.d","changes":2} -->`. Comments with the same kind,
cluster and root show the same thing at different times. `changes` is 0 when there is nothing to review.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from json import loads
from re import compile as regex
from typing import Any, Final

_VERSION: Final = 1
_MARKER: Final = regex(r"<!-- quotaform:([a-z][a-z-]{0,30}) (\{.{0,4096}\}) -->").fullmatch


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
class Marker:
    """What a comment shows.

    Attributes:
        kind: `plan`, `drift` and so on.
        cluster: The name of the cluster.
        root: The quotas directory.
    """

    kind: str
    cluster: str
    root: str


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
        found = _read_first_line(self.body)
        changes = None if found is None else found[1].get("changes")
        return type(changes) is int and changes == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A comment that is there.

    Attributes:
        id: Its number on the platform.
        body: Its text.
        author: Who wrote it.
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
        draft: The draft.
        action: What is done.
        target: The comment that is updated or kept.
        duplicates: Further own comments that show the same; they are left as they are.
        others: Who else wrote a comment with the same marker; such comments are never touched.
    """

    draft: Draft
    action: CommentAction
    target: Posted | None = None
    duplicates: int = 0
    others: tuple[str, ...] = ()


def read_marker(body: str) -> Marker | None:
    """Return what a comment shows; `None` when its first line is no marker that this version knows.

    >>> read_marker('<!-- quotaform:plan {"v":1,"cluster":"lab","root":"quotas.d"} -->')
    Marker(kind='plan', cluster='lab', root='quotas.d')
    """
    found = _read_first_line(body)
    if found is None:
        return None
    kind, values = found
    cluster, root = values.get("cluster"), values.get("root")
    if values.get("v") != _VERSION or not isinstance(cluster, str) or not isinstance(root, str):
        return None
    return Marker(kind, cluster, root)


def _read_first_line(body: str) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and the values of a marker; `None` when the first line is none."""
    lines = body[:5000].splitlines()
    found = _MARKER(lines[0].strip()) if lines else None
    try:
        return None if found is None else (found[1], loads(found[2]))
    except (ValueError, RecursionError):
        return None


def plan_comment(draft: Draft, posted: Iterable[Posted], mode: CommentMode) -> CommentStep:
    """Decide what is done for a draft.

    | own comments with its marker | `update` | `changes-only` | `new` |
    | --- | --- | --- | --- |
    | none | create | create, unless there are no changes | create |
    | some; the oldest has the same text | keep | keep | create |
    | some; the oldest has another text | update the oldest | update the oldest | create |

    Args:
        draft: What is to be there.
        posted: All comments, the oldest first.
        mode: When a comment is written.
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
