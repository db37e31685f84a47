"""What formatting changes in a file, and other changes of files, as unified diffs."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from re import compile as regex
from typing import Final

from quotaform.core.result import FormattedFile
from quotaform.printable import printable
from quotaform.views.style import PLAIN, Style

_COLOURS: Final = {"+": "green", "-": "red", "@": "dim"}
_HEADINGS: Final = 2
_NO_LINE_END: Final = "\\ No newline at end of file"

_lines: Final = regex(r"[^\n]*\n|[^\n]+").findall


def render_format_diff(file: FormattedFile, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of the diff between a file and the same file formatted; none when they are the same."""
    return render_diff(file.name, file.before, file.after, style)


def render_diff(path: str, before: str, after: str, style: Style = PLAIN, *, is_new: bool = False) -> Iterator[str]:
    """Yield the lines of the diff between two states of a file; none when they are the same."""
    name = path.lstrip("/")  # `git apply` takes no absolute path.
    source = "/dev/null" if is_new else f"a/{name}"
    diff = unified_diff(_lines(before), _lines(after), source, f"b/{name}")
    for number, line in enumerate(diff):
        text = printable(line.removesuffix("\n"))
        colour = "bold" if number < _HEADINGS else _COLOURS.get(line[0])
        yield f"{style.paint(text, colour) if colour else text}\n"
        if not line.endswith("\n"):
            yield f"{_NO_LINE_END}\n"
