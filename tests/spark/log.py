"""What a command says on stderr beside the progress of Spark."""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex
from typing import Final

from tests.workflow.command import Result

_BEGINS: Final = regex(r"^[A-Z].* on Spark( \(.*\))? \.\.\.\n", MULTILINE)


def without_progress(text: str) -> str:
    """Return what is on stderr without the lines that say what Spark begins."""
    return _BEGINS.sub("", text)


def messages(result: Result) -> str:
    """Return what is on stderr without the line that says what Spark begins, which must be there once."""
    text, begun = _BEGINS.subn("", result.err)
    assert begun == 1, result.err
    return text
