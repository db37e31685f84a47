"""Strict JSON parsing: rejects duplicate names and invalid constants, and reports lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from json import JSONDecoder
from re import compile as regex
from typing import Any, Final, NoReturn

MOST_VALUES: Final = 2_000_000
"""How many values a text may hold that is read as a whole; an entity of a snapshot has eight or so."""

_BETWEEN: Final = regex(r"[ \t\n\r]*,?[ \t\n\r]*")


def has_too_many_values(text: str | bytes) -> bool:
    """Whether a text may hold so many values that reading it takes all memory; what is in its strings counts, too."""
    if isinstance(text, str):
        return sum(map(text.count, "{[,")) > MOST_VALUES
    return sum(map(text.count, (b"{", b"[", b","))) > MOST_VALUES


class RepeatedNames(dict[str, Any]):
    """A JSON object that contains a field twice."""

    repeated: tuple[str, ...] = ()


def mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its pairs, as `RepeatedNames` if a name comes twice."""
    content = dict(pairs)
    if len(content) == len(pairs):
        return content
    marked = RepeatedNames(content)
    marked.repeated = tuple(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    return marked


class RepeatedNameError(Exception):
    """A JSON object contains a field twice. `name` is the field."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of its pairs. Raises `RepeatedNameError` if a name comes twice."""
    content = mark_repeated(pairs)
    if isinstance(content, RepeatedNames):
        raise RepeatedNameError(content.repeated[0])
    return content


class ConstantError(Exception):
    """NaN, Infinity or -Infinity as a bare word."""


def refuse_constant(word: str) -> NoReturn:
    """Raise for a bare word that Python would take for a number.

    Raises:
        ConstantError: Always.
    """
    raise ConstantError(word)


def item_lines(text: str, field: str) -> Iterator[int]:
    """Yield the line on which each item of a list in the top object begins; the text is known to be JSON."""
    decoder = JSONDecoder()
    position = _next(text, 0) + 1
    while text[position := _next(text, position)] != "}":
        name, position = decoder.raw_decode(text, position)
        position = _next(text, _next(text, position) + 1)
        if name == field and text[position] == "[":
            position += 1
            break
        _, position = decoder.raw_decode(text, position)
    else:
        return
    line, counted = 1, 0
    while text[position := _next(text, position)] != "]":
        line += text.count("\n", counted, position)
        counted = position
        yield line
        _, position = decoder.raw_decode(text, position)


def _next(text: str, position: int) -> int:
    """Return where the next token begins, stepping over white space and one comma."""
    match = _BETWEEN.match(text, position)
    return match.end() if match else position
