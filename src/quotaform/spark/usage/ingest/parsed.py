"""Recordings as `parsed_rows.PARSED`: parsed by tasks, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.core.usage.origin import Origin
from quotaform.spark.usage.ingest.parsed_rows import PARSED

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from quotaform.core.usage.sample import Rejected


def parsed(ranges: DataFrame, format_name: str | None, origin: Origin) -> DataFrame:
    """Return `parsed_rows.PARSED` of recordings.

    Args:
        ranges: `source.RANGES`: ranges of files, or whole contents.
        format_name: Their format, one of `quotaform.core.usage.format.FORMATS`; `None` to find out for each.
        origin: What counts for metrics that do not say where they are from.
    """
    return ranges.mapInArrow(partial(_parsed, format_name, origin), PARSED)


def parsed_records(records: DataFrame, format_name: str, origin: Origin) -> DataFrame:
    """Return `parsed_rows.PARSED` of records that are whole documents, such as those of a topic.

    Args:
        records: The columns `file`, `position`, `data` (binary) and `at` (when it was written, in seconds since the
            epoch). A record that cannot be read, or a part of it, keeps `file` and `position`.
        format_name: Their format.
        origin: What counts for metrics that do not say where they are from.
    """
    whole = records.select("file", "position", "data", f.col("at").cast("double"))
    return whole.mapInArrow(partial(_parsed_records, format_name, origin), PARSED)


def _parsed(
    format_name: str | None, origin: Origin, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Parse ranges; runs on an executor."""
    from quotaform.spark.usage.ingest.document import add_recording
    from quotaform.spark.usage.ingest.parsed_rows import ParsedRows
    from quotaform.spark.usage.ingest.stream import Range

    rows = ParsedRows()
    for batch in batches:
        for number in range(batch.num_rows):
            (cells,) = batch.slice(number, 1).to_pylist()
            for _ in add_recording(Range(**cells), format_name, origin, rows):
                yield from rows.batches()
    yield from rows.rest()


def _parsed_records(
    format_name: str, origin: Origin, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """Parse records; runs on an executor."""
    from quotaform.core.usage.format import FORMATS
    from quotaform.spark.usage.ingest.parsed_rows import ParsedRows

    rows, parse = ParsedRows(), FORMATS[format_name]
    for batch in batches:
        for number in range(batch.num_rows):
            file, position, data, at = (column[0].as_py() for column in batch.slice(number, 1).columns)
            items = parse(data or b"", origin, at)
            rows.add_items(items, file, _moved_to(position))
            yield from rows.batches()
    yield from rows.rest()


def _moved_to(position: int) -> Callable[[Rejected], Rejected]:
    return lambda item: item._replace(position=position)
