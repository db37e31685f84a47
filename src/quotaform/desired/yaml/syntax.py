"""Readable messages for YAML syntax errors, with the probable cause."""

from __future__ import annotations

from re import MULTILINE
from re import compile as regex
from typing import Any, Final

_CONFLICT: Final = regex(r"^(?:<{7}|>{7}|\|{7})(?: |$)", MULTILINE).search
_WINDOW: Final = 1000
_HINTS: Final = {
    "did not find expected alphabetic or numeric character": 'quote a text that begins with * or &, as in "*"',
    "mapping values are not allowed in this context": "quote a text that contains a colon and a space, and write a "
    "space after the colon of a key",
    "could not find expected ':'": "write KEY: VALUE, or - ITEM in a list",
    "did not find expected '-' indicator": "indent all fields of an item equally, and begin each item with -",
    "did not find expected key": "indent all keys of a mapping equally",
    "did not find expected ',' or '}'": 'close the { with }, and quote a text that contains ": " or a quote',
    "did not find expected ',' or ']'": 'close the [ with ], and quote a text that contains ": " or a quote',
    "found unexpected end of stream": "close the quote",
    "found unknown escape character": r"in double quotes, write a backslash as \\",
    "found invalid Unicode character escape code": "half of a surrogate pair is not a character",
    "block sequence entries are not allowed in this context": "begin a list on a new line",
    "did not find expected comment or line break": "quote a text that begins with | or >",
    "did not find expected whitespace or line break": "quote a text that begins with !",
}


def syntax_text(error: Any, text: str) -> str:
    """Return the message about an error of the YAML parser.

    Args:
        error: The `MarkedYAMLError`.
    """
    begun = f" {error.context}" if error.context else ""
    if begun and error.context_mark:
        begun += f" that begins on line {error.context_mark.line + 1}"
    hint = _hint(error, text)
    return f"not valid YAML: {error.problem}{begun}{f'; {hint}' if hint else ''}"


def _hint(error: Any, text: str) -> str | None:
    """Return what was probably meant, from the problem and the character at which it was found."""
    mark = error.problem_mark
    end = mark.index if mark else 0
    at, before = text[end : end + 1], text[max(0, end - min(mark.column, _WINDOW)) : end] if mark else ""
    if _CONFLICT(text):
        return "resolve the merge conflict in this file and remove the lines <<<<<<<, ======= and >>>>>>>"
    if at == "\t" or (before.isspace() and "\t" in before):
        return "indent with spaces, YAML does not allow tabs"
    if before.endswith("$") and at == "{":
        return 'quote a text with a reference, as in "${env:NAME}"'
    if error.problem == "found character that cannot start any token":
        if at == "%" and before.endswith("{"):
            return "is this a template that was not rendered?"
        return f"quote a text that begins with {at}" if at in {"@", "`", "%"} else None
    if error.problem == "did not find expected node content":
        if at == ":":
            return 'quote a text that begins with a colon, as in "::1"'
        return f"something is missing before {at or 'the end of the file'}"
    return _HINTS.get(error.problem or "")
