"""What was recorded of each bucket as arrays, a row per time, added up over its members.

Only numbers are shuffled, once, by bucket, and Spark sorts nothing: buckets and times are ordered here, as recordings
nearly are. A Python worker holds the samples of its task, and at least those of a bucket on a broker: 60 bytes each,
twice while they are ordered, and some 300 bytes of a bucket while it is replayed.

Brokers measure all their buckets at one time, and are added up time by time. Clients that measure themselves do so at
times of their own, and their limit is one of all of them. Their sum is made at all times at which any of them measured:
a client's value at a time is that of its first sample at or after it, if that sample stands for the time; otherwise the
client adds nothing.

| the sample before it is | a sample stands for the time since |
| --- | --- |
| at most `LONGEST_STEP_S` older | the sample before it |
| older, or there is none | the beginning of its own window, and the sample before it |

So each sample counts for as long as it stands for, whoever else measured meanwhile, and a client that has ended counts
no more. A series without an instance is one more of them in such a bucket. Where a member is known in both ways, as
when the same clients were recorded by an earlier version, too, the larger of the two values counts, not their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Any, Final

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

Floats = NDArray[numpy.float64]
"""Numbers by row; NaN where there is none."""
Integers = NDArray[numpy.int64]
Booleans = NDArray[numpy.bool_]

RECORDED_LIMIT: Final = "before_limit"
"""The column of the limit that held while a series was recorded, before a plan; null if no rate can exceed it."""
_SAMPLES: Final = ("bucket_id", "series_id", "at", "rate", "window_s", "throttle_ms")
_ROWS_IN_TASK: Final = 1_000_000
"""A task has so many rows in some 200 MB."""
_ROWS_IN_BATCH: Final = 10_000
"""A batch of one row takes Spark a millisecond."""
_MOST_BROADCAST: Final = 500_000
"""How many series are broadcast; about 200 bytes each."""
_LONGEST_STEP: Final = round(LONGEST_STEP_S * 1e6)
_NEVER: Final = numpy.iinfo(numpy.int64).min
_LONGEST_WINDOW_S: Final = 1e9
"""Longer windows count as so long, as microseconds have 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BucketRows:
    """What was recorded of one bucket on one broker, a row per time, of all series together."""

    at: Integers  # Microseconds since 1970, each once
    rate: Floats  # The sum of the rates, in the unit of the key
    rate_high: Floats | None = None
    """Of clients that measured themselves the same, with the larger one of a client's rates before and after where
    neither covers the time since the time before."""
    window_s: Floats  # How many seconds up to a time the rates cover
    throttle_ms: Floats  # The largest average delay of requests that were throttled
    is_newly_throttled: Booleans
    """Whether requests were throttled since the time before, as far as can be told.

    A throttle time is an average of the last 30 to 60 seconds, so one that stays is an old one. It counts if that of
    any series is another one than in the sample of the series before, or if there is one while the rate is at least
    95 % of the limit `RECORDED_LIMIT`: then every delay may be as long as the longest that is allowed. Series with
    different limits are compared with their own, others as the sum."""
    members: Integers  # The numbers of the members in their order, see `quotaform.usage.bucket.spark`
    totals: Floats  # The sum of the rates of each member
    of_series: Mapping[str, float]  # What else is known of the series, by column; the least where they differ


def bucket_rows(columns: Mapping[str, NDArray[Any]]) -> BucketRows:
    """Return what was recorded of a bucket on a broker.

    `columns`: `series_id`, `at`, `rate`, `window_s` and `throttle_ms` of its samples, which are in no order, and what
    else is known of the series of each.
    """
    order = numpy.lexsort((columns["series_id"], columns["at"]))
    every = {name: column[order] for name, column in columns.items()}
    series, at = every.pop("series_id"), every.pop("at")
    starts = numpy.union1d(starts_of(at), starts_of(series))
    if len(starts) < len(at):
        # Some rows are there twice, and some have the rate apart from the throttle time.
        series, at = series[starts], at[starts]
        every = {name: numpy.fmax.reduceat(column, starts) for name, column in every.items()}
    others = {name: column for name, column in every.items() if name not in _SAMPLES}
    limit = others.get(RECORDED_LIMIT, numpy.full(len(at), numpy.nan))
    samples = series, at, every["rate"], every["window_s"], every["throttle_ms"]
    is_of_clients = bool((series >> MEMBER_BITS).any() and (series != series[0]).any())
    fields = _of_clients(*samples, limit) if is_of_clients else _of_broker(*samples, limit)
    return BucketRows(**fields, of_series={name: float(numpy.fmin.reduce(column)) for name, column in others.items()})


