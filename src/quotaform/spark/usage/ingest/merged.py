"""From what was read to rows of the table of usage, series by series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from quotaform.spark.schemas import arrow_schema, row_batch
from quotaform.spark.usage.ingest.parsed_rows import SERIES_COLUMNS
from quotaform.spark.usage.ingest.sample_array import ATTRIBUTES, RowArrays, SampleArrays, merged_arrays
from quotaform.spark.usage.schemas import SERIES, USAGE

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from pyspark.sql import DataFrame

_BUCKET: Final = [name for name in SERIES_COLUMNS if name != "attribute"]
"""The columns whose rows are brought together."""
_POINT: Final = StructType(
    [
        StructField("ts", LongType()),
        StructField("window_s", DoubleType()),
        StructField("rate", DoubleType()),
        StructField("throttle_ms", DoubleType()),
    ]
)
MERGED: Final = StructType(
    [
        *(StructField(name, StringType()) for name in SERIES),
        StructField("samples", LongType()),
        StructField("dropped", StringType()),
        StructField("points", ArrayType(_POINT)),
    ]
)
"""The rows of a series, some of them in each row; or samples that are left out, with the reason in `dropped`.

`samples` is how many samples the row stands for.
"""
_MOST_POINTS: Final = 32_768
"""The most rows of the table that one row of `MERGED` has."""
_POINTS_IN_BATCH: Final = 1_000_000


def merged(parsed: DataFrame, tasks: int) -> DataFrame:
    """Return `MERGED` of the samples in `parsed_rows.PARSED`.

    Args:
        tasks: In how many tasks series are brought together.
    """
    columns = [*SERIES_COLUMNS, "window_s", "ts", "value"]
    series = parsed.where(f.col("ts").isNotNull()).select(*columns, "first_ts")
    ordered = series.repartition(tasks, *_BUCKET).sortWithinPartitions(*_BUCKET, "attribute", "first_ts")
    return ordered.select(*columns).mapInArrow(_merged, MERGED)


def usage_rows(found: DataFrame) -> DataFrame:
    """Return `schemas.USAGE` of `MERGED`."""
    points = found.where(f.col("points").isNotNull()).select(*SERIES, f.inline("points"))
    return points.select(
        *(f.timestamp_micros(name).alias(name) if name == "ts" else f.col(name) for name in USAGE.names)
    )


def _merged(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Bring the samples of series together; rows of a series follow each other."""
    for batch in _whole_series(batches):
        yield from _merged_batch(batch)


def _whole_series(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of batches so that the rows of one series are in one batch."""
    waiting: list[pyarrow.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        last = int(_first_rows(batch)[-1])
        if last == 0 and waiting and len(_first_rows(_joined([waiting[-1].slice(0, 1), batch.slice(0, 1)]))) == 1:
            waiting.append(batch)
            continue
        # The rows of the last series may go on in the next batch.
        whole = [*waiting, batch.slice(0, last)] if last else waiting
        if whole:
            yield _joined(whole)
        waiting = [batch.slice(last)]
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    import pyarrow

    if len(batches) == 1:
        return batches[0]
    (joined,) = pyarrow.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _first_rows(batch: pyarrow.RecordBatch) -> numpy.ndarray:
    """Return the first row of each series."""
    import numpy

    is_first = numpy.zeros(batch.num_rows, bool)
    is_first[0] = True
    for name in _BUCKET:
        codes = batch.column(name).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        is_first[1:] |= codes[1:] != codes[:-1]
    return numpy.flatnonzero(is_first)


def _merged_batch(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """Yield `MERGED` of whole series."""
    import numpy
    import pyarrow
    from pyarrow.compute import binary_length

    firsts = _first_rows(batch)
    number = numpy.repeat(numpy.arange(len(firsts)), numpy.diff(firsts, append=batch.num_rows))
    attribute = numpy.array([ATTRIBUTES[name] for name in batch.column("attribute").to_pylist()], numpy.int8)
    lengths = binary_length(batch.column("ts")).to_numpy() // numpy.dtype(numpy.int64).itemsize
    found = merged_arrays(
        SampleArrays(
            series=numpy.repeat(number, lengths),
            attribute=numpy.repeat(attribute, lengths),
            ts=_numbers(batch.column("ts"), numpy.int64),
            value=_numbers(batch.column("value"), numpy.float64),
            window_s=numpy.repeat(batch.column("window_s").to_numpy(), lengths),
        )
    )
    yield from _point_batches(found.rows, [batch.column(name).take(pyarrow.array(firsts)) for name in SERIES])
    if found.dropped:
        yield row_batch(
            MERGED, [(*(None for _ in SERIES), count, reason.value, None) for reason, count in found.dropped.items()]
        )


def _numbers(column: pyarrow.Array, kind: type) -> numpy.ndarray:
    """Return the numbers of all values of a binary column, one value after the other, without a copy."""
    import numpy
    import pyarrow

    _, ends, data = column.buffers()
    is_large = pyarrow.types.is_large_binary(column.type)
    offsets = numpy.frombuffer(ends, numpy.int64 if is_large else numpy.int32)
    begin, end = offsets[column.offset], offsets[column.offset + len(column)]
    return numpy.frombuffer(data, numpy.uint8)[begin:end].view(kind)


def _point_batches(rows: RowArrays, names: list[pyarrow.Array]) -> Iterator[pyarrow.RecordBatch]:
    """Yield `MERGED` of rows.

    Args:
        names: The columns `SERIES`, by the number of the series.
    """
    import numpy
    import pyarrow

    count = len(rows.ts)
    if not count:
        return
    schema = arrow_schema(MERGED)
    is_new = numpy.ones(count, bool)
    is_new[1:] = rows.series[1:] != rows.series[:-1]
    begins = numpy.flatnonzero(is_new)
    within = numpy.arange(count) - numpy.repeat(begins, numpy.diff(begins, append=count))
    offsets = numpy.append(numpy.flatnonzero(within % _MOST_POINTS == 0), count).astype(numpy.int32)
    known = [~numpy.isnan(values) for values in (rows.rate, rows.throttle_ms)]
    samples = numpy.add.reduceat(known, offsets[:-1], axis=1, dtype=numpy.int64).sum(axis=0)
    points = pyarrow.StructArray.from_arrays(
        [
            rows.ts,
            rows.window_s,
            *(pyarrow.array(values, from_pandas=True) for values in (rows.rate, rows.throttle_ms)),
        ],
        names=_POINT.names,
    )
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), points)
    of_series = pyarrow.array(rows.series[offsets[:-1]])
    batch = pyarrow.record_batch(
        [
            *(name.take(of_series) for name in names),
            samples,
            pyarrow.nulls(len(samples), "string"),
            lists.cast(schema.field("points").type),
        ],
        schema=schema,
    )
    step = max(1, _POINTS_IN_BATCH * batch.num_rows // count)
    for begin in range(0, batch.num_rows, step):
        yield batch.slice(begin, step)
