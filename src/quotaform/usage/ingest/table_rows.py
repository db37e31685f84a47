"""Rows of tables as `parsed_rows.PARSED`, by a mapping of their columns.

What distinguishes series is read once for each distinct combination of cells, by the definition of
`quotaform.usage.format.table`; times and values are converted by columns. A row whose time or value is odd is
read by the definition, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy
import pyarrow
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from quotaform.usage.format.table import LARGEST_FACTOR, TIME_SIZES, TS, UNITS_PER_SECOND, TableMapping, parse_rows
from quotaform.usage.format.text import LARGEST, LATEST
from quotaform.usage.ingest.rows import PARSED, ParsedRows
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Dropped, DropReason, Rejected, Sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VALUES: Final = ("value", "rate", "throttle_ms")
_LARGEST: Final = LARGEST / (LARGEST_FACTOR * 1e10)
"""Up to which size a number is in order whatever it is multiplied by, also by the factor of its metric."""
_ROWS_AT_ONCE: Final = 262_144
"""How many rows are grouped by series at a time."""
_SECONDS: Final = "seconds"
_ODD: Final = "odd_"
"""What columns begin with that have a cell as it is, if it could not be converted."""
_IS_ODD: Final = "is_odd"
_FILE: Final = "file"
_LOCAL: Final = "file:"
_POSITION: Final = "position"
_BLOCK: Final = "_metadata.file_block_start"
_POSITIONS: Final = {"parquet": "_metadata.row_index"}
"""What says where a row is, for formats that know better than in which block of the file."""
_ZONED: Final = r"(Z|[+-]\d\d:?\d\d)$"
_FIRST_ROW: Final = "row 1: "


@dataclass(frozen=True, slots=True)
class Reader:
    """How rows are read."""

    name: str
    mapping: TableMapping
    origin: Origin
    names: tuple[str, ...]  # The columns that distinguish series
    values: tuple[str, ...]  # The fields with numbers
    place: str  # What the position of a row counts


class _Measured(NamedTuple):
    """What a field of the rows of a series is: a sample of 1, or why there is none."""

    field: str
    found: Sample | Dropped | Rejected


def parsed_table(table: DataFrame, name: str, kind: str | None, mapping: TableMapping, origin: Origin) -> DataFrame:
    """Return `parsed_rows.PARSED` of a table.

    `table`: the table, which has the columns of the mapping. `kind`: the format of its files; `None` if it is one of
    the catalog.
    """
    values = tuple(field for field in _VALUES if field in mapping.columns)
    numbers = {TS, *values}
    names = [column for field, column in mapping.columns.items() if field not in numbers]
    names = list(dict.fromkeys([*names, *mapping.labels.values()]))
    types = {each.name: each.dataType for each in table.schema}
    seconds = _seconds(mapping, types[mapping.columns[TS]])
    is_odd = seconds.isNull()
    selected = {_SECONDS: seconds, f"{_ODD}{TS}": f.when(is_odd, _column(mapping.columns[TS]).cast("string"))}
    for field in values:
        cell = _column(mapping.columns[field])
        number = cell.try_cast("double")
        is_odd_here = cell.isNotNull() & (number.isNull() | ~(number.between(0, _LARGEST) | f.isnan(number)))
        is_odd |= is_odd_here
        selected |= {field: number, f"{_ODD}{field}": f.when(is_odd_here, cell.cast("string"))}
    file, position = (None, None) if kind is None else ("_metadata.file_path", _POSITIONS.get(kind, _BLOCK))
    for alias, place, type_name in ((_FILE, file, "string"), (_POSITION, position, "long")):
        selected[alias] = f.when(is_odd, f.lit(None) if place is None else f.col(place)).cast(type_name)
    rows = table.select(
        *(_name(each, types[each]).alias(f"name_{number}") for number, each in enumerate(names)),
        *(column.alias(each) for each, column in selected.items()),
        is_odd.alias(_IS_ODD),
    )
    reader = Reader(
        name, mapping, origin, tuple(names), values, "row" if kind in _POSITIONS else "in the block at byte"
    )
    return rows.mapInArrow(partial(parsed_batches, reader), PARSED)


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")


def _name(name: str, kind: DataType) -> Column:
    """Return a cell as text, or as JSON if it has several values."""
    return (
        f.to_json(_column(name)) if isinstance(kind, MapType | ArrayType | StructType) else _column(name).cast("string")
    )


def _seconds(mapping: TableMapping, kind: DataType) -> Column:
    """Return the time in seconds since the epoch; null if it is not converted here."""
    column = _column(mapping.columns[TS])
    if isinstance(kind, TimestampType):
        return f.unix_micros(column) / 1e6
    if isinstance(kind, TimestampNTZType):
        epoch = f.lit("1970-01-01").cast("timestamp_ntz")
        return f.timestamp_diff("MICROSECOND", epoch, column) / 1e6
    if isinstance(kind, DateType):
        return f.unix_date(column) * 86400.0
    number = column.try_cast("double")
    if mapping.time_unit is not None:
        found = number / UNITS_PER_SECOND[mapping.time_unit]
    else:
        found = number
        for size, per_second in reversed(TIME_SIZES):
            found = f.when(number >= size, number / per_second).otherwise(found)
    if not isinstance(kind, NumericType):
        # A time without a zone is in UTC, whatever the session has.
        text = column.cast("string")
        moment = f.when(text.rlike(_ZONED), text).otherwise(f.concat(text, f.lit("Z")))
        found = f.coalesce(found, f.unix_micros(f.try_to_timestamp(moment)) / 1e6)
    return f.when((found > 0) & (found < LATEST), found)


class _Columns(NamedTuple):
    """Numbers of rows."""

    numbers: Mapping[str, numpy.ndarray]  # By field; what is absent is not a number
    absent: Mapping[str, numpy.ndarray]  # By field, whether there is no value
    rows: numpy.ndarray  # Which rows are meant


def parsed_batches(reader: Reader, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Parse rows; runs on an executor."""
    rows = ParsedRows()
    known: dict[tuple[str | None, ...], list[_Measured]] = {}
    waiting: list[pyarrow.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _ROWS_AT_ONCE:
            _add_rows(pyarrow.Table.from_batches(waiting), reader, known, rows)
            waiting = []
            yield from rows.batches()
    if waiting:
        _add_rows(pyarrow.Table.from_batches(waiting), reader, known, rows)
    yield from rows.rest()


def _add_rows(
    table: pyarrow.Table, reader: Reader, known: dict[tuple[str | None, ...], list[_Measured]], rows: ParsedRows
) -> None:
    """Add the rows of a table, series by series."""
    if not table.num_rows:
        return
    table = table.combine_chunks()
    code = _codes([table.column(f"name_{number}") for number in range(len(reader.names))], table.num_rows)
    # Only numbers are brought into the order of series: names are long, and few of them differ.
    order = numpy.argsort(code, kind="stable")
    code = code[order]
    begins = numpy.flatnonzero(numpy.append(True, code[1:] != code[:-1]))
    firsts = pyarrow.array(order[begins])
    names = [table.column(f"name_{number}").take(firsts).to_pylist() for number in range(len(reader.names))]
    columns = {each: table.column(each).to_numpy()[order] for each in (_SECONDS, *reader.values)}
    absent = {each: table.column(each).is_null().to_numpy()[order] for each in reader.values}
    is_odd = table.column(_IS_ODD).to_numpy()[order]
    ends = [*begins[1:], table.num_rows]
    series = zip(*names, strict=True) if names else [()]
    for cells, begin, end in zip(series, begins, ends, strict=True):
        measured = known.get(cells)
        if measured is None:
            measured = known[cells] = _measured(cells, reader)
        chosen = numpy.flatnonzero(~is_odd[begin:end]) + begin
        _add_series(measured, _Columns(columns, absent, chosen), reader, rows)
        if len(chosen) < end - begin:
            odd = order[begin:end][is_odd[begin:end]]
            _add_odd(cells, table.take(pyarrow.array(odd)).to_pylist(), reader, rows)


def _codes(columns: list[pyarrow.ChunkedArray], count: int) -> numpy.ndarray:
    """Return for each row the number of its combination of cells."""
    code = numpy.zeros(count, numpy.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        own = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False).astype(numpy.int64)
        if len(encoded.dictionary) + encoded.null_count > 1:
            both = pyarrow.array(code * (len(encoded.dictionary) + 1) + own).dictionary_encode()
            code = both.indices.to_numpy().astype(numpy.int64)
    return code


def _cells(names: tuple[str | None, ...], reader: Reader, numbers: dict[str, object]) -> dict[str, object]:
    """Return a row as the definition takes it."""
    found: dict[str, object] = dict(zip(reader.names, names, strict=True))
    return found | {reader.mapping.columns[field]: number for field, number in numbers.items()}


def _measured(names: tuple[str | None, ...], reader: Reader) -> list[_Measured]:
    """Return what the fields of a series are: what the definition says of rows in which one field is 1."""
    found = []
    for field in reader.values:
        row = _cells(names, reader, {TS: _time({_SECONDS: 1.0}, reader), field: 1.0})
        item = next(parse_rows([row], reader.mapping, reader.origin))
        found.append(_Measured(field, item))
    return found


def _add_series(measured: list[_Measured], columns: _Columns, reader: Reader, rows: ParsedRows) -> None:
    """Add the samples of rows of one series, none of which is odd."""
    count = len(columns.rows)
    if not count:
        return
    first = measured[0].found
    if isinstance(first, Dropped):
        rows.add_dropped(first.reason, count)
        return
    if isinstance(first, Rejected):
        reason = first.reason.removeprefix(_FIRST_ROW)
        rows.add_rejected(
            first._replace(position=0, reason=f"{count:,} row{'' if count == 1 else 's'}: {reason}"), reader.name
        )
        return
    is_absent = numpy.ones(count, bool)
    for field, sample in measured:
        if not isinstance(sample, Sample):
            continue
        values, absent = columns.numbers[field][columns.rows], columns.absent[field][columns.rows]
        is_absent &= absent
        is_number = ~numpy.isnan(values)
        if is_number.any():
            seconds = columns.numbers[_SECONDS][columns.rows]
            kept = values[is_number] * sample.value
            rows.add_series(sample.series, sample.window_s, seconds[is_number], kept, reader.name, 0)
        if nans := int((~is_number & ~absent).sum()):
            rows.add_dropped(DropReason.NAN, nans)
    if missing := int(is_absent.sum()):
        rows.add_dropped(DropReason.MISSING, missing)


def _add_odd(names: tuple[str | None, ...], found: list[dict[str, Any]], reader: Reader, rows: ParsedRows) -> None:
    """Add rows that are read by the definition, one by one."""
    for cells in found:
        numbers: dict[str, object] = {TS: cells[f"{_ODD}{TS}"] if cells[_SECONDS] is None else _time(cells, reader)}
        for field in reader.values:
            odd = cells[f"{_ODD}{field}"]
            numbers[field] = cells[field] if odd is None else odd
        items = parse_rows([_cells(names, reader, numbers)], reader.mapping, reader.origin)
        rows.add_items(items, _file(cells[_FILE], reader.name), partial(_placed, cells[_POSITION], reader.place))


def _file(path: str | None, name: str) -> str:
    """Return what a file is called that Spark read: the source, if it is that file."""
    if path is None:
        return name
    local = path.removeprefix(_LOCAL)
    return name if local.endswith(f"/{PurePosixPath(name).as_posix()}") or local == name else local


def _placed(position: int | None, place: str, item: Rejected) -> Rejected:
    """Return a record with its place in the file."""
    if position is None:
        return item._replace(position=0, reason=item.reason.removeprefix(_FIRST_ROW))
    return item._replace(position=position, reason=f"{place} {position}: {item.reason.removeprefix(_FIRST_ROW)}")


def _time(cells: dict[str, Any], reader: Reader) -> float:
    unit = reader.mapping.time_unit
    seconds: float = cells[_SECONDS]
    return seconds * (UNITS_PER_SECOND[unit] if unit is not None else 1.0)
