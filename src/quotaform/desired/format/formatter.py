"""Formats a file, or returns why it is left unchanged."""

from __future__ import annotations

from typing import Final

from quotaform.core.check import rule
from quotaform.core.result import FormattedFile
from quotaform.desired.format.content import is_same, read_content
from quotaform.desired.format.style import arrange
from quotaform.desired.format.tree import UnformattableError, read_tree
from quotaform.desired.format.writer import write_tree
from quotaform.desired.tree import SourceFile, decode
from quotaform.model.finding import Finding
from quotaform.model.location import Location

_MARK: Final = "\ufeff"
_WINDOWS_END: Final = "\r\n"


def format_source(source: SourceFile) -> FormattedFile:
    """Format a file; never raises, whatever it contains.

    The result declares the same and has the same comments. Its line ends are those of the first line.
    """
    text = decode(source)
    if isinstance(text, Finding):
        return FormattedFile(name=source.name, before="", after="", problems=(text,))
    raw = source.text
    is_marked = raw.startswith(_MARK) if isinstance(raw, str) else raw.startswith(_MARK.encode())
    before = _MARK + text if is_marked else text
    lines = text.replace(_WINDOWS_END, "\n").replace("\r", "\n")
    content = read_content(source.name, lines)
    problems = content.problems
    formatted = None if problems else _format(lines)
    if formatted is not None and (formatted == lines or is_same(content, read_content(source.name, formatted))):
        first, end, _ = text.partition("\n")
        if end and first.endswith("\r"):
            formatted = formatted.replace("\n", _WINDOWS_END)
        return FormattedFile(name=source.name, before=before, after=formatted)
    if not problems:
        message = "this file cannot be formatted without changing what it declares, so it is left unchanged"
        problems = [rule.UNFORMATTABLE.finding(message, location=Location(source.name))]
    return FormattedFile(name=source.name, before=before, after=before, problems=tuple(problems))


def _format(text: str) -> str | None:
    """Return the formatted text; `None` if that is not possible."""
    try:
        tree = read_tree(text)
    except UnformattableError:
        return None
    arrange(tree)
    formatted, comments = write_tree(tree)
    return formatted if comments == tree.comments else None
