"""Text in messages: foreign text is quoted, secret text is never shown, types are called by their names.

Nothing that is printed may move a cursor, begin another line or give a command to a CI runner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from json import dumps
from re import sub
from typing import Any, Final

LONGEST: Final = 80
"""The limit on characters of untrusted text in a message."""

_COMPARED: Final = 2 * LONGEST
"""How long a known word may be that an unknown one is compared with, which takes the product of their lengths."""


def quote(text: str, longest: int = LONGEST) -> str:
    r"""Return a text in double quotes, as JSON writes it, so that it cannot forge a line of output.

    Everything that is not printable (controls, line separators, bidirectional marks, lone surrogates) and what a CI
    runner takes for a command is escaped, and what is longer than `longest` characters is cut.

    >>> print(quote("svc-orders"), quote("x\n::error"))
    "svc-orders" "x\n::error"
    >>> print(quote("a" * 100, 3))
    "aaa…" (100 characters)
    """
    if len(text) > longest:
        return f'{quote(text[:longest])[:-1]}…" ({len(text)} characters)'
    quoted = dumps(text, ensure_ascii=False)
    if not quoted.isprintable():
        quoted = "".join(map(escape, quoted))
    return break_commands(quoted)


@lru_cache
def inert(text: str) -> str:
    r"""Return a text as it is when it is one printable line without a command for a CI runner, else quoted.

    >>> print(inert("team a"), inert("a\n::error"), inert("::error::a"))
    team a "a\n::error" "::error::a"
    """
    return quote(text, len(text)) if printable(text) != text or is_command(text) else text


def shorten_middle(text: str, longest: int) -> str:
    """Return a text with its middle left out where it is too long, since names often differ in how they end.

    >>> shorten_middle("user=svc-orders-eu-west-1", 15), shorten_middle("user=a", 15)
    ('user=sv…-west-1', 'user=a')
    """
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def listed(words: Iterable[str], most: int = 10) -> str:
    """Return the first words of a list, and how many more there are.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], 2)
    ('a, b, c', 'a, b and 1 more')
    """
    first = list(islice(words := iter(words), most))
    more = sum(1 for _ in words)
    return f"{', '.join(first)} and {more:,} more" if more else ", ".join(first)


def nearest(word: str, words: Collection[str], *, cutoff: float = 0.6, is_exact: bool = False) -> str | None:
    """Return the known word that is nearest to an unknown one, `None` when none is near, or two equally so.

    `cutoff` is how near it must be, from 0 to 1 (`difflib`). `is_exact` says whether upper and lower case, and `-` and
    `_`, are different.

    >>> nearest("Producer-Byte-Rat", ["producer_byte_rate"])
    'producer_byte_rate'
    >>> nearest("prod", ["prod-a", "prod-b"])
    """
    if len(word) > LONGEST:
        return None
    from difflib import SequenceMatcher, get_close_matches

    def fold(text: str) -> str:
        return text if is_exact else text.lower().replace("-", "_")

    folded = {fold(known): known for known in words if len(known) <= _COMPARED}
    close = get_close_matches(fold(word), folded, n=2, cutoff=cutoff)
    likeness = [SequenceMatcher(None, known, fold(word)).ratio() for known in close]
    return folded[close[0]] if close and likeness.count(likeness[0]) == 1 else None


def did_you_mean(word: str, words: Collection[str]) -> str:
    """Return a suggestion to append to a message, empty when nothing is near.

    >>> did_you_mean("ownr", ["owner", "reason"])
    '; did you mean owner?'
    """
    known = nearest(word, words)
    return f"; did you mean {known}?" if known is not None else ""


def option_of(argument: str) -> str:
    """Return the option of the command line that gives an argument; how options are spelled is known only here.

    >>> option_of("spark_conf")
    '--spark-conf'
    """
    return f"--{argument.replace('_', '-')}"


def require_type(value: object, kinds: type[Any] | tuple[type[Any], ...], argument: str, expected: str) -> None:
    """Make sure that an argument has one of some types; a bool is not a number.

    >>> require_type(5, str, "user", "a string")
    Traceback (most recent call last):
    TypeError: user must be a string, not int

    Raises `TypeError`, which does not quote the value: it may be a secret.
    """
    is_wrong_bool = isinstance(value, bool) and kinds is not bool
    if is_wrong_bool or not isinstance(value, kinds):
        raise TypeError(f"{argument} must be {expected}, not {spell_type(value)}")


def require_items(
    values: object, kinds: type[Any] | tuple[type[Any], ...], argument: str, expected: str
) -> tuple[Any, ...]:
    """Return the items of an argument that is a list of some types; a text is not a list of its letters.

    >>> require_items("a*", str, "select", "strings")
    Traceback (most recent call last):
    TypeError: select must be a list of strings, not str
    >>> require_items(["a*", 5], str, "select", "strings")
    Traceback (most recent call last):
    TypeError: select must be a list of strings; it holds int

    Raises `TypeError`: it is no list, or an item has another type.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{argument} must be a list of {expected}, not {spell_type(values)}")
    items = tuple(values)
    for item in items:
        if not isinstance(item, kinds):
            raise TypeError(f"{argument} must be a list of {expected}; it holds {spell_type(item)}")
    return items


def spell_type(value: object) -> str:
    """Return what messages call the type of a value.

    >>> spell_type(None), spell_type([]), spell_type(str)
    ('None', 'list', 'the class str')
    """
    if value is None:
        return "None"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is printed as stars in messages, logs, tracebacks and `repr`.

    >>> password = Secret("hunter2")
    >>> f"{password} {password!r}", password.reveal()
    ("*** Secret('***')", 'hunter2')
    """

    _text: str = field()

    def reveal(self) -> str:
        """Return the text itself, only to send it over the network."""
        return self._text

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return "Secret('***')"


COMMAND: Final = "::"
"""What begins a command of GitHub Actions at the beginning of a line, and ends its name: `::error::text`."""
COMMAND_MARKS: Final = ("##[", "##vso[")
"""What runners of GitHub Actions and Azure Pipelines take for a command, wherever it stands in a line of a log."""
ANNOTATIONS: Final = ("error", "warning", "notice")
"""The commands that annotate a file with a message and do nothing else."""
_LONGEST_BEGINNING: Final = max(map(len, COMMAND_MARKS)) - 1


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
    return character if character.isprintable() else json_escape(character)


def json_escape(character: str) -> str:
    r"""Return the escape of a character in JSON.

    >>> print(json_escape("a"), json_escape("\n"), json_escape("\U0001f600"))
    \u0061 \n \ud83d\ude00
    """
    escaped = dumps(character)[1:-1]
    return f"\\u{ord(character):04x}" if escaped == character else escaped


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
        text = text.replace(mark, f"{mark[:-1]}{json_escape(mark[-1])}")
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
        whole = sub(r"(?m)^([ \t]*:):", lambda found: found[1] + json_escape(":"), whole)
    return whole[len(before) :]


def line_end(text: str) -> str:
    r"""Return what `break_lines` has to know of the last line that was written: a few characters.

    >>> line_end("a\n  :"), line_end("a ##vso")
    (':', '-##vso')
    """
    line = text.rpartition("\n")[2].lstrip(" \t")
    return f"-{line[-_LONGEST_BEGINNING:]}" if len(line) > _LONGEST_BEGINNING else line


MIB: Final = 1 << 20


def size_text(limit: int) -> str:
    """Return a limit as messages show it.

    >>> size_text(64 * MIB), size_text(1 << 16)
    ('64 MiB', '64 KiB')
    """
    return f"{limit // MIB} MiB" if limit >= MIB else f"{limit // 1024} KiB"
