"""Tables of Kafka's JmxTool: a header with the names of attributes, a line per time.

| cell | content |
| --- | --- |
| of the header | `"time"`, then `"object name:attribute"`; quotes within an object name are not doubled |
| time | milliseconds since the epoch, or what `--date-format` makes: ISO 8601; without a zone it is UTC |
| other | the value; empty if there is none |

A header stands again where a later run was appended to the file.

With `--report-format csv`, `tsv` or `properties` there is no header, but a line per time and a line per value:

| line | csv | tsv | properties |
| --- | --- | --- | --- |
| time | `time,"1795000000000"` | `time`, a tab, the time | `time=1795000000000` |
| value | `object name:attribute,"5.5"` | `object name:attribute`, a tab, the value | `object name:attribute=5.5` |

Source: org.apache.kafka.tools.JmxTool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from re import Match
from re import compile as regex
from typing import Final

from quotaform.model.moment import read_moment
from quotaform.model.text import quote
from quotaform.usage.format.text import Source, make_sample, read_epoch, text_lines
from quotaform.usage.metric import PROPERTY, Measure, read_known_object_name
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Dropped, DropReason, Item, Rejected, Sample, Unreadable, reject

Columns = Sequence[Measure | DropReason | Unreadable]
"""What the columns after the time are."""

_TIME = regex(r'"?time"?(?:,|$)').match
_CELL = regex(rf'"([^:"]+:{PROPERTY}(?:,{PROPERTY})*):([^",:]+)"(?:,|$)').match
_HEADLESS: Final = (
    "there is no header above it; JmxTool writes none when some MBeans lack some of the attributes: "
    "run it once per type of quota with the attributes of that type, or with --report-format csv"
)
_NUMBER = regex(r"[0-9]+").fullmatch
_TIME_LINE = regex(r'time(?:,"(?P<csv>[^":]*(?::[^"]*)?)"|[\t=](?P<other>[^\t=]*))').fullmatch
_VALUE_LINE = regex(
    r'(?P<name>[^:"]+:.+):(?P<attribute>[\w.-]+)(?:,"(?P<csv>[^"]*)"|[\t=](?P<other>[^\t=]*))'
).fullmatch
_MESSAGE = regex(r"Trying to connect to JMX url: .*").fullmatch
"""What JmxTool says before it begins; it is in the file if both of its outputs are."""


def parse_jmxtool(source: Source, origin: Origin, ts: float | None = None) -> Iterator[Item]:
    """Yield what is in a table; a position is the number of a line, from 1.

    The last line may have no end: unless it is the only row, its last cell may be a part of a number then, and is
    rejected.

    `origin`: what counts, as MBeans do not say where they are from. `ts`: not used: each line has its time.
    """
    header, columns, rows = "", None, 0
    at: float | str | None = None
    dropped: Counter[DropReason] = Counter()
    for number, text in enumerate(text_lines(source), start=1):
        line = text.strip()
        if not line or _MESSAGE(line):
            continue
        if time_line := _TIME_LINE(line):
            at = _time(time_line["csv"] or time_line["other"] or "")
            if isinstance(at, str):
                yield reject(number, f"line {number}: {at}; the values below it are left out", line)
        elif at is not None and (value_line := _VALUE_LINE(line)):
            rows += 1
            is_cut = rows > 1 and not text.endswith("\n")
            yield from _value(value_line, at, number, origin, dropped, is_cut=is_cut)
        elif _TIME(line):
            at = None
            if line != header:
                header, columns = line, read_columns(line, origin)
                yield from _unreadable(columns, number)
        elif columns is None or at is not None:
            reason = _HEADLESS if at is None else "neither a time nor an attribute with its value, or cut"
            yield reject(number, f"line {number}: {reason}", line)
        else:
            rows += 1
            yield from _row(columns, number, line, dropped, is_cut=rows > 1 and not text.endswith("\n"))
    yield from (Dropped(reason, count) for reason, count in dropped.items())


def read_columns(header: str, origin: Origin) -> Columns:
    """Return what the columns after the time are.

    `header` is the line with the names of the attributes. `origin` is what counts, as MBeans do not say where they are
    from.
    """
    return [read_known_object_name(name, attribute, origin) for name, attribute in _names(header)]


def _names(header: str) -> Iterator[tuple[str, str]]:
    """Yield object names and attributes of a header, as JmxTool writes it or as another program wrote it again."""
    place, found = (start.end() if (start := _TIME(header)) else 0), []
    while place < len(header) and (cell := _CELL(header, place)):
        found.append((cell[1], cell[2]))
        place = cell.end()
    if place < len(header):
        found = [(name, attribute) for name, _, attribute in (cell.rpartition(":") for cell in _cells(header)[1:])]
    yield from found


def _cells(line: str) -> list[str]:
    """Return the cells of a line; one that holds the line if it is no line of CSV."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(reader([line], strict=True))
    except (CsvError, StopIteration):
        return [line]


