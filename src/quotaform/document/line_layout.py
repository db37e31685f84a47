"""Reads documents written by `quotaform.document.envelope.document_lines` one item at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from json import JSONDecoder, loads
from typing import Any, Final

LONGEST_LINE: Final = 16 << 20
"""How many bytes a field or an item may have."""

_raw_decode: Final = JSONDecoder().raw_decode
_START: Final = b"{\n"
_LIST: Final = b": ["
_LIST_END: Final = b"\n  ]"
_ITEM: Final = b"    "


class LayoutError(Exception):
    """A text that has another layout; it may be the same JSON all the same."""


class ItemLines:
    """The items of a long list, each decoded when it is asked for: the list is never in memory whole."""

    __slots__ = ("_content", "_decode", "_end", "_start")

    def __init__(self, content: bytes, start: int, end: int, decode: Callable[[str], Any]) -> None:
        """Read the lines from one position to another."""
        self._content, self._start, self._end, self._decode = content, start, end, decode

    def __iter__(self) -> Iterator[Any]:
        """Yield the items. Raises `LayoutError` if a line is not exactly one item."""
        start = self._start
        while start < self._end:
            end = self._content.find(b"\n", start, self._end)
            is_last = end < 0
            if (self._end if is_last else end) - start > LONGEST_LINE:
                raise LayoutError
            line = self._content[start + len(_ITEM) : self._end if is_last else end]
            if not self._content.startswith(_ITEM, start) or line.endswith(b",") is is_last:
                raise LayoutError
            yield _decoded(line if is_last else line[:-1], self._decode)
            start = self._end if is_last else end + 1


def _whole(text: str) -> Any:
    """Return a value that has no white space around it, which `json.loads` takes its time to look for."""
    value, end = _raw_decode(text)
    if end != len(text):
        raise LayoutError
    return value


def read_lines(content: bytes, decode: Callable[[str], Any] = _whole) -> dict[str, Any]:
    """Return a document; the value of a list with a line per item is an `ItemLines`.

    Whatever is returned is what `json.loads` returns: every line is checked to be a field or an item for itself, and
    every field of the document comes once. `decode` reads the JSON of a line. Raises `LayoutError` if it has another
    layout, or is no JSON.
    """
    document: dict[str, Any] = {}
    if not content.startswith(_START):
        raise LayoutError
    position = len(_START)
    is_last = False
    while not is_last:
        end = content.find(b"\n", position)
        if end - position > LONGEST_LINE:
            raise LayoutError
        line = content[position:end]
        if line.endswith(_LIST):
            close = content.find(_LIST_END, end)
            if min(end, close) < 0:
                raise LayoutError
            fields = {_name(line[: -len(_LIST)]): ItemLines(content, end + 1, close, decode)}
            position = close + len(_LIST_END)
            end = content.find(b"\n", position)
            line = content[position:end]
            is_last = not line
            if line not in (b"", b","):
                raise LayoutError
        else:
            is_last = not line.endswith(b",")
            fields = _decoded(b"{" + line.removesuffix(b",") + b"}", decode)
        if end < 0 or not fields or not document.keys().isdisjoint(fields):
            raise LayoutError
        document.update(fields)
        position = end + 1
    if content[position:] != b"}\n":
        raise LayoutError
    return document


def _name(line: bytes) -> str:
    name = _decoded(line, loads)
    if not isinstance(name, str):
        raise LayoutError
    return name


def _decoded(line: bytes, decode: Callable[[str], Any]) -> Any:
    try:
        return decode(str(line, "ascii"))
    except (ValueError, RecursionError):
        raise LayoutError from None
