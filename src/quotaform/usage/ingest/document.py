"""One recording, whatever its format and size: divided into parts, and parsed one part after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import islice
from json import JSONDecodeError, JSONDecoder
from re import Pattern
from re import compile as regex
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from quotaform.model.text import explain_json_error
from quotaform.usage.format import FORMATS
from quotaform.usage.format.jmxtool import parse_jmxtool_lines
from quotaform.usage.format.prometheus import NAME_LABEL, parse_element, read_frame
from quotaform.usage.format.text import (
    EXPOSITION,
    JMXTOOL,
    LARGEST,
    LATEST,
    OTLP,
    PROMETHEUS,
    TOO_LONG,
    detect_format,
    is_removed,
)
from quotaform.usage.ingest.rows import ParsedRows, internal_error
from quotaform.usage.ingest.source import Range, Stream
from quotaform.usage.metric import read_metric
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import DropReason, Item, Rejected, Sample, Unreadable, reject

# Parts of a recording that are parsed on their own, read as a stream: a file of any size takes little memory.
#
# | parts | of | begin with |
# | --- | --- | --- |
# | elements | the JSON of Prometheus, whose series stand in one line or in many | `{"metric":` |
# | lines | JSON lines | the first character of a line |
#
# A range of a file has the parts that begin in it, so that several tasks share a file.

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
    """A part of a file."""

    position: int  # The byte at which it begins; in a compressed file, of what was compressed
    data: bytes  # Its bytes, up to the beginning of the next part; the first ones of a part that is too large
    is_head: bool = False  # Whether it is what stands before the first element
    is_last: bool = False  # Whether the file ends with it
    is_cut: bool = False  # Whether it is too large, and `data` is not all of it


def elements(read: Read, start: int = 0, end: int | None = None) -> Iterator[Part]:
    """Yield the elements of a range; if it begins with the file, what stands before the first one comes first.

    `read`: reads the file from `start` on. `end`: where it ends; `None` is the end of the file.
    """
    return _parts(_ELEMENT, read, start, end, is_open=start == 0, is_begin=True)


def lines(read: Read, start: int = 0, end: int | None = None) -> Iterator[Part]:
    """Yield the lines of a range, with their ends.

    `read`: reads the file from `start` on; from the byte before it, if that is not 0. `end`: where it ends; `None` is
    the end of the file.
    """
    for part in _parts(_LINE, read, max(0, start - 1), end, is_open=start == 0, is_begin=False):
        yield part._replace(is_head=False)


def _parts(
    begin: Pattern[bytes], read: Read, start: int, end: int | None, *, is_open: bool, is_begin: bool
) -> Iterator[Part]:
    """Yield parts: each begins where a pattern does, or ends.

    `begin`: what parts begin with, or what stands before them. `end`: no part begins there or later. `is_open`: whether
    a part begins at `start`, whatever stands there. `is_begin`: whether parts begin with the pattern.
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


# The series elements of Prometheus' JSON: the values of one that nothing is wrong with are converted at once. Others
# are read by `quotaform.usage.format.prometheus`, which says what is wrong; both read the same.

_BETWEEN_ELEMENTS: Final = frozenset({"", ","})
_SHOWN: Final = 1000
_DECODER: Final = JSONDecoder()


def add_element(part: Part, origin: Origin, rows: ParsedRows, file: str, *, head: str | None) -> str | None:
    """Add what an element says.

    `part`: the element, with what stands behind it up to the next one. `head`: what stands before the first element of
    the answer; `None` if the file ends for another reason. Returns the same for the element that follows.
    """
    if part.is_cut:
        rows.add_rejected(_rejected(part, "the series is too large; query shorter ranges of time"), file)
        return head
    text = part.data.decode("utf-8", "surrogateescape")
    try:
        element, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        message = f"nested too deeply, or {TOO_LONG}"
        if isinstance(error, JSONDecodeError):
            _, message = explain_json_error(error)
        rows.add_rejected(_rejected(part, f"not JSON, or cut: {message}"), file)
        return head
    try:
        is_added = _add_values(element, part, origin, rows, file)
    except Exception as error:
        rows.add_rejected(_shifted(internal_error(error, 1, "series 1: "), part), file)
        return head
    if not is_added:
        rows.add_items(parse_element(element, origin, 1), file, lambda item: _shifted(item, part))
    behind = text[end:]
    if head is not None and (part.is_last or behind.strip() not in _BETWEEN_ELEMENTS):
        frame = read_frame(head, behind, is_last=part.is_last)
        for problem in frame.problems:
            rows.add_rejected(_rejected(part, problem), file)
        return frame.head
    return head


def _rejected(part: Part, reason: str) -> Rejected:
    data = part.data[:_SHOWN].decode("utf-8", "surrogateescape")
    return reject(part.position, f"series at byte {part.position}: {reason}", data)


