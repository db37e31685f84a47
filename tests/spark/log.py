"""What a command says on stderr beside the progress of Spark."""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex
from typing import Final

from tests.workflow.command import Result

_BEGINS: Final = regex(r"^[A-Z].* on Spark( \(.*\))? \.\.\.\n", MULTILINE)


_REACHED: Final = regex(r"^[A-Z].* [\d,]+ of [\d,]+ \(\d+%\) \.\.\.\n", MULTILINE)
"""How far it is: printed every 30 seconds, so on a slow machine only."""


def without_progress(text: str) -> str:
    """Return what is on stderr without the lines that say what Spark begins."""
    return _BEGINS.sub("", _REACHED.sub("", text))


def messages(result: Result) -> str:
    """Return what is on stderr without progress, and the line that says what Spark begins, which must be there once."""
    text, begun = _BEGINS.subn("", _REACHED.sub("", result.err))
    assert begun == 1, result.err
    return text