def starts_of(values: NDArray[Any]) -> Integers:
    """Return where runs of equal values begin."""
    return numpy.flatnonzero(numpy.concatenate(([True], values[1:] != values[:-1]))[: len(values)])


def _of_broker(
    series: Integers, at: Integers, rate: Floats, window_s: Floats, throttle_ms: Floats, limit: Floats
) -> dict[str, Any]:
    """Return the fields of `BucketRows` of series that were measured at common times."""
    starts = starts_of(at)
    is_missing = numpy.isnan(rate)
    sums = numpy.add.reduceat(numpy.where(is_missing, 0.0, rate), starts)
    sums[numpy.logical_and.reduceat(is_missing, starts)] = numpy.nan
    order = numpy.argsort(series, kind="stable")
    is_new = numpy.empty(len(series), bool)
    is_new[order] = numpy.append(True, series[order][1:] != series[order][:-1]) | _is_other(throttle_ms[order])
    is_throttled = ~numpy.isnan(throttle_ms)
    at_limit = limit * AT_LIMIT_RATIO
    least, most = (each.reduceat(at_limit, starts) for each in (numpy.minimum, numpy.maximum))
    of_own = numpy.logical_or.reduceat(rate >= at_limit, starts)
    is_at_limit = numpy.where(least == most, sums >= least, of_own)
    members, place = numpy.unique(series & MEMBER, return_inverse=True)
    is_any, is_any_new = (numpy.logical_or.reduceat(each, starts) for each in (is_throttled, is_new & is_throttled))
    return {
        "at": at[starts],
        "rate": sums,
        "window_s": numpy.fmax.reduceat(window_s, starts),
        "throttle_ms": numpy.fmax.reduceat(throttle_ms, starts),
        "is_newly_throttled": is_any_new | (is_any & is_at_limit),
        "members": members,
        "totals": numpy.bincount(place, weights=numpy.nan_to_num(rate)),
    }


def _is_other(throttle_ms: Floats) -> Booleans:
    """Return whether each throttle time is another one than that before; after a time without, all of it is new."""
    return numpy.append(True, throttle_ms[1:] != throttle_ms[:-1])