def _shifted(item: Rejected, part: Part) -> Rejected:
    """Return a record of an element with its place in the file instead of the number of the series."""
    reason = item.reason.removeprefix("series 1") if item.position else f": {item.reason}"
    return item._replace(position=part.position, reason=f"series at byte {part.position}{reason}")


def _add_values(element: Any, part: Part, origin: Origin, rows: ParsedRows, file: str) -> bool:
    """Add the values of an element if all of them are right, and return whether they are."""
    match element:
        case {"metric": dict(labels), "values": [_, *_] as pairs} if len(element) == 2:
            name = labels.get(NAME_LABEL)
        case _:
            return False
    if not name or not all(isinstance(value, str) for value in labels.values()):
        return False
    measure = read_metric(name, labels, origin)
    if isinstance(measure, Unreadable):
        return False
    try:
        times, texts = zip(*pairs, strict=True)
        ts = pyarrow.array(times, pyarrow.float64()).to_numpy()
        values = pyarrow.array(texts, pyarrow.string()).cast(pyarrow.float64()).to_numpy()
    except (ValueError, TypeError, pyarrow.ArrowException):
        return False
    if isinstance(measure, DropReason):
        rows.add_dropped(measure, len(ts))
        return True
    is_number = ~numpy.isnan(values)
    if not ((ts > 0) & (ts < LATEST)).all():
        return False
    ts, values = ts[is_number], values[is_number] * measure.factor
    if not ((values >= 0) & (values < LARGEST)).all():
        return False
    if nans := len(is_number) - len(values):
        rows.add_dropped(DropReason.NAN, nans)
    if len(values):
        rows.add_series(measure.series, measure.window_s, ts, values, file, part.position)
    return True


_BATCH_BYTES: Final = 4 * 2**20
"""How many bytes of lines are parsed at once."""
_ITEMS: Final = 10_000
"""How much of a table is added before rows are given on."""
_UNKNOWN: Final = (
    "the file is of no format that is known: neither an answer of Prometheus, metrics of an exporter, CSV of JmxTool, "
    "JSON of OpenTelemetry, nor a table; name it with --input-format if it is one of these, or write its values into a "
    "table (docs/usage-recordings.md#tables)"
)
_REMOVED: Final = (
    "the file is a recording of Jolokia or Telegraf, which is not read any more; ingest what a Prometheus has of the "
    "brokers, to which Telegraf writes, too, or write the values into a table (docs/usage-recordings.md#tables)"
)
_TABLE: Final = "the file is a table; give --input-format table, and --mapping if its columns have other names"


def add_recording(source: Range, format_name: str | None, origin: Origin, rows: ParsedRows) -> Iterator[None]:
    """Add what a range of a recording says; yields after each part of it.

    `format_name`: its format; `None` to find out. Raises `FileReadError` if it is a file that cannot be opened.
    """
    with closing(Stream(source)) as stream:
        name = format_name or detect_format(stream.head)
        if name not in FORMATS:
            if source.start == 0 and stream.head.strip():
                rows.add_rejected(_unknown(name, stream.head), source.file)
        elif source.start == 0 or (not stream.is_compressed and _is_divisible(name, stream.head)):
            yield from _add_parts(stream, source, name, origin, rows)
        if stream.problem is not None:
            reason = f"byte {stream.position} of what is compressed: the file is cut or broken: {stream.problem}"
            rows.add_rejected(reject(stream.position, reason, ""), source.file)


def _unknown(name: str | None, head: bytes) -> Rejected:
    reason = _TABLE if name is not None else _REMOVED if is_removed(head) else _UNKNOWN
    return reject(0, reason, head[:200].decode("utf-8", "replace"))


def _is_divisible(name: str, head: bytes) -> bool:
    """Whether a recording has parts that can be read on their own."""
    return name in (PROMETHEUS, EXPOSITION) or (name == OTLP and _has_lines(head))


def _has_lines(head: bytes) -> bool:
    """Whether each line is a document."""
    first, end, _ = head.lstrip().partition(b"\n")
    return bool(end) and first.startswith(b"{") and first.rstrip().endswith(b"}")


def _add_parts(stream: Stream, source: Range, name: str, origin: Origin, rows: ParsedRows) -> Iterator[None]:
    if name == PROMETHEUS:
        if source.start:
            stream.seek(source.start)
        yield from _add_elements(elements(stream.read, source.start, source.end), stream, source, origin, rows)
    elif name == OTLP and _has_lines(stream.head):
        if source.start:
            stream.seek(source.start - 1)
        for part in lines(stream.read, source.start, source.end):
            if part.data.strip():
                _add_line(part, source, name, origin, rows)
                yield
    elif name == JMXTOOL:
        yield from _add_table(stream, source, origin, rows)
    elif name == EXPOSITION:
        if source.start:
            stream.seek(source.start - 1)
        yield from _add_lines(lines(stream.read, source.start, source.end), source, name, origin, rows)
    else:
        _add_whole(stream, source, name, origin, rows)
        yield


