"""Text of one line that can neither move a cursor, begin another line nor give a command to a CI runner."""

from __future__ import annotations

TYPE_CHECKING = False  # see `quotaform.cli.stream`
if TYPE_CHECKING:
    from typing import Final

COMMAND_MARKS: Final = ("##[", "##vso[")
"""What runners of GitHub Actions and Azure Pipelines take for a command, wherever it stands in a line of a log."""

_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def printable(text: str) -> str:
    r"""Return a text as one line: what is not printable is escaped as in JSON, and a command of a CI runner is broken.

    Controls, line separators, bidirectional marks and lone surrogates are not printable.

    >>> print(printable("team a"), printable("a\n::error\x1b[31m"), printable("##[error]"))
    team a a\n::error\u001b[31m #\u0023[error]
    """
    if not text.isprintable():
        text = "".join(map(escape, text))
    return break_commands(text) if "##" in text else text


def escape(character: str) -> str:
    r"""Return a character as it is when it is printable, else as an escape of JSON.

    >>> print(escape("a"), escape("\r"), escape("\u202e"))
    a \r \u202e
    """
    return character if character.isprintable() else spell(character)


def spell(character: str) -> str:
    r"""Return the escape of a character in JSON.

    >>> print(spell("a"), spell("\n"), spell("\U0001f600"))
    \u0061 \n \ud83d\ude00
    """
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def break_commands(text: str) -> str:
    """Escape the second `#` of each mark of a command, which a JSON string and a YAML one read as the same text."""
    for mark in COMMAND_MARKS:
        text = text.replace(mark, f"#{spell('#')}{mark[2:]}")
    return text
