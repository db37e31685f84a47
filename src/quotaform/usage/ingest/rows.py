"""What tasks make of recordings, merged series by series into rows of the usage table."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, repeat
from json import dumps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StructField

from quotaform.fleet.table import row_batch
from quotaform.model.errors import QuotaformError
from quotaform.usage.sample import Attribute, Dropped, DropReason, Item, Rejected, Sample, Series, merge, reject
from quotaform.usage.table.schema import SERIES, USAGE, struct_type

if TYPE_CHECKING:
    import numpy
    import pyarrow
    from pyspark.sql import DataFrame


SERIES_COLUMNS: Final = Series._fields
"""The columns that are those of a `Series`."""

PARSED: Final = struct_type(
    " ".join((*SERIES_COLUMNS, "string")),
    "window_s double",
    "first_ts long",
    "ts value binary",
    "samples long",
    "dropped file string",
    "position long",
    "reason record string",
)
"""What was read.

| row | has | null are |
| --- | --- | --- |
| samples of a series | a `Series`, `window_s`, `first_ts`, `ts`, `value` | `dropped`, and those of a record |
| samples that are left out | `dropped`: the `DropReason` | all others but `samples` |
| a record that could not be read | `file`, `position`, `reason`, `record` | all others but `samples`, which is 1 |

Each task adds a row of no samples, so that what follows is done and counted even if there is nothing: Spark leaves out
steps that have no rows, with what they observe.

`ts` are 64-bit integers, microseconds since the epoch, and `value` as many doubles; both in the order of bytes of the
machine, and in any order of time. `samples` is how many samples the row stands for.
"""

MICROSECONDS: Final = 1_000_000
_MOST_SAMPLES: Final = 65_536
"""The most samples of a row."""
_BATCH_BYTES: Final = 8 * 2**20
_BATCH_ROWS: Final = 10_000
_ROW_BYTES: Final = 200
"""What the names of a row take, about."""
_NOTHING: Final = (None,) * len(PARSED)
_PLACE: Final = {name: place for place, name in enumerate(PARSED.names)}
_EMPTY: Final = {
    "attribute": Attribute.RATE.value,
    "window_s": 0.0,
    "first_ts": 0,
    "ts": b"",
    "value": b"",
    "samples": 0,
}
_NO_SAMPLES: Final = tuple(_EMPTY.get(name) for name in PARSED.names)

_NO_CLUSTER: Final = (
    "no label of the metric names the cluster; give --cluster NAME, or the label with --cluster-label (the series has "
    "{samples})"
)


def internal_error(error: Exception, position: int = 0, place: str = "") -> Rejected:
    """Return the record in which a parser failed by a bug, which ends nothing else, as in a stream.

    Raises the exception itself if it is no bug of a parser: there is no memory, or the file cannot be read.
    """
    if isinstance(error, (MemoryError, OSError, QuotaformError)):
        raise error
    return reject(position, f"{place}internal error: {type(error).__name__}; please report it with the file", "")


class ParsedRows:
    """Collects what is read, and gives it in batches."""

    def __init__(self) -> None:
        self._samples: dict[tuple[Series, float], tuple[array[float], array[float]]] = {}
        self._sample_count = 0
        self._without_cluster: Counter[tuple[str, Series]] = Counter()
        self._dropped: Counter[DropReason] = Counter()
        self._rows: list[tuple[Any, ...]] = [_NO_SAMPLES]
        self._bytes = 0

    def add_items(self, items: Iterable[Item], file: str, shift: Callable[[Rejected], Rejected] | None = None) -> None:
        """Add what a parser found, up to where it fails; so it is given the items of one record, or a list.

        `shift`: returns a record whose position is that in the file.
        """
        try:
            for item in items:
                self._add_item(item, file, shift)
        except Exception as error:
            found = internal_error(error)
            self.add_rejected(found if shift is None else shift(found), file)

    def _add_item(self, item: Item, file: str, shift: Callable[[Rejected], Rejected] | None) -> None:
        if isinstance(item, Sample):
            if item.series.cluster is None:
                self._without_cluster[file, item.series] += 1
                return
            times, values = self._samples.setdefault((item.series, item.window_s), (array("d"), array("d")))
            times.append(item.ts)
            values.append(item.value)
            self._sample_count += 1
        elif isinstance(item, Dropped):
            self._dropped[item.reason] += item.samples
        else:
            self.add_rejected(item if shift is None else shift(item), file)

    def add_dropped(self, reason: DropReason, count: int) -> None:
        """Add samples that are left out."""
        self._dropped[reason] += count

    def add_rejected(self, item: Rejected, file: str) -> None:
        """Add a record of a file that could not be read."""
        reason, record = (text.encode(errors="backslashreplace").decode() for text in (item.reason, item.record))
        row = {"samples": 1, "file": file, "position": item.position, "reason": reason, "record": record}
        self._add(row, len(reason) + len(record))

    def add_series(
        self, series: Series, window_s: float, ts: numpy.ndarray, values: numpy.ndarray, file: str, position: int
    ) -> None:
        """Add samples of a series.

        `window_s`: how many seconds each sample covers. `ts`: the times, in seconds.
        """
        import numpy

        if series.cluster is None:
            self.add_rejected(_without_cluster(series, len(ts), position), file)
            return
        micros = numpy.rint(ts * MICROSECONDS).astype(numpy.int64)
        for begin in range(0, len(micros), _MOST_SAMPLES):
            some, of_these = micros[begin : begin + _MOST_SAMPLES], values[begin : begin + _MOST_SAMPLES]
            row = {
                **series._asdict(),
                "window_s": window_s,
                "first_ts": int(some[0]),
                "ts": some.tobytes(),
                "value": of_these.tobytes(),
                "samples": len(some),
            }
            self._add(row, 2 * some.nbytes)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield `PARSED`, if there is much of it."""
        if self._bytes + 16 * self._sample_count > _BATCH_BYTES or len(self._rows) >= _BATCH_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rest of `PARSED`."""
        import numpy

        samples, self._samples, self._sample_count = self._samples, {}, 0
        for (series, window_s), (times, values) in samples.items():
            self.add_series(series, window_s, numpy.frombuffer(times), numpy.frombuffer(values), "", 0)
        for (file, series), count in self._without_cluster.items():
            self.add_rejected(_without_cluster(series, count, 0), file)
        for reason, count in self._dropped.items():
            self._add({"samples": count, "dropped": reason.value}, 0)
        self._without_cluster.clear()
        self._dropped.clear()
        rows, self._rows, self._bytes = self._rows, [], 0
        for begin in range(0, len(rows), _BATCH_ROWS):
            yield row_batch(PARSED, rows[begin : begin + _BATCH_ROWS])

    def _add(self, cells: dict[str, Any], size: int) -> None:
        row = list(_NOTHING)
        for name, cell in cells.items():
            row[_PLACE[name]] = cell
        self._rows.append(tuple(row))
        self._bytes += size + _ROW_BYTES


def _without_cluster(series: Series, count: int, position: int) -> Rejected:
    names = {name: cell for name, cell in series._asdict().items() if cell is not None}
    reason = _NO_CLUSTER.format(samples="1 sample" if count == 1 else f"{count:,} samples")
    return reject(position, reason, dumps(names, ensure_ascii=False))


_BUCKET: Final = [name for name in SERIES_COLUMNS if name != "attribute"]
"""The columns whose rows are brought together."""
_POINT: Final = struct_type("ts long", "window_s rate throttle_ms double")
MERGED: Final = struct_type(
    " ".join((*SERIES, "string")),
    "samples long",
    "dropped string",
    StructField("points", ArrayType(_POINT)),
)
"""The rows of a series, some of them in each row; or samples that are left out, with the reason in `dropped`.

