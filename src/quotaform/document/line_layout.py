"""Reading JSON that `quotaform.document.envelope.document_lines` wrote, item by item instead of all at once."""

from __future__ import annotations

from collections.abc import Iterator
from json import loads
from typing import Any, Final

_START: Final = b"{\n"
_LIST: Final = b": ["
_LIST_END: Final = b"\n  ]"
_ITEM: Final = b"    "


class LayoutError(Exception):
    """A text that has another layout; it may be the same JSON all the same."""


class ItemLines:
    """The items of a long list, each decoded when it is asked for: the list is never in memory whole."""

    __slots__ = ("_content", "_end", "_start")

    def __init__(self, content: bytes, start: int, end: int) -> None:
        """Read the lines from one position to another."""
        self._content, self._start, self._end = content, start, end

    def __iter__(self) -> Iterator[Any]:
        """Yield the items.

        Raises:
            LayoutError: A line is not exactly one item.
        """
        start = self._start
        while start < self._end:
            end = self._content.find(b"\n", start, self._end)
            is_last = end < 0
            line = self._content[start : self._end if is_last else end]
            if not line.startswith(_ITEM) or line.endswith(b",") is is_last:
                raise LayoutError
            yield _decoded(line if is_last else line[:-1])
            start = self._end if is_last else end + 1


def read_lines(content: bytes) -> dict[str, Any]:
    """Return a document; the value of a list with a line per item is an `ItemLines`.

    Whatever is returned is what `json.loads` returns: every line is checked to be a field or an item for itself.

    Raises:
        LayoutError: It has another layout, or is no JSON.
    """
    document: dict[str, Any] = {}
    if not content.startswith(_START):
        raise LayoutError
    position = len(_START)
    is_last = False
    while not is_last:
        end = content.find(b"\n", position)
        line = content[position:end]
        if line.endswith(_LIST):
            close = content.find(_LIST_END, end)
            if min(end, close) < 0:
                raise LayoutError
            document[_name(line[: -len(_LIST)])] = ItemLines(content, end + 1, close)
            position = close + len(_LIST_END)
            end = content.find(b"\n", position)
            line = content[position:end]
            is_last = not line
            if line not in (b"", b","):
                raise LayoutError
        else:
            is_last = not line.endswith(b",")
            fields = _decoded(b"{" + line.removesuffix(b",") + b"}")
            if not fields:
                raise LayoutError
            document.update(fields)
        if end < 0:
            raise LayoutError
        position = end + 1
    if content[position:] != b"}\n":
        raise LayoutError
    return document


def _name(line: bytes) -> str:
    name = _decoded(line)
    if not isinstance(name, str):
        raise LayoutError
    return name


def _decoded(line: bytes) -> Any:
    try:
        return loads(str(line, "ascii"))
    except (ValueError, RecursionError):
        raise LayoutError from None
