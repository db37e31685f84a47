"""Clients that measured themselves, added up: each measured at times of its own, and their limit is one of all of them.

The sum is made at all times at which any of them measured. A client's value at a time is that of its first sample at or
after it, if that sample stands for the time; otherwise the client adds nothing.

| the sample before it is | a sample stands for the time since |
| --- | --- |
| at most `LONGEST_STEP_S` older | the sample before it |
| older, or there is none | the beginning of its own window, and the sample before it |

So each sample counts for as long as it stands for, whoever else measured meanwhile, and a client that has ended counts
no more. A series without an instance is one more of them in such a bucket. Where a member is known in both ways, as
when the same clients were recorded by an earlier version, too, the larger of the two values counts, not their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from quotaform.core.usage.sample.series import LONGEST_STEP_S, QUOTA_WINDOW_S
from quotaform.spark.usage.bucket.member import MEMBER, MEMBER_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quotaform.spark.usage.bucket.bucket_rows import Booleans, Floats, Integers

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
    """What a bucket used, by time.

    Attributes:
        at: The times, each once.
        rate: The sum of the rates; NaN where nobody has one.
        rate_high: The same, with the larger one of a client's rates before and after where neither covers the time
            since the time before.
        window_s: How many seconds up to a time all rates cover; NaN where nobody has one.
        throttle_ms: The largest throttle time; NaN without any.
        is_new: Whether one of these is another one than in the sample before it.
        members: The numbers of the members, see `quotaform.spark.usage.bucket.member`.
        totals: The sum of the rates of each member.
    """

    at: Integers
    rate: Floats
    rate_high: Floats
    window_s: Floats
    throttle_ms: Floats
    is_new: Booleans
    members: Integers
    totals: Floats


def has_instances(series: Integers) -> bool:
    """Whether clients that measured themselves are among the series."""
    return bool((series >> MEMBER_BITS).any())


def added_up(samples: Samples) -> Sum:
    """Return what a bucket used whose series are partly or all of clients that measured themselves."""
    at = samples.at[starts_of(samples.at)]
    total = _Total.of(at)
    members, totals = [], []
    # A member's series without an instance comes first.
    order = numpy.lexsort((samples.series, samples.series & MEMBER))
    for member in _runs(samples.take(order), MEMBER):
        members.append(member.series[0] & MEMBER)
        totals.append(total.add_member(member))
    return Sum(
        at=at,
        rate=numpy.where(total.has_rate, total.rate, numpy.nan),
        rate_high=numpy.where(total.has_rate, total.rate_high, numpy.nan),
        window_s=numpy.where(total.has_rate, numpy.maximum(0, at - total.covered_since) / _MICROSECONDS, numpy.nan),
        throttle_ms=total.throttle_ms,
        is_new=total.is_new,
        members=numpy.array(members),
        totals=numpy.array(totals),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Total:
    """What is added up so far, by time."""

    at: Integers
    rate: Floats
    rate_high: Floats
    has_rate: Booleans
    covered_since: Integers
    throttle_ms: Floats
    is_new: Booleans

    @classmethod
    def of(cls, at: Integers) -> _Total:
        """Return that of nobody."""
        count = len(at)
        return cls(
            at,
            numpy.zeros(count),
            numpy.zeros(count),
            numpy.zeros(count, bool),
            numpy.full(count, _NEVER),
            numpy.full(count, numpy.nan),
            numpy.zeros(count, bool),
        )

    def add_member(self, samples: Samples) -> float:
        """Add the series of one member, which are in the order of their numbers; return the sum of its rates."""
        for each in _runs(samples):
            self._add_throttle(each)
        known = samples.take(~numpy.isnan(samples.rate))
        if not len(known.at):
            return 0.0
        series = list(_runs(known))
        if has_instances(known.series) and not has_instances(known.series[:1]):
            # It is known as a whole, and by its instances.
            whole, parts = _Total.of(self.at), _Total.of(self.at)
            whole._add_rates(series[:1])
            parts._add_rates(series[1:])
            numpy.maximum(self.covered_since, whole.covered_since, out=self.covered_since)
            numpy.maximum(self.covered_since, parts.covered_since, out=self.covered_since)
            numpy.logical_or(self.has_rate, whole.has_rate | parts.has_rate, out=self.has_rate)
            larger = numpy.maximum(whole.rate, parts.rate)
            numpy.add(self.rate, larger, out=self.rate)
            numpy.add(self.rate_high, numpy.maximum(whole.rate_high, parts.rate_high), out=self.rate_high)
            return float(larger.sum())
        return self._add_rates(series)

    def _add_rates(self, series: list[Samples]) -> float:
        """Add the rates of series, each in the order of time; return their sum over the times."""
        found = 0.0
        before = numpy.append(_NEVER, self.at[:-1])
        for each in series:
            covered_since = _window_start(each)
            span = _span(self.at, each)
            rate, is_known = span.filled(each.rate, 0.0), span.filled(numpy.ones(len(each.at), bool), False)
            self.rate[span.place] += rate
            self.has_rate[span.place] |= is_known
            since = span.filled(covered_since, _NEVER)
            higher = numpy.where(since > before[span.place], span.filled(_higher(each), 0.0), rate)
            self.rate_high[span.place] += higher
            self.covered_since[span.place] = numpy.maximum(self.covered_since[span.place], since)
            found += float(rate.sum())
        return found

    def _add_throttle(self, samples: Samples) -> None:
        throttle = samples.throttle_ms
        if numpy.isnan(throttle).all():
            return
        span = _span(self.at, samples)
        # Nothing equals NaN: after a time without throttling, all of it is new.
        is_new = ~numpy.isnan(throttle) & numpy.append(True, throttle[1:] != throttle[:-1])
        own = span.filled(throttle, numpy.nan)
        self.throttle_ms[span.place] = numpy.fmax(self.throttle_ms[span.place], own)
        self.is_new[span.place] |= span.filled(is_new, False)


class _Span(NamedTuple):
    """The times for which the samples of a series stand.

    Attributes:
        place: Which times they are, gaps included.
        counts: How many times are before each sample, in a gap, and for how many it stands: both in turns.
    """

    place: slice
    counts: Integers

    def filled(self, values: NDArray[Any], nothing: float) -> NDArray[Any]:
        """Return values by time.

        Args:
            values: A value per sample.
            nothing: What is in gaps.
        """
        both = numpy.full(2 * len(values), nothing, values.dtype)
        both[1::2] = values
        return numpy.repeat(both, self.counts)


def _higher(samples: Samples) -> Floats:
    """Return the larger one of each rate and the one before it, if that is near."""
    found = samples.rate.copy()
    is_near = numpy.diff(samples.at) <= _LONGEST_STEP
    numpy.fmax(found[1:], samples.rate[:-1], out=found[1:], where=is_near)
    return found


def _window_start(samples: Samples) -> Integers:
    window = numpy.where(numpy.isnan(samples.window_s), QUOTA_WINDOW_S, samples.window_s)
    return samples.at - numpy.rint(numpy.minimum(window, _LONGEST_WINDOW_S) * _MICROSECONDS).astype(numpy.int64)


def _span(times: Integers, samples: Samples) -> _Span:
    """Return for which times the samples of a series stand, which are in the order of time."""
    at, since = samples.at, _window_start(samples)
    is_near = at[1:] - at[:-1] <= _LONGEST_STEP
    since[1:] = numpy.where(is_near, at[:-1], numpy.maximum(at[:-1], since[1:]))
    first = numpy.searchsorted(times, since, "right")
    end = numpy.searchsorted(times, at, "right")
    counts = numpy.zeros(2 * len(at), numpy.int64)
    counts[1::2] = end - first
    counts[2::2] = first[1:] - end[:-1]
    return _Span(slice(int(first[0]), int(end[-1])), counts)


def _runs(samples: Samples, part: int = -1) -> Iterator[Samples]:
    """Yield the samples of each series, or of each member; those of one follow one another.

    Args:
        part: The bits of their numbers that make a difference.
    """
    for begin, end in pairwise((*starts_of(samples.series & part), len(samples.series))):
        yield samples.take(slice(begin, end))


def starts_of(values: NDArray[Any]) -> Integers:
    """Return where runs of equal values begin."""
    return numpy.flatnonzero(numpy.concatenate(([True], values[1:] != values[:-1])))
