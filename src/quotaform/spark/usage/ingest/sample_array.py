"""The samples of many series as arrays, brought together to rows, as `core.usage.sample.merge` does it to one series.

Both do the same; here, no step of Python is taken per sample or series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from quotaform.core.usage.sample.sample import DropReason
from quotaform.core.usage.sample.series import Attribute

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray

ATTRIBUTES: Final = {attribute.value: place for place, attribute in enumerate(Attribute)}
"""The number of an attribute in `SampleArrays`."""
_RATE, _THROTTLE_TIME, _TOTAL = (
    ATTRIBUTES[each] for each in (Attribute.RATE, Attribute.THROTTLE_TIME, Attribute.TOTAL)
)
_MICROSECONDS: Final = 1_000_000


class SampleArrays(NamedTuple):
    """Samples, each with the number of its series and of its attribute; times are in microseconds."""

    series: Array
    attribute: Array
    ts: Array
    value: Array
    window_s: Array

    def take(self, chosen: Array) -> SampleArrays:
        """Return some of them: those at indexes, or those where a mask is true."""
        return SampleArrays(*(each[chosen] for each in self))


class RowArrays(NamedTuple):
    """Rows by series and time; a rate or a throttle time that is not known is not a number."""

    series: Array
    ts: Array
    window_s: Array
    rate: Array
    throttle_ms: Array


class MergedArrays(NamedTuple):
    """What becomes of samples.

    Attributes:
        dropped: How many samples are left out, per reason.
    """

    rows: RowArrays
    dropped: Mapping[DropReason, int]


def merged_arrays(samples: SampleArrays) -> MergedArrays:
    """Return the rows of samples in any order, as the table of `core.usage.merge.merge` says."""
    import numpy

    dropped = dict.fromkeys((DropReason.DUPLICATE, DropReason.CONFLICT), 0)
    is_total = samples.attribute == _TOTAL
    if is_total.any():
        totals = _unique(samples.take(is_total), dropped)
        rates = _rates(totals, dropped)
        # Of equal values the last one is kept: one that was measured.
        samples = SampleArrays(*(numpy.concatenate(both) for both in zip(rates, samples.take(~is_total), strict=True)))
    return MergedArrays(_rows(_unique(samples, dropped)), {each: count for each, count in dropped.items() if count})


def _unique(samples: SampleArrays, dropped: dict[DropReason, int]) -> SampleArrays:
    """Return samples by series, time and attribute, of several with the same ones the largest; count the others."""
    import numpy

    if len(samples.ts) < 2:
        return samples
    if not _is_sorted(samples):
        order = numpy.lexsort((samples.value, samples.attribute, samples.ts, samples.series))
        samples = samples.take(order)
    is_same = _is_same(samples.series) & _is_same(samples.ts) & _is_same(samples.attribute)
    if not is_same.any():
        return samples
    is_last = numpy.append(~is_same, True)
    lasts = numpy.flatnonzero(is_last)
    # The place of the largest one of its time, for each of those that are left out.
    largest = lasts[numpy.searchsorted(lasts, numpy.flatnonzero(~is_last))]
    equal = int((samples.value[largest] == samples.value[~is_last]).sum())
    dropped[DropReason.DUPLICATE] += equal
    dropped[DropReason.CONFLICT] += len(largest) - equal
    return samples.take(is_last)


def _is_sorted(samples: SampleArrays) -> bool:
    """Whether samples are by series, time and attribute, and no two have all of these."""
    import numpy

    step_of_series, step_of_ts, step = (numpy.diff(each) for each in (samples.series, samples.ts, samples.attribute))
    is_next = (step_of_series > 0) | ((step_of_series == 0) & ((step_of_ts > 0) | ((step_of_ts == 0) & (step > 0))))
    return bool(is_next.all())


def _is_same(values: Array) -> Array:
    """Return for each value but the last whether the next one is the same."""
    found: Array = values[1:] == values[:-1]
    return found


def _rates(totals: SampleArrays, dropped: dict[DropReason, int]) -> SampleArrays:
    """Return the rates that follow from totals, which are by series and time."""
    import numpy

    is_later = _is_same(totals.series)
    seconds = numpy.diff(totals.ts) / _MICROSECONDS
    increase = numpy.diff(totals.value)
    is_rate = is_later & (increase >= 0)
    dropped[DropReason.FIRST_TOTAL] = len(totals.ts) - int(is_later.sum())
    dropped[DropReason.COUNTER_RESET] = int((is_later & (increase < 0)).sum())
    found = totals.take(numpy.insert(is_rate, 0, False)) if len(totals.ts) else totals
    windows = seconds[is_rate]
    return found._replace(
        value=increase[is_rate] / windows, window_s=windows, attribute=numpy.full_like(found.attribute, _RATE)
    )


def _rows(samples: SampleArrays) -> RowArrays:
    """Return a row per series and time of samples that are by series and time, with each attribute once."""
    import numpy

    count = len(samples.ts)
    is_first = numpy.ones(count, bool)
    if count > 1:
        is_first[1:] = ~(_is_same(samples.series) & _is_same(samples.ts))
    is_rate = samples.attribute == _RATE
    row = numpy.cumsum(is_first) - 1
    rows = int(is_first.sum())
    rate, throttle_ms = numpy.full(rows, numpy.nan), numpy.full(rows, numpy.nan)
    rate[row[is_rate]] = samples.value[is_rate]
    throttle_ms[row[~is_rate]] = samples.value[~is_rate]
    # That of the rate, which comes before the throttle time.
    return RowArrays(samples.series[is_first], samples.ts[is_first], samples.window_s[is_first], rate, throttle_ms)
