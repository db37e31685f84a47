"""What tasks make of recordings and tables, merged series by series into rows of the usage table."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy
import pyarrow
from msgspec.structs import replace
from numpy.typing import NDArray
from pyarrow import compute
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    NumericType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from quotaform.model.errors import FileReadError, QuotaformError
from quotaform.model.text import option_of
from quotaform.resolve.spark import arrow_schema, struct
from quotaform.usage.format import FORMATS, parse
from quotaform.usage.format.table import TS, VALUE_FIELDS, Measures, TableMapping, read_names, read_row
from quotaform.usage.format.text import HEAD_BYTES, LARGEST, LATEST, PER_SECOND, TIME_SIZES, TimeUnit, detect_format
from quotaform.usage.metric_name import Origin
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Rejected, Sample, Series, reject
from quotaform.usage.table.schema import SERIES, USAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


RECORDINGS: Final = struct("file string", "at double", "path string", "content binary", "offset long")
"""The fields of a `RawRecording`."""


class RawRecording(NamedTuple):
    """What is read: a file that executors see, or its content."""

    file: str  # What it is called in messages and in the quarantine
    at: float  # When it was written, in seconds since the epoch
    path: str | None = None
    content: bytes | None = None  # `None` also of a record of a topic without a value
    offset: int | None = None  # That of a record of a topic


_OPENERS: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""What reads compressed files, by their first bytes."""
_BROKEN: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)
_UNKNOWN: Final = (
    "the file is of no format of recordings: neither an answer of Prometheus, metrics of an exporter, CSV of JmxTool "
    f"nor JSON of OpenTelemetry; name it with {option_of('input_format')} if it is one of these or a table, or write "
    "its values into a table (docs/usage-recordings.md#tables)"
)


def items_of(recording: RawRecording, format_name: str | None, origin: Origin) -> Iterator[Item]:
    """Yield what is in a recording; what cannot be read is rejected.

    `format_name`: its format; `None` to find out. Raises `FileReadError` if it is a file that cannot be opened.
    """
    if recording.path is None and recording.content is None:
        yield reject(0, "the record has no value", "")
        return
    head = b""
    try:
        with opened(recording) as stream:
            head = head_of(stream)
            name = format_name or detect_format(head)
            if name in FORMATS:
                # The last line of a file may be cut; that of a record is whole.
                source = stream if recording.offset is None else stream.read()
                yield from parse(name, source, origin, recording.at)
            elif head.strip():
                yield reject(0, _UNKNOWN, head)
    except (QuotaformError, MemoryError):
        raise
    except _BROKEN as error:
        problem = "it ends too early" if isinstance(error, EOFError) else "its content is damaged"
        yield reject(0, f"the file is cut or broken, and read up to there: {problem}", "")
    except Exception as error:
        # Nothing else may end with it: a stream would meet the same record each time that it begins again.
        problem = f"internal error: {type(error).__name__}, from which on nothing is read"
        yield reject(0, f"{problem}; please report it with the file", head)


@contextmanager
def opened(recording: RawRecording) -> Iterator[IO[bytes]]:
    """Open a recording, whether or not it is compressed. Raises `FileReadError` if it cannot be opened."""
    raw: IO[bytes]
    if recording.path is None:
        raw = BytesIO(recording.content or b"")
    else:
        try:
            raw = Path(recording.path).open("rb")  # noqa: SIM115
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            raise FileReadError(recording.file, f"{reason} (executors read it at this path)") from error
    with raw:
        magic = raw.read(max(map(len, _OPENERS)))
        raw.seek(0)
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        yield raw if opener is None else opener(raw)


def head_of(stream: Any) -> bytes:
    """Return how a recording begins, which is read again from its beginning."""
    found = b""
    with suppress(*_BROKEN):
        while len(found) < HEAD_BYTES and (more := stream.read1(HEAD_BYTES)):
            found += more
    stream.seek(0)
    return found[:HEAD_BYTES]