def _unreadable(columns: Columns, number: int) -> Iterator[Rejected]:
    for place, column in enumerate(columns, start=2):
        if isinstance(column, Unreadable):
            reason = f"line {number}, column {place}: {column.reason}; all of the column is left out"
            yield reject(number, reason, "")


def _row(
    columns: Columns, number: int, line: str, dropped: Counter[DropReason], *, is_cut: bool
) -> Iterator[Sample | Rejected]:
    cells = _cells(line)
    if len(cells) != len(columns) + 1:
        reason = f"line {number}: {len(cells)} cells, but the header has {len(columns) + 1}; it may be cut"
        yield reject(number, reason, line)
        return
    ts = _time(cells[0])
    if isinstance(ts, str):
        yield reject(number, f"line {number}: {ts}", line)
        return
    for place, (cell, column) in enumerate(zip(cells[1:], columns, strict=True), start=2):
        if isinstance(column, Unreadable):
            continue
        if is_cut and place == len(cells):
            yield reject(number, f"line {number}, column {place}: the file ends here, the value may be cut", cell)
            continue
        sample = column if isinstance(column, DropReason) else make_sample(column, ts, cell.strip())
        if isinstance(sample, Sample):
            yield sample
        elif isinstance(sample, DropReason):
            dropped[sample] += 1
        else:
            yield reject(number, f"line {number}, column {place}: {sample}", cell)


def _value(
    line: Match[str], ts: float | str, number: int, origin: Origin, dropped: Counter[DropReason], *, is_cut: bool
) -> Iterator[Sample | Rejected]:
    """Yield what a line with one value says."""
    raw = line["csv"] if line["csv"] is not None else line["other"]
    measure = read_known_object_name(line["name"], line["attribute"], origin)
    if isinstance(measure, DropReason):
        dropped[measure] += 1
        return
    if isinstance(measure, Unreadable):
        yield reject(number, f"line {number}: {measure.reason}", line[0])
    elif isinstance(ts, str):
        yield reject(number, f"line {number}: the time above it cannot be read", line[0])
    elif is_cut and line["csv"] is None:
        yield reject(number, f"line {number}: the file ends here, the value may be cut", line[0])
    else:
        sample = make_sample(measure, ts, raw)
        if isinstance(sample, Sample):
            yield sample
        elif isinstance(sample, DropReason):
            dropped[sample] += 1
        else:
            yield reject(number, f"line {number}: {sample}", line[0])


def _time(cell: str) -> float | str:
    cell = cell.strip()
    if _NUMBER(cell):
        return read_epoch(cell)
    try:
        return read_epoch(read_moment(cell).timestamp())
    except ValueError:
        example = "--date-format \"yyyy-MM-dd'T'HH:mm:ss.SSSX\""
        return f"{quote(cell)} is not a time in ISO 8601 or milliseconds; run JmxTool with {example}, or without it"
