"""Rows of a table as `PARSED`, by a mapping of its columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
import pyarrow
from msgspec.structs import replace
from numpy.typing import NDArray
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, NumericType, StructType, TimestampNTZType
from pyspark.sql.types import TimestampType as Timestamp

from quotaform.usage.format.table import (
    TS,
    VALUE_FIELDS,
    Measures,
    TableMapping,
    TimeUnit,
    parse_rows,
    read_names,
    read_times,
)
from quotaform.usage.format.text import LARGEST
from quotaform.usage.ingest.recording import with_cluster
from quotaform.usage.ingest.rows import PARSED, SeriesSamples, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Dropped, DropReason, Item, Rejected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Known: TypeAlias = dict[tuple[str | None, ...], Measures | DropReason | str]
"""What was read in the names of rows."""

_FILE: Final = "quotaform file"
_POSITION: Final = "quotaform position"
_LOCAL: Final = "file:"
_POSITIONS: Final = {"parquet": ("row", "_metadata.row_index")}
"""What the position of a row counts, and which column has it, by the format of files."""
_BLOCK: Final = ("in the block at byte", "_metadata.file_block_start")
"""The same of formats that have no numbers of rows."""


def parsed_table(table: DataFrame, name: str, kind: str | None, mapping: TableMapping, origin: Origin) -> DataFrame:
    """Return `PARSED` of a table.

    `table`: the table, which has the columns of the mapping. `kind`: the format of its files; `None` if it is one of
    the catalog.
    """
    types = {each.name: each.dataType for each in table.schema}
    numbers = {mapping.columns[field] for field in VALUE_FIELDS if field in mapping.columns}
    time, unit = _time(_column(mapping.columns[TS]), types[mapping.columns[TS]])
    columns = {column: _number if column in numbers else _name for column in mapping.names - {mapping.columns[TS]}}
    counted, position = _POSITIONS.get(kind or "", _BLOCK)
    rows = table.select(
        time.alias(mapping.columns[TS]),
        *(read(_column(column), types[column]).alias(column) for column, read in columns.items()),
        (f.lit(None) if kind is None else f.col("_metadata.file_path")).cast("string").alias(_FILE),
        (f.lit(None) if kind is None else f.col(position)).cast("long").alias(_POSITION),
    )
    reader = Reader(name, replace(mapping, time_unit=unit or mapping.time_unit), origin, counted)
    return rows.mapInArrow(reader.parsed, PARSED)


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")


def _name(column: Column, kind: DataType) -> Column:
    """Return a cell as text, or as JSON if it has several values."""
    return f.to_json(column) if isinstance(kind, MapType | ArrayType | StructType) else column.cast("string")


def _number(column: Column, kind: DataType) -> Column:
    return column.cast("double" if isinstance(kind, NumericType) else "string")


def _time(column: Column, kind: DataType) -> tuple[Column, TimeUnit | None]:
    """Return a time as a number, and what it counts; `None` if the mapping says it, or its size."""
    if isinstance(kind, Timestamp):
        return f.unix_micros(column), TimeUnit.US
    if isinstance(kind, TimestampNTZType):
        return f.timestamp_diff("MICROSECOND", f.lit("1970-01-01").cast("timestamp_ntz"), column), TimeUnit.US
    if isinstance(kind, DateType):
        return f.unix_date(column) * 86400, TimeUnit.S
    return _number(column, kind), None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the rows of a table; runs on an executor."""

    name: str
    mapping: TableMapping
    origin: Origin
    counted: str  # What the position of a row counts

    def parsed(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield `PARSED` of rows."""
        return parsed_batches(self._items(batches))

    def _items(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[str, Item | SeriesSamples]]:
        current: dict[str, Any] = {}
        known: Known = {}

        def rows(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any]]:
            nonlocal current
            for row in batch.to_pylist():
                current = row
                yield row

        def items() -> Iterator[Item | SeriesSamples]:
            for batch in batches:
                rest = yield from self._plain(batch, known)
                yield from parse_rows(rows(rest), self.mapping, self.origin)

        for item in with_cluster(items()):
            if isinstance(item, Rejected) and item.position:
                yield self._file(current[_FILE]), self._placed(item, current[_POSITION])
            else:
                yield self.name, item

    def _plain(self, batch: pyarrow.RecordBatch, known: Known) -> Generator[Any, None, pyarrow.RecordBatch]:
        """Yield the samples of rows whose numbers are as they should be, and return the other rows."""
        fields = [name for name in VALUE_FIELDS if name in self.mapping.columns]
        cells = batch.select([self.mapping.columns[name] for name in (*fields, TS)])
        if not batch.num_rows or any(each.type == pyarrow.string() for each in cells.schema):
            return batch
        *numbers, ts = (each.cast("double", safe=False).to_numpy(zero_copy_only=False) for each in cells.columns)
        names = sorted(self.mapping.names - {*cells.schema.names})
        group, found = _groups(batch.select(names))
        for row in found:
            if row not in known:
                known[row] = read_names(dict(zip(names, row, strict=True)), self.mapping, self.origin)
        read = [known[row] for row in found]
        # A series without a cluster is rejected with its rows.
        measures = [each if isinstance(each, dict) and each[fields[0]].series.cluster else None for each in read]
        factors = numpy.array([[each[name].factor if each else 0.0 for each in measures] for name in fields])
        is_valid = numpy.stack([each.is_valid().to_numpy(zero_copy_only=False) for each in cells.columns[:-1]])
        with numpy.errstate(over="ignore", invalid="ignore"):
            value = numpy.stack(numbers) * factors[:, group]
        is_good, is_nan = (value >= 0) & (value < LARGEST), is_valid & numpy.isnan(numbers)
        ts = read_times(ts, self.mapping.time_unit)
        is_plain = (~is_valid | is_good | is_nan).all(axis=0) & is_valid.any(axis=0) & (ts > 0)
        is_plain &= numpy.array([each is not None for each in measures])[group]
        yield Dropped(DropReason.NAN, int((is_nan & is_plain).sum()))
        for name, is_found, values in zip(fields, is_good & is_plain, value, strict=True):
            places = numpy.flatnonzero(is_found)
            places = places[numpy.argsort(group[places], kind="stable")]
            micros, values = numpy.rint(ts[places] * 1e6).astype("int64"), values[places]
            ends = numpy.searchsorted(group[places], numpy.arange(len(measures) + 1)).tolist()
            for each, begin, end in zip(measures, ends, ends[1:], strict=False):
                if each and begin < end:
                    part = slice(begin, end)
                    yield SeriesSamples(each[name].series, each[name].window_s, micros[part], values[part])
        is_dropped = numpy.array([isinstance(each, DropReason) for each in read])[group]
        yield from (Dropped(read[each], 1) for each in group[is_dropped].tolist())
        return batch.filter(pyarrow.array(~(is_plain | is_dropped)))

    def _file(self, path: str | None) -> str:
        """Return what a file is called that Spark read: the source, if it is that file."""
        if path is None:
            return self.name
        local = path.removeprefix(_LOCAL)
        is_source = local.endswith(f"/{PurePosixPath(self.name).as_posix()}") or local == self.name
        return self.name if is_source else local

    def _placed(self, item: Rejected, position: int | None) -> Rejected:
        """Return a record with its place in the file."""
        reason = item.reason.partition(": ")[2]
        if position is None:
            return item._replace(position=0, reason=reason)
        return item._replace(position=position, reason=f"{self.counted} {position}: {reason}")


def _groups(names: pyarrow.RecordBatch) -> tuple[NDArray[numpy.int64], list[tuple[str | None, ...]]]:
    """Return the number of the names of each row, and the names of each number."""
    group = numpy.zeros(names.num_rows, "int64")
    for column in names.columns:
        encoded = column.dictionary_encode("encode")
        pair = group * len(encoded.dictionary) + encoded.indices.to_numpy()
        group = pyarrow.array(pair).dictionary_encode().indices.to_numpy().astype("int64")
    first = numpy.flatnonzero(numpy.diff(numpy.maximum.accumulate(group), prepend=-1))
    return group, [tuple(row.values()) for row in names.take(first).to_pylist()] if names.num_columns else [()]