_LEFT_OUT: Final = ("samples long", "dropped file string", "position long", "reason record string")
PARSED: Final = struct(
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
MERGED: Final = struct(USAGE, *_LEFT_OUT)
"""Rows of the usage table, which stand for one or two `samples`; and samples and records as `PARSED` has them."""
_NO_CLUSTER: Final = (
    f"no label of the metrics names the cluster; give {option_of('cluster')} NAME, or the label with "
    f"{option_of('cluster_label')}"
)
_MOST_SAMPLES: Final = 250_000
_MOST_ROWS: Final = 10_000


class SeriesSamples(NamedTuple):
    """Several samples of one series."""

    series: Series
    window_s: float
    ts: NDArray[numpy.int64]  # In microseconds since the epoch
    value: NDArray[numpy.float64]


Place: TypeAlias = tuple[str, int | None]
"""The file that an item is of, and the offset if it is of a record of a topic."""


def parsed_batches(found: Iterable[tuple[Place, Item | SeriesSamples]]) -> Iterator[pyarrow.RecordBatch]:
    """Yield `PARSED` of what parsers found, place by place; runs on an executor."""
    samples: dict[tuple[Series, float], tuple[array[int], array[float]]] = {}
    dropped: Counter[DropReason] = Counter()
    rows: list[dict[str, object]] = []
    unnamed: dict[Place, tuple[int, Series]] = {}
    """How many samples of the last place with such samples name no cluster, and the series of the first one."""
    waiting = 0

    def take_up(place: Place, item: Rejected) -> None:
        file, offset = place
        if offset is not None:
            item = item._replace(position=offset, reason=f"offset {offset}: {item.reason}")
        rows.append({"file": file, **item._asdict()})

    def reject_unnamed() -> None:
        for place, (count, first) in unnamed.items():
            names = {name: cell for name, cell in first._asdict().items() if cell is not None}
            take_up(place, reject(0, f"{count:,} sample{'s' * (count > 1)}: {_NO_CLUSTER}", names))
        unnamed.clear()

    def batch() -> pyarrow.RecordBatch:
        of_series = (
            names._asdict() | {"window_s": window_s, "ts": numpy.asarray(ts), "value": numpy.asarray(value)}
            for (names, window_s), (ts, value) in samples.items()
        )
        return pyarrow.RecordBatch.from_pylist([*of_series, *rows], arrow_schema(PARSED))

    for place, item in found:
        if isinstance(item, Dropped):
            dropped[item.reason] += item.samples
        elif isinstance(item, Rejected):
            take_up(place, item)
        elif item.series.cluster is None:
            if place not in unnamed:
                reject_unnamed()  # What is of one place comes in a row, and a topic has many.
            count, first = unnamed.get(place, (0, item.series))
            unnamed[place] = (count + (1 if isinstance(item, Sample) else len(item.ts)), first)
        else:
            key = item.series, item.window_s
            if (own := samples.get(key)) is None:
                own = samples[key] = array("q"), array("d")
            ts, value = own
            if isinstance(item, Sample):
                ts.append(round(item.ts * 1e6))
                value.append(item.value)
                waiting += 1
            else:
                ts.frombytes(item.ts.tobytes())
                value.frombytes(item.value.tobytes())
                waiting += len(item.ts)
        if waiting >= _MOST_SAMPLES or len(rows) >= _MOST_ROWS:
            yield batch()
            samples, rows, waiting = {}, [], 0
    rows += [{"samples": count, "dropped": reason.name} for reason, count in dropped.items()]
    reject_unnamed()
    yield batch()


def parsed(recordings: DataFrame, format_name: str | None, origin: Origin) -> DataFrame:
    """Return `PARSED` of `RECORDINGS`; `format_name` is their format, `None` to find out for each."""

    def parse(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        # One after the other: each may have the content of a file.
        rows = (batch.slice(number, 1).to_pylist()[0] for batch in batches for number in range(batch.num_rows))
        found = (RawRecording(**row) for row in rows)
        return parsed_batches(
            ((each.file, each.offset), item) for each in found for item in items_of(each, format_name, origin)
        )

    return recordings.mapInArrow(parse, PARSED)


_FILE: Final = "quotaform file"
_POSITION: Final = "quotaform position"


def parsed_table(table: DataFrame, name: str, kind: str | None, mapping: TableMapping, origin: Origin) -> DataFrame:
    """Return `PARSED` of a table.

    `table`: the table, which has the columns of the mapping. `kind`: the format of its files; `None` if it is one of
    the catalog.
    """
    types = {each.name: each.dataType for each in table.schema}
    numbers = {mapping.columns[field] for field in (TS, *VALUE_FIELDS) if field in mapping.columns}

    def column(name: str) -> Column:
        return f.col("`" + name.replace("`", "``") + "`")

    def cell(name: str) -> Column:
        if isinstance(types[name], MapType | ArrayType | StructType):
            return f.to_json(column(name))
        return column(name).cast("double" if name in numbers and isinstance(types[name], NumericType) else "string")

    at, unit = mapping.columns[TS], mapping.time_unit
    if isinstance(types[at], TimestampType):
        time, unit = f.unix_micros(column(at)), TimeUnit.US
    elif isinstance(types[at], TimestampNTZType | DateType):
        epoch = f.lit("1970-01-01").cast("timestamp_ntz")
        time, unit = f.timestamp_diff("MICROSECOND", epoch, column(at).cast("timestamp_ntz")), TimeUnit.US
    else:
        time = cell(at)
    counted, position = "row", "_metadata.row_index"
    if kind != "parquet":
        # Spark gives no numbers of rows.
        counted, position = "in the block at byte", "_metadata.file_block_start"
    rows = table.select(
        time.alias(at),
        *(cell(name).alias(name) for name in mapping.names - {at}),
        (f.lit(None) if kind is None else f.col("_metadata.file_path")).cast("string").alias(_FILE),
        (f.lit(None) if kind is None else f.col(position)).cast("long").alias(_POSITION),
    )
    read = replace(mapping, time_unit=unit)
    return rows.mapInArrow(lambda batches: parsed_batches(table_items(batches, name, read, origin, counted)), PARSED)


def table_items(
    batches: Iterable[pyarrow.RecordBatch], name: str, mapping: TableMapping, origin: Origin, counted: str
) -> Iterator[tuple[Place, Item | SeriesSamples]]:
    """Yield what is in the rows of a table, for `parsed_batches`; runs on an executor.

    `counted`: what the position of a row counts.
    """
    names = sorted(mapping.names - {mapping.columns[each] for each in (TS, *VALUE_FIELDS) if each in mapping.columns})

    @cache
    def measures_of(row: tuple[str | None, ...]) -> Measures | DropReason | str:
        return read_names(dict(zip(names, row, strict=True)), mapping, origin)

    for batch in batches:
        others = yield from _plain(batch, (name, None), names, mapping, measures_of)
        for row in others.to_pylist():
            for result in read_row(row, mapping, origin):
                if isinstance(result, str):
                    # The source is called as it was given.
                    path = (row[_FILE] or name).removeprefix("file:")
                    source = PurePosixPath(name).as_posix()
                    file = name if path == source or path.endswith(f"/{source}") else path
                    position = row[_POSITION]
                    where = "" if position is None else f"{counted} {position}: "
                    yield (file, None), reject(position or 0, f"{where}{result}", row)
                else:
                    yield (name, None), Dropped(result, 1) if isinstance(result, DropReason) else result


def _plain(
    batch: pyarrow.RecordBatch,
    place: Place,
    names: Sequence[str],
    mapping: TableMapping,
    measures_of: Callable[[tuple[str | None, ...]], Measures | DropReason | str],
) -> Generator[tuple[Place, Item | SeriesSamples], None, pyarrow.RecordBatch]:
    """Yield the samples of rows whose numbers are as they should be, and return the other rows."""
    fields = [name for name in VALUE_FIELDS if name in mapping.columns]
    cells = batch.select([mapping.columns[name] for name in (*fields, TS)])
    if not batch.num_rows or any(each.type == pyarrow.string() for each in cells.schema):
        return batch
    *numbers, ts = (each.cast("double", safe=False).to_numpy(zero_copy_only=False) for each in cells.columns)
    group, found = _groups(batch.select(names))
    read = [measures_of(row) for row in found]
    measures = [each if isinstance(each, dict) else None for each in read]
    factors = numpy.array([[each[name].factor if each else 0.0 for each in measures] for name in fields])
    is_valid = numpy.stack([each.is_valid().to_numpy(zero_copy_only=False) for each in cells.columns[:-1]])
    with numpy.errstate(over="ignore", invalid="ignore"):
        value = numpy.stack(numbers) * factors[:, group]
    is_good, is_nan = (value >= 0) & (value < LARGEST), is_valid & numpy.isnan(numbers)
    # As `read_time` does.
    if mapping.time_unit:
        ts = ts / PER_SECOND[mapping.time_unit]
    else:
        ts = ts / numpy.select([ts >= size for size, _ in TIME_SIZES], [each for _, each in TIME_SIZES], 1.0)
    is_plain = (~is_valid | is_good | is_nan).all(axis=0) & is_valid.any(axis=0) & (ts > 0) & (ts < LATEST)
    is_plain &= numpy.array([each is not None for each in measures])[group]
    yield place, Dropped(DropReason.NAN, int((is_nan & is_plain).sum()))
    for name, is_found, values in zip(fields, is_good & is_plain, value, strict=True):
        places = numpy.flatnonzero(is_found)
        places = places[numpy.argsort(group[places], kind="stable")]
        micros, values = numpy.rint(ts[places] * 1e6).astype("int64"), values[places]
        ends = numpy.searchsorted(group[places], numpy.arange(len(measures) + 1)).tolist()
        for each, begin, end in zip(measures, ends, ends[1:], strict=False):
            if each and begin < end:
                part = slice(begin, end)
                yield (
                    place,
                    SeriesSamples(each[name].series, each[name].window_s, micros[part], values[part]),
                )
    is_dropped = numpy.array([isinstance(each, DropReason) for each in read])[group]
    yield from ((place, Dropped(read[each], 1)) for each in group[is_dropped].tolist())
    return batch.filter(pyarrow.array(~(is_plain | is_dropped)))


def _groups(names: pyarrow.RecordBatch) -> tuple[NDArray[numpy.int64], list[tuple[str | None, ...]]]:
    """Return the number of the names of each row, and the names of each number."""
    group = numpy.zeros(names.num_rows, "int64")
    for column in names.columns:
        encoded = column.dictionary_encode("encode")
        pair = group * len(encoded.dictionary) + encoded.indices.to_numpy()
        group = pyarrow.array(pair).dictionary_encode().indices.to_numpy().astype("int64")
    first = numpy.flatnonzero(numpy.diff(numpy.maximum.accumulate(group), prepend=-1))
    return group, [tuple(row.values()) for row in names.take(first).to_pylist()] if names.num_columns else [()]


def merged(parsed: DataFrame) -> DataFrame:
    """Return `MERGED` of `PARSED`, in as many tasks as Spark finds right."""
    return parsed.repartition(*SERIES).sortWithinPartitions(*SERIES).mapInArrow(merged_batches, MERGED)


def merged_batches(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Bring the samples of series together, whose rows follow each other; runs on an executor.

    | samples of a series | become |
    | --- | --- |
    | a rate and a throttle time of one time | one row |
    | several values of one time | the largest; others are duplicates of it or conflicts |
    | totals | the rate between a total and the one before, which covers the time between them |
    | the first total, a total smaller than the one before | nothing |
    | a total in whose time there is a rate, too | nothing but a duplicate or a conflict |

    Samples in = rates and throttle times out + dropped.
    """
    schema = arrow_schema(MERGED)
    dropped: Counter[DropReason] = Counter()
    waiting = arrow_schema(PARSED).empty_table()
    for batch in batches:
        is_of_series = batch.column("ts").is_valid()
        others = batch.filter(compute.invert(is_of_series)).select(struct(*_LEFT_OUT).names)
        yield pyarrow.RecordBatch.from_pylist(others.to_pylist(), schema)
        waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([batch.filter(is_of_series)])])
        # The last series of a batch may go on in the next one.
        begin = int(numpy.flatnonzero(_is_next(waiting))[-1]) if waiting.num_rows else 0
        yield from _merged_series(waiting.slice(0, begin), dropped)
        waiting = waiting.slice(begin)
    yield from _merged_series(waiting, dropped)
    left_out = [{"samples": count, "dropped": reason.name} for reason, count in dropped.items() if count]
    yield pyarrow.RecordBatch.from_pylist(left_out, schema)


def _is_next(part: pyarrow.Table) -> NDArray[numpy.bool_]:
    """Return which rows of `PARSED` are of another series than the row before."""
    is_next: NDArray[numpy.bool_] = numpy.arange(part.num_rows) == 0
    for name in SERIES:
        codes = part.column(name).combine_chunks().dictionary_encode("encode").indices.to_numpy()
        is_next[1:] |= codes[1:] != codes[:-1]
    return is_next


# Samples of some series are columns of an array: the number of the series, the time in seconds, the value, `window_s`.


def _merged_series(part: pyarrow.Table, dropped: Counter[DropReason]) -> Iterator[pyarrow.RecordBatch]:
    """Yield `MERGED` of all samples of some series; see `merged_batches`."""
    is_next = _is_next(part)
    begins, lists = numpy.flatnonzero(is_next), part.column("ts").combine_chunks()
    place = numpy.repeat(numpy.arange(part.num_rows), lists.value_lengths().to_numpy())
    samples = numpy.stack(
        [
            (numpy.cumsum(is_next) - 1)[place],
            lists.flatten().to_numpy() / 1e6,
            part.column("value").combine_chunks().flatten().to_numpy(),
            part.column("window_s").to_numpy()[place],
        ]
    )
    attribute = numpy.array(part.column("attribute").to_pylist())
    rates, times, totals = (
        samples[:, (attribute == each)[place]] for each in (Attribute.RATE, Attribute.THROTTLE_TIME, Attribute.TOTAL)
    )
    rates = _kept(numpy.hstack([rates, _rates(_kept(totals, dropped), dropped)]), dropped)
    times = _kept(times, dropped)
    found = numpy.hstack([rates, times])
    order = numpy.lexsort(found[1::-1])
    found, is_rate = found[:, order], order < rates.shape[1]
    is_first = ~_is_again(found)
    row, (series, ts, _, window_s) = numpy.cumsum(is_first) - 1, found[:, is_first]
    rate, throttle_ms = numpy.full((2, len(ts)), numpy.nan)
    rate[row[is_rate]], throttle_ms[row[~is_rate]] = found[2, is_rate], found[2, ~is_rate]
    micros, count = numpy.rint(ts * 1e6).astype("int64"), numpy.bincount(row, minlength=len(ts))
    columns = {"ts": micros, "window_s": window_s, "rate": rate, "throttle_ms": throttle_ms, "samples": count}
    schema = arrow_schema(MERGED)
    for at in range(0, len(ts), _MOST_ROWS):
        rows = slice(at, at + _MOST_ROWS)
        names = part.select(SERIES).take(begins[series[rows].astype("int64")]).combine_chunks()
        arrays = {each: pyarrow.array(column[rows], from_pandas=True) for each, column in columns.items()}
        arrays |= {name: names.column(name).chunk(0) for name in SERIES}
        nothing = pyarrow.nulls(names.num_rows)
        yield pyarrow.record_batch([arrays.get(each.name, nothing).cast(each.type) for each in schema], schema=schema)


def _is_again(samples: NDArray[numpy.float64]) -> NDArray[numpy.bool_]:
    """Return which samples have the series and the time of the one before."""
    return numpy.append(False, (samples[:2, 1:] == samples[:2, :-1]).all(axis=0))[: samples.shape[1]]


def _kept(samples: NDArray[numpy.float64], dropped: Counter[DropReason]) -> NDArray[numpy.float64]:
    """Return the first of the largest samples of each time, by series and time."""
    samples = samples[:, numpy.lexsort((-samples[2], *samples[1::-1]))]
    is_again = _is_again(samples)
    largest = samples[2, ~is_again][numpy.cumsum(~is_again) - 1]
    equal = int((is_again & (samples[2] == largest)).sum())
    dropped[DropReason.DUPLICATE] += equal
    dropped[DropReason.CONFLICT] += int(is_again.sum()) - equal
    return samples[:, ~is_again]


def _rates(totals: NDArray[numpy.float64], dropped: Counter[DropReason]) -> NDArray[numpy.float64]:
    """Return the rates that follow from the totals of counters, which are by series and time."""
    is_same = totals[0, 1:] == totals[0, :-1]
    steps = numpy.diff(totals)
    is_rate = is_same & (steps[2] >= 0)
    dropped[DropReason.COUNTER_RESET] += int((is_same & ~is_rate).sum())
    dropped[DropReason.FIRST_TOTAL] += totals.shape[1] - int(is_same.sum())
    found, (_, seconds, more, _) = totals[:, 1:][:, is_rate], steps[:, is_rate]
    found[2], found[3] = more / seconds, seconds
    return found