def _add_elements(
    parts: Iterator[Part], stream: Stream, source: Range, origin: Origin, rows: ParsedRows
) -> Iterator[None]:
    head = ""
    if source.start and (first := next(elements(BytesIO(stream.head).read), None)) and first.is_head:
        head = first.data.decode("utf-8", "replace")
    for part in parts:
        if not part.is_head:
            found = add_element(part, origin, rows, source.file, head=head if stream.problem is None else None)
            head = found or ""
        elif part.is_last:
            # There are no series in it: an error, or an empty answer.
            rows.add_items(FORMATS[PROMETHEUS](part.data, origin), source.file)
        else:
            head = part.data.decode("utf-8", "replace")
        yield


def _add_lines(parts: Iterator[Part], source: Range, name: str, origin: Origin, rows: ParsedRows) -> Iterator[None]:
    """Add what lines say, many at a time; the number of a line is known only if the range begins with the file."""
    number = 1
    for some in _batches(parts):
        last = some[-1]
        is_cut = last.is_last and not last.data.endswith(b"\n") and (number > 1 or len(some) > 1)
        whole = some[:-1] if is_cut else some
        first = number if source.start == 0 else None
        _add_batch(whole, first, lambda data: list(FORMATS[name](data, origin, source.at)), source.file, rows)
        if is_cut:
            first = None if first is None else first + len(whole)
            _add_batch(
                [last], first, lambda data: _cut(FORMATS[name](data, origin, source.at), data), source.file, rows
            )
        number += len(some)
        yield


def _add_batch(
    some: Sequence[Part], number: int | None, parse: Callable[[bytes], list[Item]], file: str, rows: ParsedRows
) -> None:
    """Add what lines say; if the parser fails, what each of them says, but for those at which it fails."""
    place = partial(_placed_line, [part.position for part in some], number)
    try:
        items = parse(b"".join(part.data for part in some))
    except Exception as error:
        found = internal_error(error, 1, "line 1: ")
        if len(some) == 1:
            rows.add_rejected(place(found), file)
            return
        for index, part in enumerate(some):
            _add_batch([part], None if number is None else number + index, parse, file, rows)
        return
    rows.add_items(items, file, place)


def _cut(items: Iterable[Item], data: bytes) -> list[Item]:
    """Return what a line says that may be cut."""
    found = list(items)
    if any(isinstance(item, Sample) for item in found):
        return [
            reject(1, "line 1: the file ends here, the value or the time may be cut", data.decode("utf-8", "replace"))
        ]
    return found


def _batches(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Yield parts in lists of some megabytes, of a larger part alone."""
    some: list[Part] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part.data)
        if size >= _BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _placed_line(positions: Sequence[int], number: int | None, item: Rejected) -> Rejected:
    """Return a record of some lines with its place in the file.

    `positions`: the byte at which each of them begins. `number`: the number of the first one; `None` if it is not
    known.
    """
    if not 0 < item.position <= len(positions):
        return item._replace(position=positions[0] if number is None else number)
    rest = item.reason.removeprefix(f"line {item.position}")
    place = positions[item.position - 1] if number is None else number + item.position - 1
    return item._replace(position=place, reason=f"line {'at byte ' if number is None else ''}{place}{rest}")


def _add_line(part: Part, source: Range, name: str, origin: Origin, rows: ParsedRows) -> None:
    def shifted(item: Rejected) -> Rejected:
        return item._replace(position=part.position, reason=f"in the line at byte {part.position}: {item.reason}")

    if part.is_cut:
        rows.add_rejected(shifted(reject(0, "it is too large", part.data.decode("utf-8", "replace"))), source.file)
    else:
        rows.add_items(FORMATS[name](part.data, origin, source.at), source.file, shifted)


def _add_table(stream: Stream, source: Range, origin: Origin, rows: ParsedRows) -> Iterator[None]:
    items = _table_items(stream, origin)
    while some := list(islice(items, _ITEMS)):
        rows.add_items(some, source.file)
        yield


def _table_items(stream: Stream, origin: Origin) -> Iterator[Item]:
    position = 0

    def texts() -> Iterator[str]:
        nonlocal position
        for part in lines(stream.read):
            position = part.position
            yield part.data.decode("utf-8", "surrogateescape")

    try:
        yield from parse_jmxtool_lines(texts(), origin)
    except Exception as error:
        # What a row means depends on the lines above it.
        yield internal_error(error, position, f"line at byte {position}, from which on nothing is read: ")


def _add_whole(stream: Stream, source: Range, name: str, origin: Origin, rows: ParsedRows) -> None:
    pieces, size = [], 0
    while size <= LARGEST_PART and (piece := stream.read(LARGEST_PART)):
        pieces.append(piece)
        size += len(piece)
    rows.add_items(FORMATS[name](b"".join(pieces), origin, source.at), source.file)
