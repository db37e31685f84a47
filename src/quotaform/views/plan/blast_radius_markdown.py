"""The blast radius of a plan in a comment: a sentence, and a table of the largest changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.core.blast_radius import BlastRadius, RadiusCounts
from quotaform.core.resolve.entry import Effective
from quotaform.views.markdown import code, code_cell, table, words_cell
from quotaform.views.plan.blast_radius_text import (
    LIST_OPTION,
    TITLE,
    affected_text,
    all_changes,
    change_text,
    limit_value_text,
    source_text,
)
from quotaform.views.style import counted

_HEADER: Final = ("Principal", "Quota", "Now", "After", "Change")
_LONGEST_SOURCE: Final = 100


def blast_radius_section(radius: BlastRadius | None) -> Iterator[str]:
    """Yield the section with the largest changes."""
    if radius is None:
        return
    yield from blast_radius_sentence(radius)
    if not radius.largest:
        return
    yield "<details><summary>Largest changes of limits</summary>\n\n"
    yield from table(
        _HEADER,
        (
            (
                code_cell(change.principal.address),
                code_cell(change.key),
                _limit_cell(change.key, change.before),
                _limit_cell(change.key, change.after),
                words_cell(change_text(change)),
            )
            for change in radius.largest
        ),
    )
    yield "\n"
    if radius.file is not None:
        yield f"All changes of limits ({all_changes(radius):,}): {code(radius.file, _LONGEST_SOURCE)}\n\n"
    elif left := all_changes(radius) - len(radius.largest):
        yield f"And {counted(left, 'more change')} (list: `{LIST_OPTION} FILE`).\n\n"
    yield "</details>\n\n"


def _limit_cell(key: str, limit: Effective) -> str:
    source = "" if limit.source is None else f" from {code_cell(limit.source.address)}"
    return f"{words_cell(limit_value_text(key, limit))}{source}"


def blast_radius_sentence(radius: BlastRadius | None) -> Iterator[str]:
    """Yield the section in its shortest form."""
    if radius is not None:
        yield f"**{TITLE}:** {affected_text(radius, shown_source(radius))}\n\n"


def shown_source(radius: RadiusCounts) -> str:
    """Return where the list of principals comes from, as Markdown."""
    source = source_text(radius)
    return source if radius.source == "scram" else code(source, _LONGEST_SOURCE)
