"""What was recorded of each bucket as arrays, a row per time, added up over its members.

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

from collections.abc import Mapping
from typing import Any, Final

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.usage.headroom.headroom import AT_LIMIT_RATIO
from quotaform.usage.sample import LONGEST_STEP_S

Floats = NDArray[numpy.float64]
"""Numbers by row; NaN where there is none."""
Integers = NDArray[numpy.int64]
Booleans = NDArray[numpy.bool_]

RECORDED_LIMIT: Final = "before_limit"
"""The column of the limit that held while a series was recorded, before a plan; null if no rate can exceed it."""

# The number of a series in its bucket has two parts:
#
# | bits | content |
# | --- | --- |
# | the lower 32 | the number of its member: those who have the same names, in the order of their addresses |
# | the others | which of several clients with these names it is; 0 if a broker measured |

MEMBER_BITS: Final = 32
"""How many of the lower bits of `series_id` are the number of the member."""
MEMBER: Final = (1 << MEMBER_BITS) - 1
"""The part of `series_id` that is the number of the member."""
_LONGEST_STEP: Final = round(LONGEST_STEP_S * 1e6)
_NEVER: Final = numpy.iinfo(numpy.int64).min
_LONGEST_WINDOW_S: Final = 1e9
"""Longer windows count as so long, as microseconds have 64 bits."""


class BucketRows(Struct, frozen=True, kw_only=True, eq=False):
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
    members: Integers  # The numbers of the members in their order, see `MEMBER_BITS`
    totals: Floats  # The sum of the rates of each member


def bucket_rows(columns: Mapping[str, NDArray[Any]]) -> BucketRows:
    """Return what was recorded of a bucket on a broker.

    `columns`: `series_id`, `at`, `rate`, `window_s` and `throttle_ms` of its samples, which are in no order, and
    `RECORDED_LIMIT` of the series of each.
    """
    every = dict(columns)
    if (columns["at"][1:] <= columns["at"][:-1]).any():
        order = numpy.lexsort((columns["series_id"], columns["at"]))
        every = {name: column[order] for name, column in columns.items()}
    series, at = every.pop("series_id"), every.pop("at")
    starts = numpy.flatnonzero(numpy.append(True, (at[1:] != at[:-1]) | (series[1:] != series[:-1])))
    if len(starts) < len(at):
        # Some rows are there twice, and some have the rate apart from the throttle time.
        series, at = series[starts], at[starts]
        every = {name: numpy.fmax.reduceat(column, starts) for name, column in every.items()}
    limit = every.get(RECORDED_LIMIT, numpy.full(len(at), numpy.nan))
    window_s = numpy.minimum(every["window_s"], _LONGEST_WINDOW_S)
    samples = series, at, every["rate"], window_s, every["throttle_ms"]
    is_of_clients = bool((series >> MEMBER_BITS).any() and (series != series[0]).any())
    return BucketRows(**(_of_clients(*samples, limit) if is_of_clients else _of_broker(*samples, limit)))


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
    number = series & MEMBER
    members = numpy.flatnonzero(numpy.bincount(number))
    is_any, is_any_new = (numpy.logical_or.reduceat(each, starts) for each in (is_throttled, is_new & is_throttled))
    return {
        "at": at[starts],
        "rate": sums,
        "window_s": numpy.fmax.reduceat(window_s, starts),
        "throttle_ms": numpy.fmax.reduceat(throttle_ms, starts),
        "is_newly_throttled": is_any_new | (is_any & is_at_limit),
        "members": members,
        "totals": numpy.bincount(number, weights=numpy.nan_to_num(rate))[members],
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
    window = numpy.where(numpy.isnan(window_s), QUOTA_WINDOW_S, window_s)
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
