"""Parts of a recording that are parsed on their own, read as a stream: a file of any size takes little memory.

| parts | of | begin with |
| --- | --- | --- |
| elements | the JSON of Prometheus, whose series stand in one line or in many | `{"metric":` |
| lines | JSON lines | the first character of a line |

A range of a file has the parts that begin in it, so that several tasks share a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from re import Pattern
from re import compile as regex
from typing import Final, NamedTuple

LARGEST_PART: Final = 256 * 2**20
"""The most bytes of one part: a series of a year at 2 seconds."""
_BLOCK: Final = 4 * 2**20
_ELEMENT: Final = regex(rb'\{\s{0,64}"metric"\s{0,64}:\s{0,64}\{')
_LINE: Final = regex(rb"\n")
_LONGEST_START: Final = 256
"""No beginning of a part is longer."""

Read = Callable[[int], bytes]
"""Returns the next bytes, at most so many; none at the end."""


class Part(NamedTuple):
    """A part of a file.

    Attributes:
        position: The byte at which it begins; in a compressed file, of what was compressed.
        data: Its bytes, up to the beginning of the next part; the first ones of a part that is too large.
        is_head: Whether it is what stands before the first element.
        is_last: Whether the file ends with it.
        is_cut: Whether it is too large, and `data` is not all of it.
    """

    position: int
    data: bytes
    is_head: bool = False
    is_last: bool = False
    is_cut: bool = False


def elements(read: Read, start: int = 0, end: int | None = None) -> Iterator[Part]:
    """Yield the elements of a range; if it begins with the file, what stands before the first one comes first.

    Args:
        read: Reads the file from `start` on.
        end: Where it ends; `None` is the end of the file.
    """
    return _parts(_ELEMENT, read, start, end, is_open=start == 0, is_begin=True)


def lines(read: Read, start: int = 0, end: int | None = None) -> Iterator[Part]:
    """Yield the lines of a range, with their ends.

    Args:
        read: Reads the file from `start` on; from the byte before it, if that is not 0.
        end: Where it ends; `None` is the end of the file.
    """
    for part in _parts(_LINE, read, max(0, start - 1), end, is_open=start == 0, is_begin=False):
        yield part._replace(is_head=False)


def _parts(
    begin: Pattern[bytes], read: Read, start: int, end: int | None, *, is_open: bool, is_begin: bool
) -> Iterator[Part]:
    """Yield parts: each begins where a pattern does, or ends.

    Args:
        begin: What parts begin with, or what stands before them.
        end: No part begins there or later.
        is_open: Whether a part begins at `start`, whatever stands there.
        is_begin: Whether parts begin with the pattern.
    """
    buffer, origin, searched = bytearray(), start, 0
    # Where the part that is being read begins: in the buffer, and in the file.
    place, position = 0, start
    is_head, cut = True, None
    while True:
        block = read(_BLOCK)
        buffer += block
        # What begins at the very end of the buffer may go on in the next block.
        limit = len(buffer) - _LONGEST_START if block else len(buffer)
        while (found := begin.search(buffer, searched)) is not None and found.start() < limit:
            next_place = found.start() if is_begin else found.end()
            if is_open and (next_place > place or not is_head):
                data = bytes(memoryview(buffer)[place:next_place]) if cut is None else cut
                yield Part(position, data, is_head, is_cut=cut is not None)
            is_open, is_head, cut = True, False, None
            place, position, searched = next_place, origin + next_place, found.end()
            if end is not None and position >= end:
                return
        if not block:
            if is_open and (len(buffer) > place or cut is not None):
                data = bytes(memoryview(buffer)[place:]) if cut is None else cut
                yield Part(position, data, is_head, is_last=True, is_cut=cut is not None)
            return
        searched = max(searched, limit)
        if is_open and cut is None and searched - place > LARGEST_PART:
            cut = bytes(memoryview(buffer)[place : place + _LONGEST_START])
        passed = place if is_open and cut is None else searched
        if passed > 0:
            del buffer[:passed]
            origin, searched, place = origin + passed, searched - passed, max(0, place - passed)