def _of_clients(
    series: Integers, at: Integers, rate: Floats, window_s: Floats, throttle_ms: Floats, limit: Floats
) -> dict[str, Any]:
    """Return the fields of `BucketRows` of series that are partly or all of clients that measured themselves."""
    times = at[starts_of(at)]
    count = len(times)
    before = numpy.append(_NEVER, times[:-1])
    rates, throttle = numpy.zeros((2, count)), numpy.full(count, numpy.nan)
    is_known, is_new, since = numpy.zeros(count, bool), numpy.zeros(count, bool), numpy.full(count, _NEVER)
    window = numpy.minimum(numpy.where(numpy.isnan(window_s), QUOTA_WINDOW_S, window_s), _LONGEST_WINDOW_S)
    begun = at - numpy.rint(window * 1e6).astype(numpy.int64)
    by_member: dict[int, list[Integers]] = {}
    order = numpy.lexsort((series, series & MEMBER))
    for own in numpy.split(order, starts_of(series[order])[1:]):
        by_member.setdefault(int(series[own[0]] & MEMBER), []).append(own)
    totals = []
    for of_member in by_member.values():
        # As a whole, and by its instances: the rates, and the highest that they may have been.
        ways = numpy.zeros((2, 2, count))
        for own in of_member:
            way = ways[int(series[own[0]] >> MEMBER_BITS > 0)]
            place, sample, stands = _standing(times, at[own], begun[own])
            throttled = throttle_ms[own]
            throttle[place] = numpy.fmax(throttle[place], numpy.where(stands, throttled[sample], numpy.nan))
            is_new[place] |= stands & (~numpy.isnan(throttled) & _is_other(throttled))[sample]
            own = own[~numpy.isnan(rate[own])]
            if not len(own):
                continue
            place, sample, stands = _standing(times, at[own], begun[own])
            # The larger one of a rate and the one before it, if that is near.
            higher = rate[own]
            numpy.fmax(higher[1:], rate[own[:-1]], out=higher[1:], where=numpy.diff(at[own]) <= _LONGEST_STEP)
            own = own[sample]
            way[0, place] += numpy.where(stands, rate[own], 0.0)
            way[1, place] += numpy.where(
                stands, numpy.where(begun[own] > before[place], higher[sample], rate[own]), 0.0
            )
            is_known[place] |= stands
            since[place] = numpy.maximum(since[place], numpy.where(stands, begun[own], _NEVER))
        larger = ways.max(axis=0)
        rates += larger
        totals.append(larger[0].sum())
    rates[:, ~is_known] = numpy.nan
    is_at_limit = rates[0] >= numpy.fmin.reduce(limit) * AT_LIMIT_RATIO
    return {
        "at": times,
        "rate": rates[0],
        "rate_high": rates[1],
        "window_s": numpy.where(is_known, numpy.maximum(0, times - since) / 1e6, numpy.nan),
        "throttle_ms": throttle,
        "is_newly_throttled": is_new | (~numpy.isnan(throttle) & is_at_limit),
        "members": numpy.array([*by_member]),
        "totals": numpy.array(totals),
    }


def _standing(times: Integers, at: Integers, begun: Integers) -> tuple[slice, Integers, Booleans]:
    """Return which times a series is about, its first sample at or after each, and whether that stands for the time.

    `begun`: when the window of each of its samples began.
    """
    since = begun.copy()
    since[1:] = numpy.where(numpy.diff(at) <= _LONGEST_STEP, at[:-1], numpy.maximum(at[:-1], begun[1:]))
    place = slice(int(numpy.searchsorted(times, since[0], "right")), int(numpy.searchsorted(times, at[-1], "right")))
    sample = numpy.searchsorted(at, times[place])
    return place, sample, times[place] > since[sample]


def _samples(usage: DataFrame, series: DataFrame, number: int, columns: Sequence[str]) -> DataFrame:
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
    rows = _samples(usage, series, size["series"], columns).repartition(tasks, "bucket_id")
    names, kinds = rows.columns[1:], to_arrow_schema(schema)

    def computed(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        parts = [[column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in batches]
        if not parts:
            return
        ids, *arrays = (numpy.concatenate(each) for each in zip(*parts, strict=True))
        order = numpy.argsort(ids, kind="stable")
        ids, arrays = ids[order], [each[order] for each in arrays]
        made: list[list[Any]] = []
        size = 0
        for begin, end in pairwise((*starts_of(ids), len(ids))):
            found = compute(bucket_rows(dict(zip(names, (each[begin:end] for each in arrays), strict=True))))
            if found is not None:
                values = [
                    found[name] if isinstance(found[name], numpy.ndarray | list) else [found[name]]
                    for name in kinds.names[1:]
                ]
                made.append([[ids[begin]] * len(values[0]), *values])
                size += len(values[0])
            if size >= _ROWS_IN_BATCH or (size and end == len(ids)):
                columns = [
                    pyarrow.array(list(chain.from_iterable(column)), kind.type, from_pandas=True)
                    for column, kind in zip(zip(*made, strict=True), kinds, strict=True)
                ]
                yield pyarrow.record_batch(columns, kinds)
                made, size = [], 0

    return rows.mapInArrow(computed, schema)
