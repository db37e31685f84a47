"""Text of one line that can neither move a cursor, begin another line nor give a command to a CI runner."""

from __future__ import annotations

from typing import Final

COMMAND: Final = "::"
"""What begins a command of GitHub Actions at the beginning of a line, and ends its name: `::error::text`."""
COMMAND_MARKS: Final = ("##[", "##vso[")
"""What runners of GitHub Actions and Azure Pipelines take for a command, wherever it stands in a line of a log."""
ANNOTATIONS: Final = ("error", "warning", "notice")
"""The commands that show a message beside a file and do nothing else."""
_LONGEST_BEGINNING: Final = max(map(len, COMMAND_MARKS)) - 1

_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def printable(text: str) -> str:
    r"""Return a text as one line: what is not printable is escaped as in JSON, and a command of a CI runner is broken.

    Controls, line separators, bidirectional marks and lone surrogates are not printable.

    >>> print(printable("team a"), printable("a\n::error\x1b[31m"), printable("##[error]"))
    team a a\n::error\u001b[31m ##\u005berror]
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


def is_command(line: str) -> bool:
    """Whether GitHub Actions takes a line for a command.

    >>> is_command("  ::error::a"), is_command("::1"), is_command("a::b::c")
    (True, False, False)
    """
    begin, command, _ = line.lstrip().partition(COMMAND)
    return not begin and bool(command) and line.count(COMMAND) > 1


def is_annotation(line: str) -> bool:
    """Whether a line is one printable command of GitHub Actions that shows a message, and no other command.

    >>> is_annotation("::error file=a.yaml::b"), is_annotation("::set-env name=a::b"), is_annotation("::error::##[x")
    (True, False, False)
    """
    name = line[len(COMMAND) :].partition(" ")[0].partition(COMMAND)[0] if line.startswith(COMMAND) else ""
    return name in ANNOTATIONS and is_command(line) and printable(line) == line


def break_commands(text: str) -> str:
    r"""Escape the `[` of each mark of a command, which a JSON string and a YAML one read as the same text."""
    for mark in COMMAND_MARKS:
        text = text.replace(mark, f"{mark[:-1]}{spell(mark[-1])}")
    return text


def break_lines(text: str, before: str = "") -> str:
    r"""Break the commands in lines that may come in pieces: how they are split makes no difference.

    That is why a character is escaped for what stands before it alone, and `::` at the beginning of a line whether
    `is_command` or not: the rest of the line is not known yet.

    >>> print(break_lines("::error::a"), break_lines(":error::a", before=":"), break_lines("[error]", before="##"))
    :\u003aerror::a \u003aerror::a \u005berror]

    `before`: what was written already of the line that it goes on with, or its `line_end`.
    """
    whole = before + text
    if "##" in whole:
        whole = break_commands(whole)
    if COMMAND in whole:
        from re import sub

        whole = sub(r"(?m)^([ \t]*:):", lambda found: found[1] + spell(":"), whole)
    return whole[len(before) :]


def line_end(text: str) -> str:
    r"""Return what `break_lines` has to know of the last line that was written: a few characters.

    >>> line_end("a\n  :"), line_end("a ##vso")
    (':', '-##vso')
    """
    line = text.rpartition("\n")[2].lstrip(" \t")
    return f"-{line[-_LONGEST_BEGINNING:]}" if len(line) > _LONGEST_BEGINNING else line
