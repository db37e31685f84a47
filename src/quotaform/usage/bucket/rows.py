"""The samples of each bucket as arrays, in order of time and added up over its members.

Only numbers are shuffled, once, by bucket, and Spark sorts nothing: buckets and times are ordered here, as recordings
nearly are. A Python worker holds the samples of its task, and at least those of a bucket on a broker: 60 bytes each,
twice while they are ordered, and some 300 bytes of a bucket while it is replayed.

Brokers measure all their buckets at one time, and are added up time by time. Clients that measure themselves do so at
times of their own; `quotaform.usage.bucket.rows` brings them to common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray
from pyspark.sql import functions as f

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.usage.bucket.spark import MEMBER, MEMBER_BITS, same_columns
from quotaform.usage.headroom.headroom import AT_LIMIT_RATIO
from quotaform.usage.sample import LONGEST_STEP_S
from quotaform.usage.table.schema import SERIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


# Clients that measured themselves, added up: each measured at times of its own, and their limit is one of all of them.
#
# The sum is made at all times at which any of them measured. A client's value at a time is that of its first sample at
# or after it, if that sample stands for the time; otherwise the client adds nothing.
#
# | the sample before it is | a sample stands for the time since |
# | --- | --- |
# | at most `LONGEST_STEP_S` older | the sample before it |
# | older, or there is none | the beginning of its own window, and the sample before it |
#
# So each sample counts for as long as it stands for, whoever else measured meanwhile, and a client that has ended
# counts no more. A series without an instance is one more of them in such a bucket. Where a member is known in both
# ways, as when the same clients were recorded by an earlier version, too, the larger of the two values counts, not
# their sum.


_MICROSECONDS = 1e6
_LONGEST_STEP = round(LONGEST_STEP_S * _MICROSECONDS)
_NEVER = numpy.iinfo(numpy.int64).min
_LONGEST_WINDOW_S = 1e9
"""Longer windows count as so long, as microseconds have 64 bits."""


class Samples(NamedTuple):
    """Samples of the series of a bucket, in the order of time; a series once per time. See `BucketRows`."""

    at: Integers
    series: Integers
    rate: Floats
    window_s: Floats
    throttle_ms: Floats

    def take(self, chosen: slice | NDArray[Any]) -> Samples:
        """Return some of them."""
        own = self.at[chosen], self.series[chosen]
        return Samples(*own, self.rate[chosen], self.window_s[chosen], self.throttle_ms[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """What a bucket used, by time."""

    at: Integers  # The times, each once
    rate: Floats  # The sum of the rates; NaN where none is known
    rate_high: Floats
    """The same, with the larger one of a client's rates before and after where neither covers the time since the time
    before."""
    window_s: Floats  # How many seconds up to a time all rates cover; NaN where none is known
    throttle_ms: Floats  # The largest throttle time; NaN without any
    is_new: Booleans  # Whether one of these is another one than in the sample before it
    members: Integers  # The numbers of the members, see `quotaform.usage.bucket.spark`
    totals: Floats  # The sum of the rates of each member


def has_instances(series: Integers) -> bool:
    """Whether clients that measured themselves are among the series."""
    return bool((series >> MEMBER_BITS).any())


def added_up(samples: Samples) -> Sum:
    """Return what a bucket used whose series are partly or all of clients that measured themselves."""
    at = samples.at[starts_of(samples.at)]
    total = _Rates.of(at)
    throttle_ms, is_new = numpy.full(len(at), numpy.nan), numpy.zeros(len(at), bool)
    members, totals = [], []
    # A member's series without an instance comes first.
    order = numpy.lexsort((samples.series, samples.series & MEMBER))
    for member in _runs(samples.take(order), MEMBER):
        for each in _runs(member):
            _add_throttle(at, each, throttle_ms, is_new)
        members.append(member.series[0] & MEMBER)
        series = list(_runs(member.take(~numpy.isnan(member.rate))))
        whole = [each for each in series if not has_instances(each.series[:1])]
        ways = [way for way in (whole, series[len(whole) :]) if way]
        if len(ways) < 2:
            totals.append(sum(map(total.add, series)))
            continue
        # It is known as a whole, and by its instances.
        both = [_Rates.of(at), _Rates.of(at)]
        for found, way in zip(both, ways, strict=True):
            for each in way:
                found.add(each)
            total.is_known |= found.is_known
            numpy.maximum(total.since, found.since, out=total.since)
        larger = numpy.maximum(both[0].rate, both[1].rate)
        total.rate += larger
        total.rate_high += numpy.maximum(both[0].rate_high, both[1].rate_high)
        totals.append(float(larger.sum()))
    return Sum(
        at=at,
        rate=numpy.where(total.is_known, total.rate, numpy.nan),
        rate_high=numpy.where(total.is_known, total.rate_high, numpy.nan),
        window_s=numpy.where(total.is_known, numpy.maximum(0, at - total.since) / _MICROSECONDS, numpy.nan),
        throttle_ms=throttle_ms,
        is_new=is_new,
        members=numpy.array(members),
        totals=numpy.array(totals),
    )


@dataclass(slots=True, eq=False)
class _Rates:
    """The sum of the rates of series, by time."""

    at: Integers
    rate: Floats
    rate_high: Floats
    is_known: Booleans
    since: Integers  # From when on all rates cover the time

    @classmethod
    def of(cls, at: Integers) -> _Rates:
        """Return that of no series."""
        count = len(at)
        none = numpy.zeros(count, bool)
        return cls(at, numpy.zeros(count), numpy.zeros(count), none, numpy.full(count, _NEVER))

    def add(self, series: Samples) -> float:
        """Add the rates of a series, which are in the order of time; return their sum over the times."""
        place, sample, stands = _standing(self.at, series)
        rate, since = numpy.where(stands, series.rate[sample], 0.0), _window_start(series)[sample]
        before = numpy.append(_NEVER, self.at[:-1])[place]
        # The larger one of a rate and the one before it, if that is near.
        higher = series.rate.copy()
        is_near = numpy.diff(series.at) <= _LONGEST_STEP
        numpy.fmax(higher[1:], series.rate[:-1], out=higher[1:], where=is_near)
        self.rate[place] += rate
        self.rate_high[place] += numpy.where(stands & (since > before), higher[sample], rate)
        self.is_known[place] |= stands
        self.since[place] = numpy.maximum(self.since[place], numpy.where(stands, since, _NEVER))
        return float(rate.sum())


def _add_throttle(at: Integers, series: Samples, throttle_ms: Floats, is_new: Booleans) -> None:
    """Add the throttle times of a series: the largest one of each time, and whether it is a new one."""
    own = series.throttle_ms
    if numpy.isnan(own).all():
        return
    place, sample, stands = _standing(at, series)
    # Nothing equals NaN: after a time without throttling, all of it is new.
    is_other = ~numpy.isnan(own) & numpy.append(True, own[1:] != own[:-1])
    throttle_ms[place] = numpy.fmax(throttle_ms[place], numpy.where(stands, own[sample], numpy.nan))
    is_new[place] |= stands & is_other[sample]


def _standing(times: Integers, series: Samples) -> tuple[slice, Integers, Booleans]:
    """Return which times a series is about, its first sample at or after each, and whether that stands for the time."""
    at, since = series.at, _window_start(series)
    is_near = at[1:] - at[:-1] <= _LONGEST_STEP
    since[1:] = numpy.where(is_near, at[:-1], numpy.maximum(at[:-1], since[1:]))
    place = slice(int(numpy.searchsorted(times, since[0], "right")), int(numpy.searchsorted(times, at[-1], "right")))
    sample = numpy.searchsorted(at, times[place])
    return place, sample, times[place] > since[sample]


def _window_start(samples: Samples) -> Integers:
    window = numpy.where(numpy.isnan(samples.window_s), QUOTA_WINDOW_S, samples.window_s)
    return samples.at - numpy.rint(numpy.minimum(window, _LONGEST_WINDOW_S) * _MICROSECONDS).astype(numpy.int64)


def _runs(samples: Samples, part: int = -1) -> Iterator[Samples]:
    """Yield the samples of each series, or of each member; those of one follow one another.

    `part`: the bits of their numbers that make a difference.
    """
    for begin, end in pairwise((*starts_of(samples.series & part), len(samples.series))):
        yield samples.take(slice(begin, end))


def starts_of(values: NDArray[Any]) -> Integers:
    """Return where runs of equal values begin."""
    return numpy.flatnonzero(numpy.concatenate(([True], values[1:] != values[:-1]))[: len(values)])


Floats = NDArray[numpy.float64]
"""Numbers by row; NaN where there is none."""
Integers = NDArray[numpy.int64]
Booleans = NDArray[numpy.bool_]

RECORDED_LIMIT: Final = "before_limit"
"""The column of the limit that held while a series was recorded, before a plan; null if no rate can exceed it."""
_ROWS_IN_TASK: Final = 1_000_000
"""A task has so many rows in some 200 MB."""
_ROWS_IN_BATCH: Final = 10_000
"""A batch of one row takes Spark a millisecond."""
_MOST_BROADCAST: Final = 500_000
"""How many series are broadcast; about 200 bytes each."""


class TimeRows(NamedTuple):
    """What was recorded of one bucket on one broker, a row per time; see `BucketRows`."""

    at: Integers
    rate: Floats  # The sum of all series; NaN where there are none
    window_s: Floats  # The longest window
    throttle_ms: Floats  # The largest throttle time


@dataclass(frozen=True, slots=True, eq=False)
class BucketRows:
    """What was recorded of one bucket on one broker, in the order of time and series; a series once per time."""

    bucket_id: int
    at: Integers  # Microseconds since 1970
    series: Integers  # The number of the series' member; of no one where clients that measured themselves are added up
    rate: Floats  # In the unit of the key
    window_s: Floats  # How many seconds up to `at` the rate covers
    throttle_ms: Floats  # The average delay of requests that were throttled
    of_series: Mapping[str, Floats]
    """What else is known of the series of each row, by column; the least one of those that are added up."""
    instances: Sum | None = None  # The sum of what clients measured themselves, if some did; then each time has one row

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

    def by_time(self) -> TimeRows:
        """Return what was recorded at each time, of all series together."""
        starts = self.starts()
        if starts is None:
            return TimeRows(self.at, self.rate, self.window_s, self.throttle_ms)
        window, throttle = (numpy.fmax.reduceat(each, starts) for each in (self.window_s, self.throttle_ms))
        return TimeRows(self.at[starts], self.summed(self.rate), window, throttle)

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


def _bucket_rows(usage: DataFrame, series: DataFrame, number: int, columns: Sequence[str]) -> DataFrame:
    """Return the samples of series, as numbers, not brought together yet."""
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
    usage: DataFrame,
    series: DataFrame,
    columns: Sequence[str],
    compute: Callable[[BucketRows], Mapping[str, Any] | None],
    schema: StructType,
) -> DataFrame:
    """Return what is computed of each bucket of which usage is recorded. Its samples are shuffled once, as numbers.

    `series`: persisted; the columns of `RECORDED`, `bucket_id` and `series_id` (of type long), and `columns`: what else
    each row needs to know of its series, as numbers. `compute`: returns the columns of `schema` but `bucket_id`: a
    value each, or arrays or lists of one length; or `None` for no rows. A NaN becomes null. `schema`: its first column
    is `bucket_id`.
    """
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    [size] = series.agg(f.count("*").alias("series"), f.sum("samples").alias("samples")).toArrow().to_pylist()
    tasks = max(2, ceil((size["samples"] or 0) / _ROWS_IN_TASK))
    rows = _bucket_rows(usage, series, size["series"], columns).repartition(tasks, "bucket_id")
    kinds = to_arrow_schema(schema)

    names = rows.columns

    def computed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        parts = [[column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in batches]
        if not parts:
            return
        arrays = [numpy.concatenate(each) for each in zip(*parts, strict=True)]
        order = numpy.argsort(arrays[0], kind="stable")
        arrays = [each[order] for each in arrays]
        made: list[list[Any]] = []
        size = 0
        for begin, end in pairwise((*starts_of(arrays[0]), len(order))):
            bucket = _bucket(dict(zip(names, (each[begin:end] for each in arrays), strict=True)))
            found = compute(bucket)
            if found is not None:
                values = [
                    found[name] if isinstance(found[name], numpy.ndarray | list) else [found[name]]
                    for name in kinds.names[1:]
                ]
                made.append([[bucket.bucket_id] * len(values[0]), *values])
                size += len(values[0])
            if size >= _ROWS_IN_BATCH or (size and end == len(order)):
                columns = [
                    pyarrow.array(list(chain.from_iterable(column)), kind.type, from_pandas=True)
                    for column, kind in zip(zip(*made, strict=True), kinds, strict=True)
                ]
                yield pyarrow.record_batch(columns, kinds)
                made, size = [], 0

    return rows.mapInArrow(computed, schema)


def _bucket(by_name: dict[str, NDArray[Any]]) -> BucketRows:
    """Return the rows of a bucket of its columns, which are in no order."""
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
