"""The samples of each bucket as arrays, so that whatever depends on their order is computed for a bucket at once.

Only numbers are shuffled, once, by bucket; Spark sorts them by that one number, which it does without comparing rows.
The order of time is made here: recordings nearly have it. A bucket's samples on one broker have to fit in the memory of
a Python worker: 60 bytes each, and some 300 bytes while they are replayed.

Brokers measure all their buckets at one time, and are added up time by time. Clients that measure themselves do so at
times of their own; `quotaform.spark.usage.bucket.instance` brings them to common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Any, Final

import numpy
from numpy.typing import NDArray
from pyspark.sql import functions as f

from quotaform.core.usage.headroom import AT_LIMIT_RATIO
from quotaform.spark.usage.bucket.bucket import same_columns
from quotaform.spark.usage.bucket.instance import Samples, Sum, added_up, has_instances, starts_of
from quotaform.spark.usage.bucket.member import MEMBER
from quotaform.spark.usage.schemas import SERIES

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Floats = NDArray[numpy.float64]
"""Numbers by row; NaN where there is none."""
Integers = NDArray[numpy.int64]
Booleans = NDArray[numpy.bool_]

RECORDED_LIMIT: Final = "before_limit"
"""The column of the limit that held while a series was recorded, before a plan; null if no rate can exceed it."""
_ROWS_IN_TASK: Final = 2_000_000
"""A task sorts so many rows in 200 MB."""
_ROWS_IN_BATCH: Final = 10_000
_MOST_BROADCAST: Final = 500_000
"""How many series are broadcast; about 200 bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketRows:
    """What was recorded of one bucket on one broker, in the order of time and series; a series once per time.

    Attributes:
        at: Microseconds since 1970.
        series: The number of the series' member; of no one where clients that measured themselves are added up.
        rate: In the unit of the key.
        window_s: How many seconds up to `at` the rate covers.
        throttle_ms: The average delay of requests that were throttled.
        of_series: What else is known of the series of each row, by column; the least one of those that are added up.
        instances: The sum of what clients measured themselves, if some did; then each time has one row.
    """

    bucket_id: int
    at: Integers
    series: Integers
    rate: Floats
    window_s: Floats
    throttle_ms: Floats
    of_series: Mapping[str, Floats]
    instances: Sum | None = None

    def starts(self) -> Integers | None:
        """Return where each time begins; `None` if each has one row."""
        found = starts_of(self.at)
        return None if len(found) == len(self.at) else found

    def summed(self, values: Floats) -> Floats:
        """Return the sum of values at each time; NaN where there are none."""
        starts = self.starts()
        if starts is None:
            return values
        is_missing = numpy.isnan(values)
        sums = numpy.add.reduceat(numpy.where(is_missing, 0.0, values), starts)
        return numpy.where(numpy.logical_and.reduceat(is_missing, starts), numpy.nan, sums)

    def newly_throttled(self) -> Booleans:
        """Return at which times requests were throttled since the time before, as far as can be told.

        A throttle time is an average of the last 30 to 60 seconds, so one that stays is an old one. It counts if that
        of any series is another one than in the sample of the series before, or if there is one while the rate is at
        least 95 % of the limit: then every delay may be as long as the longest that is allowed. Series with different
        limits are compared with their own, others as the sum.

        It needs the column `RECORDED_LIMIT`.
        """
        is_any = ~numpy.isnan(self.throttle_ms)
        at_limit = self.of_series[RECORDED_LIMIT] * AT_LIMIT_RATIO
        starts = self.starts()
        if starts is None:
            is_at_limit = self.rate >= at_limit
            return (self._is_new() if self.instances is None else self.instances.is_new) | (is_any & is_at_limit)
        is_any = numpy.logical_or.reduceat(is_any, starts)
        least, most = (each.reduceat(at_limit, starts) for each in (numpy.minimum, numpy.maximum))
        of_own = numpy.logical_or.reduceat(self.rate >= at_limit, starts)
        is_at_limit = numpy.where(least == most, self.summed(self.rate) >= least, of_own)
        return numpy.logical_or.reduceat(self._is_new(), starts) | (is_any & is_at_limit)

    def _is_new(self) -> Booleans:
        """Return in which rows a throttle time is another one than in the row of the series before."""
        is_one = bool((self.series == self.series[0]).all())
        order: Any = slice(None) if is_one else numpy.argsort(self.series, kind="stable")
        series, throttle = self.series[order], self.throttle_ms[order]
        # Nothing equals NaN: after a time without throttling, all of it is new.
        is_changed = (series[1:] != series[:-1]) | (throttle[1:] != throttle[:-1])
        found = numpy.empty(len(series), bool)
        found[order] = numpy.append(True, is_changed) & ~numpy.isnan(throttle)
        return found

    def totals(self) -> tuple[Integers, Floats]:
        """Return the numbers of the members, in their order, and the sum of the rates of each."""
        if self.instances is not None:
            return self.instances.members, self.instances.totals
        members, place = numpy.unique(self.series, return_inverse=True)
        sums: Floats = numpy.bincount(place, weights=numpy.nan_to_num(self.rate)).astype(numpy.float64, copy=False)
        return members, sums


