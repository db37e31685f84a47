"""What became of a comment on a pull request, as a person reads it."""

from __future__ import annotations

from typing import Final

from quotaform.core.comment import CommentAction, CommentStep
from quotaform.model.entity import spell_name
from quotaform.model.text import inert, listed
from quotaform.views.style import counted

_DONE: Final = {
    CommentAction.CREATE: "created",
    CommentAction.UPDATE: "updated",
    CommentAction.KEEP: "up to date",
    CommentAction.SKIP: "not created, because there are no changes",
}
_PLANNED: Final = {
    CommentAction.CREATE: "would be created",
    CommentAction.UPDATE: "would be updated",
    CommentAction.KEEP: "is up to date",
    CommentAction.SKIP: "would not be created, because there are no changes",
}


def render_comment(step: CommentStep, *, is_dry_run: bool = False) -> str:
    """Return one line about a comment."""
    marker = step.draft.marker
    what = (_PLANNED if is_dry_run else _DONE)[step.action]
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