`samples` is how many samples the row stands for.
"""
_MOST_POINTS: Final = 32_768
"""The most rows of the table that one row of `MERGED` has."""
_POINTS_IN_BATCH: Final = 250_000


def merged(parsed: DataFrame, tasks: int) -> DataFrame:
    """Return `MERGED` of the samples in `parsed_rows.PARSED`.

    `tasks`: in how many tasks series are brought together.
    """
    columns = [*SERIES_COLUMNS, "window_s", "ts", "value"]
    series = parsed.where(f.col("ts").isNotNull()).select(*columns, "first_ts")
    ordered = series.repartition(tasks, *_BUCKET).sortWithinPartitions(*_BUCKET, "attribute", "first_ts")
    return ordered.select(*columns).mapInArrow(_merged, MERGED)


def usage_rows(found: DataFrame) -> DataFrame:
    """Return `USAGE` of `MERGED`."""
    points = found.where(f.col("points").isNotNull()).select(*SERIES, f.inline("points"))
    return points.select(
        *(f.timestamp_micros(name).alias(name) if name == "ts" else f.col(name) for name in USAGE.names)
    )


def _merged(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Bring the samples of series together; rows of a series follow each other."""
    parts = (part for batch in batches for part in batch.to_pylist())
    left_out: Counter[DropReason] = Counter()
    rows: list[tuple[Any, ...]] = []
    waiting = 0
    for names, of_series in groupby(parts, itemgetter(*SERIES)):
        found, dropped = merge(chain.from_iterable(map(_samples, of_series)))
        left_out.update(dict(dropped))
        for begin in range(0, len(found), _MOST_POINTS):
            some = found[begin : begin + _MOST_POINTS]
            samples = sum((row.rate is not None) + (row.throttle_ms is not None) for row in some)
            points = [(round(ts * MICROSECONDS), *others) for ts, *others in some]
            rows.append((*names, samples, None, points))
            waiting += len(points)
        if waiting >= _POINTS_IN_BATCH:
            yield row_batch(MERGED, rows)
            rows, waiting = [], 0
    rows += [(*(None for _ in SERIES), count, reason.value, None) for reason, count in left_out.items()]
    yield row_batch(MERGED, rows)


def _samples(part: dict[str, Any]) -> Iterable[Sample]:
    """Return the samples in a row of `PARSED`."""
    series = Series(**{name: part[name] for name in SERIES_COLUMNS})
    series = series._replace(attribute=Attribute(series.attribute))
    times = [micros / MICROSECONDS for micros in array("q", part["ts"])]
    return map(Sample, repeat(series), times, array("d", part["value"]), repeat(part["window_s"]))
