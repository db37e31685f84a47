"""What a recording says, whatever its format and size: its parts, parsed one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Final

from quotaform.core.usage.format import FORMATS
from quotaform.core.usage.format.jmxtool import parse_jmxtool_lines
from quotaform.core.usage.format.recording_format import (
    EXPOSITION,
    JMXTOOL,
    OTLP,
    PROMETHEUS,
    detect_format,
    is_removed,
)
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.sample.sample import Item, Rejected, Sample, reject
from quotaform.spark.usage.ingest.element import add_element
from quotaform.spark.usage.ingest.parsed_rows import ParsedRows, internal_error
from quotaform.spark.usage.ingest.part import LARGEST_PART, Part, elements, lines
from quotaform.spark.usage.ingest.stream import Range, Stream

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

    Args:
        format_name: Its format; `None` to find out.

    Raises:
        FileReadError: It is a file that cannot be opened.
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

    Args:
        positions: The byte at which each of them begins.
        number: The number of the first one; `None` if it is not known.
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
