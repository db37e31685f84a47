"""Rows of a table as `PARSED`, by a mapping of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, NumericType, StructType, TimestampNTZType
from pyspark.sql.types import TimestampType as Timestamp

from quotaform.usage.format.table import TS, VALUE_FIELDS, TableMapping, TimeUnit, parse_rows
from quotaform.usage.ingest.recording import with_cluster
from quotaform.usage.ingest.rows import PARSED, parsed_batches
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Item, Rejected

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

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

    def _items(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[str, Item]]:
        current: dict[str, Any] = {}

        def rows() -> Iterator[dict[str, Any]]:
            nonlocal current
            for batch in batches:
                names = batch.schema.names
                for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    current = dict(zip(names, cells, strict=True))
                    yield current

        for item in with_cluster(parse_rows(rows(), self.mapping, self.origin)):
            if isinstance(item, Rejected) and item.position:
                yield self._file(current[_FILE]), self._placed(item, current[_POSITION])
            else:
                yield self.name, item

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
