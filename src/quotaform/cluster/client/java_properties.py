r"""Parses the `.properties` format of `java.util.Properties`.

| written | read |
| --- | --- |
| `key=value`, `key: value`, `key value` | the key ends at the first `=`, `:` or white space |
| `# …`, `! …` | a comment |
| a `\` at the end of a line | the next line goes on, without its leading white space |
| `\t \n \r \f`, `\uXXXX` | that character |
| any other `\x` | `x`; so `\\` is one backslash |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from re import Match
from re import compile as regex
from typing import Final

from quotaform.model.location import Location

MOST_PROPERTIES: Final = 10_000
"""How many properties are read from a file; Kafka's clients have some 200 in all."""

_LINE_END: Final = regex(r"\r\n|\r|\n")
_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = regex(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_BAD_UNICODE: Final = regex(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})").search
_KEY_END: Final = regex(r"(?<!\\)(?:\\\\)*([=: \t\f])")


@dataclass(frozen=True, slots=True)
class Property:
    """One property; its value may be a secret and does not show.

    Attributes:
        key: The key.
        value: The value, with the white space that may follow it.
        location: Where it is written.
    """

    key: str
    value: str = field(repr=False)
    location: Location


Report = Callable[[str, Location], None]
"""Called with a problem and its place."""


def parse_properties(text: str, file: str, report: Report) -> Iterator[Property]:
    """Yield the properties of a file in their order; a key may come twice, and the last one counts.

    Args:
        text: What the file holds.
        file: Its name, for places.
        report: Called with each line that cannot be read; no message holds anything of the line, which may be a secret.
    """
    for count, (number, line) in enumerate(_logical_lines(text)):
        location = Location(file, number)
        if count == MOST_PROPERTIES:
            report(
                f"this file has more than {MOST_PROPERTIES:,} properties; remove those that no client uses", location
            )
            return
        if _BAD_UNICODE(line):
            report(
                r"a \u on this line is not followed by four hexadecimal digits; write \\u for the two characters",
                location,
            )
            continue
        key, value = _split(line)
        try:
            yield Property(_unescape(key), _unescape(value), location)
        except UnicodeError:
            report(r"a \uXXXX on this line is half of a surrogate pair", location)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their continuations joined, and the number of the first."""
    lines = enumerate(_LINE_END.split(text), 1)
    for number, natural in lines:
        line = natural.lstrip(_BLANK)
        if not line or line[0] in "#!":
            continue
        parts = []
        # What a continued line ends with, less its last backslash, is an even number of them: each part counts alone.
        while _is_continued(line):
            parts.append(line[:-1])
            line = next(lines, (0, ""))[1].lstrip(_BLANK)
        yield number, "".join([*parts, line])


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = _KEY_END.search(line)
    if end is None:
        return line, ""
    key, rest = line[: end.start(1)], line[end.start(1) :].lstrip(_BLANK)
    return key, rest[1:].lstrip(_BLANK) if rest[:1] in {"=", ":"} else rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    # Java's characters are UTF-16: two escapes may make one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")


def _unescape_one(match: Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])
