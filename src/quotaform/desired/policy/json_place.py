"""Finds the position of a value in JSON text."""

from __future__ import annotations

from json import JSONDecoder
from re import compile as regex
from typing import Final

from quotaform.model.text import line_and_column

_SPACE: Final = regex(r"[ \t\n\r]*")
_BETWEEN: Final = regex(r"[ \t\n\r,]*")


def place_of(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Return the line and the column, from 1 on, of the value at a path; for a field, where its name begins.

    >>> place_of('{"a": 1,\\n "b": [0, {"c": 2}]}', ("b", 1, "c"))
    (2, 12)

    Args:
        text: It is known to be JSON.
        path: The fields and indexes that lead there; where it leads nowhere, the last value on the way is meant.
    """
    position = shown = _after(_SPACE, text, 0)
    for step in path:
        found = _find(text, position, step)
        if found is None:
            break
        shown, position = found
    return line_and_column(text, shown)


def _find(text: str, position: int, step: str | int) -> tuple[int, int] | None:
    """Return where a member of the container at a position is shown, and where its value begins."""
    decoder = JSONDecoder()
    is_object = text[position] == "{"
    if text[position] not in "{[" or is_object != isinstance(step, str):
        return None
    closing, index = "}" if is_object else "]", 0
    position += 1
    while text[position := _after(_BETWEEN, text, position)] != closing:
        shown, name = position, index
        if is_object:
            name, position = decoder.raw_decode(text, position)
            position = _after(_SPACE, text, _after(_SPACE, text, position) + 1)
        if name == step:
            return shown, position
        _, position = decoder.raw_decode(text, position)
        index += 1
    return None


def _after(space: object, text: str, position: int) -> int:
    match = space.match(text, position)  # type: ignore[attr-defined]
    return match.end() if match else position
