"""What tasks make of recordings, merged series by series into rows of the usage table."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

from quotaform.fleet.table import row_batch
from quotaform.usage.sample import Attribute, Dropped, DropReason, Sample, Series, merge
from quotaform.usage.table.schema import QUARANTINE, SERIES, USAGE, struct_type

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from quotaform.usage.sample import Item


_LEFT_OUT: Final = ("samples long", "dropped file string", "position long", "reason record string")
PARSED: Final = struct_type(
    " ".join((*Series._fields, "string")),
    "window_s double",
    StructField("ts", ArrayType(LongType())),
    StructField("value", ArrayType(DoubleType())),
    *_LEFT_OUT,
)
"""What was read.

| row | has | null are |
| --- | --- | --- |
| samples of a series | a `Series`, `window_s`, `ts` in microseconds since the epoch, `value` | all others |
| samples that are left out | `dropped`: the name of a `DropReason`, and `samples`: how many | all others |
| a record that could not be read | `file`, `position`, `reason`, `record` | all others |
"""
MERGED: Final = StructType([*USAGE.fields, *struct_type(*_LEFT_OUT).fields])
"""Rows of the usage table, which stand for one or two `samples`; and samples and records as `PARSED` has them."""

_MICROSECONDS: Final = 1_000_000
_MOST_SAMPLES: Final = 250_000
_MOST_ROWS: Final = 10_000
_LISTS: Final = ("ts", "value")
_OTHERS: Final = struct_type(*_LEFT_OUT).names


def parsed_batches(found: Iterable[tuple[str, Item]]) -> Iterator[pyarrow.RecordBatch]:
    """Yield `PARSED` of what parsers found, each item with its file; runs on an executor."""
    samples: dict[tuple[Series, float], tuple[array[int], array[float]]] = {}
    dropped: Counter[DropReason] = Counter()
    rejected: list[tuple[Any, ...]] = []
    waiting = 0
    for file, item in found:
        if isinstance(item, Sample):
            key = (item.series, item.window_s)
            if (own := samples.get(key)) is None:
                own = samples[key] = (array("q"), array("d"))
            own[0].append(round(item.ts * _MICROSECONDS))
            own[1].append(item.value)
            waiting += 1
        elif isinstance(item, Dropped):
            dropped[item.reason] += item.samples
        else:
            rejected.append((None, None, file, item.position, _encodable(item.reason), _encodable(item.record)))
        if waiting >= _MOST_SAMPLES or len(rejected) >= _MOST_ROWS:
            yield _parsed_batch(samples, Counter(), rejected)
            samples, rejected, waiting = {}, [], 0
    yield _parsed_batch(samples, dropped, rejected)


def _parsed_batch(
    samples: dict[tuple[Series, float], tuple[array[int], array[float]]],
    dropped: Counter[DropReason],
    rejected: list[tuple[Any, ...]],
) -> pyarrow.RecordBatch:
    no_series, nothing = (None,) * (len(PARSED) - len(_OTHERS)), (None,) * len(_OTHERS)
    rows = [(*series, window_s, *values, *nothing) for (series, window_s), values in samples.items()]
    rows += [(*no_series, count, reason.name, *nothing[2:]) for reason, count in dropped.items()]
    return row_batch(PARSED, [*rows, *((*no_series, *each) for each in rejected)])


def _encodable(text: str) -> str:
    """Return a text as UTF-8 can hold it: JSON may have halves of surrogate pairs."""
    return text.encode(errors="backslashreplace").decode()


def merged(parsed: DataFrame) -> DataFrame:
    """Return `MERGED` of `PARSED`, in as many tasks as Spark finds right."""
    return parsed.repartition(*SERIES).sortWithinPartitions(*SERIES).mapInArrow(merged_batches, MERGED)


def merged_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Bring the samples of series together, whose rows follow each other; runs on an executor."""
    rows: list[tuple[Any, ...]] = []
    for row in _merged_rows(batches):
        rows.append(row)
        if len(rows) >= _MOST_ROWS:
            yield row_batch(MERGED, rows)
            rows = []
    yield row_batch(MERGED, rows)


def _merged_rows(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    left_out: Counter[DropReason] = Counter()
    no_usage, nothing = (None,) * len(USAGE), (None,) * (len(_OTHERS) - 1)
    for names, of_series in groupby(_parts(batches), itemgetter(*SERIES)):
        samples: list[Iterable[Sample]] = []
        for part in of_series:
            if part["ts"].is_valid:
                samples.append(_samples(part))
            else:
                yield (*no_usage, *(part[name] for name in _OTHERS))
        found, dropped = merge(chain.from_iterable(samples))
        left_out.update(dict(dropped))
        *names, instance = names
        for ts, window_s, rate, throttle_ms in found:
            count = (rate is not None) + (throttle_ms is not None)
            yield (round(ts * _MICROSECONDS), window_s, *names, rate, throttle_ms, instance, count, *nothing)
    yield from ((*no_usage, count, reason.name, *nothing[1:]) for reason, count in left_out.items())


def _parts(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield rows of `PARSED`, whose samples are still as Arrow has them: a batch may have many."""
    for batch in batches:
        columns = {name: batch.column(name) for name in PARSED.names}
        read = {name: column if name in _LISTS else column.to_pylist() for name, column in columns.items()}
        for number in range(batch.num_rows):
            yield {name: column[number] for name, column in read.items()}


def _samples(part: dict[str, Any]) -> Iterable[Sample]:
    """Return the samples in a row of `PARSED`."""
    series = Series(**{name: part[name] for name in Series._fields})
    series = series._replace(attribute=Attribute(series.attribute))
    times = [micros / _MICROSECONDS for micros in part["ts"].as_py()]
    return map(Sample, repeat(series), times, part["value"].as_py(), repeat(part["window_s"]))


def usage_rows(found: DataFrame) -> DataFrame:
    """Return `USAGE` of `MERGED`."""
    return found.where(f.col("ts").isNotNull()).select(*USAGE.names)


def rejected_rows(found: DataFrame) -> DataFrame:
    """Return `QUARANTINE` of `MERGED`; its time is that at which it is asked for."""
    at = f.current_timestamp().alias("ingested_at")
    return found.where(f.col("reason").isNotNull()).select(*QUARANTINE.names[:-1], at)


class Counts(NamedTuple):
    """What is in `MERGED`."""

    samples: int  # Samples of the rows
    dropped: dict[DropReason, int]  # Samples that are left out, by reason
    rejected: int  # Records that could not be read
    rows: int
    clusters: tuple[str, ...]
    since: int | None  # The first time of the rows, in microseconds since the epoch
    until: int | None  # The last one


def counts_of(found: DataFrame) -> Counts:
    """Count what is in `MERGED`."""
    [row] = found.agg(
        f.sum(f.when(f.col("ts").isNotNull(), f.col("samples"))).alias("samples"),
        f.count("reason").alias("rejected"),
        f.count("ts").alias("rows"),
        f.collect_set("cluster").alias("clusters"),
        f.unix_micros(f.min("ts")).alias("since"),
        f.unix_micros(f.max("ts")).alias("until"),
        *(f.sum(f.when(f.col("dropped") == each.name, f.col("samples"))).alias(each.name) for each in DropReason),
    ).collect()
    return Counts(
        samples=row["samples"] or 0,
        dropped={reason: row[reason.name] for reason in DropReason if row[reason.name]},
        rejected=row["rejected"],
        rows=row["rows"],
        clusters=tuple(sorted(row["clusters"])),
        since=row["since"],
        until=row["until"],
    )
