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

from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader
from re import compile as regex
from typing import Final

from quotaform.usage.format.text import Found, Parsed, Source, make_sample, read_time, text_lines
from quotaform.usage.metric import PROPERTY, Read, read_object_name
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Sample

_TIME = regex(r'"?time"?(?:,|$)').match
_CELL = regex(rf'"([^:"]+:{PROPERTY}(?:,{PROPERTY})*):([^",:]+)"(?:,|$)').match
_HEADLESS: Final = (
    "there is no header above it; run JmxTool once per type of quota with the attributes of that type, "
    "or with --report-format csv"
)
_CUT: Final = "the file ends here, the value may be cut"
_TIME_LINE = regex(r'time(?:,"(?P<csv>[^":]*(?::[^"]*)?)"|[\t=](?P<other>[^\t=]*))').fullmatch
_VALUE_LINE = regex(
    r'(?P<name>[^:"]+:.+):(?P<attribute>[\w.-]+)(?:,"(?P<csv>[^"]*)"|[\t=](?P<other>[^\t=]*))'
).fullmatch


def parse_jmxtool(source: Source, origin: Origin, _at: float) -> Iterator[Found]:
    """Yield what is in a table; a position is the number of a line, from 1.

    The last line may have no end: unless it is the only row, its last cell may be a part of a number then, and is
    rejected.
    """
    columns: list[Read] | None = None  # What the columns after the time are
    header, rows = "", 0
    ts: float | str | None = None
    for number, text in enumerate(text_lines(source), start=1):
        line, place = text.strip(), f"line {number}"
        # JmxTool says where it connects to; that is in the file if both of its outputs are.
        if not line or line.startswith("Trying to connect to JMX url: "):
            continue
        if time_line := _TIME_LINE(line):
            ts = _time(time_line["csv"] or time_line["other"] or "")
            if isinstance(ts, str):
                yield number, place, f"{ts}; the values below it are left out", line
        elif ts is not None and (value_line := _VALUE_LINE(line)):
            rows += 1
            measure = read_object_name(value_line["name"], value_line["attribute"], origin)
            raw = value_line["other"] if value_line["csv"] is None else value_line["csv"]
            result = make_sample(measure, "the time above it cannot be read" if isinstance(ts, str) else ts, raw)
            is_cut = rows > 1 and not text.endswith("\n") and value_line["csv"] is None
            yield number, place, _CUT if is_cut and isinstance(result, Sample) else result, line
        elif _TIME(line):
            ts = None
            if line != header:
                header, columns = line, [read_object_name(*each, origin) for each in _names(line)]
                for column, measure in enumerate(columns, start=2):
                    if isinstance(measure, str):
                        yield number, f"{place}, column {column}", f"{measure}; all of the column is left out", ""
        elif columns is None or ts is not None:
            yield (
                number,
                place,
                _HEADLESS if ts is None else "neither a time nor an attribute with its value, or cut",
                line,
            )
        else:
            rows += 1
            is_cut = rows > 1 and not text.endswith("\n")
            for cell_place, result, cell in _row(columns, line, is_cut=is_cut):
                yield number, place + cell_place, result, cell


def _names(header: str) -> list[tuple[str, str]]:
    """Return object names and attributes of a header, as JmxTool writes it or as another program wrote it again."""
    place, found = (start.end() if (start := _TIME(header)) else 0), []
    while place < len(header) and (cell := _CELL(header, place)):
        found.append((cell[1], cell[2]))
        place = cell.end()
    if place == len(header):
        return found
    return [(name, attribute) for name, _, attribute in (cell.rpartition(":") for cell in _cells(header)[1:])]


def _cells(line: str) -> list[str]:
    """Return the cells of a line; one that holds the line if it is no line of CSV."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(reader([line], strict=True))
    except (CsvError, StopIteration):
        return [line]


def _row(columns: Sequence[Read], line: str, *, is_cut: bool) -> Iterator[tuple[str, Parsed, str]]:
    """Yield what the columns of a line say, each with its place in the line."""
    cells = _cells(line)
    if len(cells) != len(columns) + 1:
        yield "", f"{len(cells)} cells, but the header has {len(columns) + 1}; it may be cut", line
        return
    ts = _time(cells[0])
    if isinstance(ts, str):
        yield "", ts, line
        return
    for place, (cell, column) in enumerate(zip(cells[1:], columns, strict=True), start=2):
        if not isinstance(column, str):
            result = _CUT if is_cut and place == len(cells) else make_sample(column, ts, cell.strip())
            yield f", column {place}", result, cell


def _time(cell: str) -> float | str:
    ts = read_time(cell.strip())
    example = "--date-format \"yyyy-MM-dd'T'HH:mm:ss.SSSX\""
    return f"{ts}; run JmxTool with {example}, or without it" if isinstance(ts, str) else ts