def bucket_rows(usage: DataFrame, series: DataFrame, number: int, columns: Sequence[str] = ()) -> DataFrame:
    """Return the samples of series, as numbers, not brought together yet.

    Args:
        series: The columns of `schemas.SERIES`, `bucket_id` and `series_id` (of type long), and `columns`.
        number: How many series there are.
        columns: What else each row needs to know of its series, as numbers.
    """
    hint = "broadcast" if number <= _MOST_BROADCAST else "shuffle_hash"
    own = series.select(*SERIES, "bucket_id", "series_id", *columns).hint(hint).alias("own")
    known = usage.where(f.col("ts").isNotNull()).alias("usage")
    return known.join(own, same_columns("usage", "own", SERIES)).select(
        "bucket_id",
        "series_id",
        f.unix_micros("ts").alias("at"),
        _within("rate", f.col("rate") >= 0),
        _within("window_s", f.col("window_s") > 0),
        _within("throttle_ms", f.col("throttle_ms") > 0),
        *(f.col(name).cast("double").alias(name) for name in columns),
    )


def _within(name: str, condition: Column) -> Column:
    """Return a column, null where it is no number of its kind; in SQL a NaN is larger than anything."""
    return f.when(condition & (f.col(name) <= float_info.max), f.col(name)).alias(name)


def per_bucket(
    rows: DataFrame, samples: int, compute: Callable[[BucketRows], Mapping[str, Any] | None], schema: StructType
) -> DataFrame:
    """Return what is computed of each bucket. The rows are shuffled once.

    Args:
        rows: `bucket_rows`.
        samples: About how many they are.
        compute: Returns the columns of `schema` but `bucket_id`: a value each, or arrays or lists of one length; or
            `None` for no rows. A NaN becomes null.
        schema: The schema; its first column is `bucket_id`.
    """
    names = schema.names

    def computed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        kinds = to_arrow_schema(schema)
        parts: list[list[Any]] = []
        size = 0

        def made() -> pyarrow.RecordBatch:
            columns = [
                pyarrow.array(list(chain.from_iterable(column)), kind.type, from_pandas=True)
                for column, kind in zip(zip(*parts, strict=True), kinds, strict=True)
            ]
            return pyarrow.record_batch(columns, schema=kinds)

        for bucket in _buckets(batches):
            found = compute(bucket)
            if found is None:
                continue
            columns = [
                found[name] if isinstance(found[name], numpy.ndarray | list) else [found[name]] for name in names[1:]
            ]
            parts.append([[bucket.bucket_id] * len(columns[0]), *columns])
            size += len(columns[0])
            if size >= _ROWS_IN_BATCH:
                yield made()
                parts.clear()
                size = 0
        if parts:
            yield made()

    tasks = max(2, ceil(samples / _ROWS_IN_TASK))
    return rows.repartition(tasks, "bucket_id").sortWithinPartitions("bucket_id").mapInArrow(computed, schema)


def _buckets(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[BucketRows]:
    """Yield buckets from batches in which the rows of each follow one another."""
    held: list[list[NDArray[Any]]] = []
    names: list[str] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        names = batch.schema.names
        arrays = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        first = 0
        cuts = starts_of(arrays[0])
        for cut in cuts if held and held[-1][0][-1] != arrays[0][0] else cuts[1:]:
            if cut > first:
                held.append([array[first:cut] for array in arrays])
            yield _bucket(names, held)
            held, first = [], int(cut)
        held.append([array[first:] for array in arrays])
    if held:
        yield _bucket(names, held)


def _bucket(names: Sequence[str], parts: Sequence[Sequence[NDArray[Any]]]) -> BucketRows:
    arrays = [numpy.concatenate(each) for each in zip(*parts, strict=True)] if len(parts) > 1 else parts[0]
    by_name: dict[str, NDArray[Any]] = dict(zip(names, arrays, strict=True))
    bucket, series, at = by_name.pop("bucket_id"), by_name.pop("series_id"), by_name.pop("at")
    is_one = bool((series == series[0]).all())
    order = numpy.argsort(at, kind="stable") if is_one else numpy.lexsort((series, at))
    series, at = series[order], at[order]
    by_name = {name: array[order] for name, array in by_name.items()}
    starts = starts_of(at) if is_one else numpy.union1d(starts_of(at), starts_of(series))
    if len(starts) < len(at):
        # Some rows are there twice, and some have the rate apart from the throttle time.
        series, at = series[starts], at[starts]
        by_name = {name: numpy.fmax.reduceat(array, starts) for name, array in by_name.items()}
    rate, window_s, throttle_ms = (by_name.pop(name) for name in ("rate", "window_s", "throttle_ms"))
    if has_instances(series[:1] if is_one else series):
        if not is_one:
            return _added_up(int(bucket[0]), Samples(at, series, rate, window_s, throttle_ms), by_name)
        series = series & MEMBER
    return BucketRows(int(bucket[0]), at, series, rate, window_s, throttle_ms, by_name)


def _added_up(bucket_id: int, samples: Samples, of_series: Mapping[str, Floats]) -> BucketRows:
    found = added_up(samples)
    count = len(found.at)
    least = {name: numpy.full(count, numpy.fmin.reduce(values)) for name, values in of_series.items()}
    no_one = numpy.zeros(count, numpy.int64)
    return BucketRows(bucket_id, found.at, no_one, found.rate, found.window_s, found.throttle_ms, least, found)
