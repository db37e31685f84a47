"""Recordings as `parsed_rows.PARSED`: parsed by tasks, a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from quotaform.core.usage.metric.origin import Origin
from quotaform.spark.usage.ingest.parsed_rows import PARSED

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


def parsed(ranges: DataFrame, format_name: str | None, origin: Origin) -> DataFrame:
    """Return `parsed_rows.PARSED` of recordings.

    Args:
        ranges: `source.RANGES`: ranges of files, or whole contents.
        format_name: Their format, one of `quotaform.core.usage.format.FORMATS`; `None` to find out for each.
        origin: What counts for metrics that do not say where they are from.
    """
    return ranges.mapInArrow(partial(_parsed, format_name, origin), PARSED)


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
