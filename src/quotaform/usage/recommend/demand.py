"""What was recorded of the buckets that share a quota, and on which day they used most."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Final

import numpy
from msgspec import Struct

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.usage.bucket.bucket import RecordedBucket, moment_of, starts_of

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S


WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
STANDS_OUT: Final = 1.5
"""A day stands out if its percentile is above others by this factor."""


class BusiestDay(Struct, frozen=True, kw_only=True):
    """The day with the highest percentile of those that count."""

    basis: float  # The percentile of the day
    day: date  # The day (UTC)
    is_weekly: bool = False
    """Whether its weekday is the busiest of each week, and the day does not stand out among its days."""
    weekday_days: int = 1  # How many days are recorded of its weekday
    next_basis: float | None = None  # The highest percentile of the other days that count; `None` without one
    outlier: float | None = None  # The highest percentile that was left out and is above the basis; `None` without one
    outlier_day: date | None = None

    @property
    def text(self) -> str | None:
        """When it was busiest, as in "on Mondays"; `None` if a single day is recorded."""
        if self.is_weekly:
            return f"on {WEEKDAYS[self.day.weekday()]}s"
        return None if self.next_basis is None and self.outlier is None else f"on {day_text(self.day)}"


def busiest_day(bases: Mapping[date, float], outlier_days: int) -> BusiestDay | None:
    """Return the busiest day of a bucket on a broker; `None` without a day.

    `bases`: the percentile of each day. `outlier_days`: how many of the highest days of each weekday are left out; its
    last day never is.
    """
    weekdays: dict[int, list[tuple[float, date]]] = {}
    for basis, day in sorted(((basis, day) for day, basis in bases.items()), reverse=True):
        weekdays.setdefault(day.weekday(), []).append((basis, day))
    if not weekdays:
        return None
    left = [each for days in weekdays.values() for each in days[min(outlier_days, len(days) - 1) :]]
    (basis, day), *rest = sorted(left, reverse=True)
    highest, highest_day = max(days[0] for days in weekdays.values())
    medians = {weekday: days[len(days) // 2][0] for weekday, days in weekdays.items()}
    own = weekdays[day.weekday()]
    median = medians.pop(day.weekday())
    # A weekday is the busiest of each week if the median of its days is a tenth above that of every other one.
    is_busiest = median > 1.1 * max(medians.values(), default=0.0)
    return BusiestDay(
        basis=basis,
        day=day,
        is_weekly=len(own) > 1 and is_busiest and basis <= STANDS_OUT * median,
        weekday_days=len(own),
        next_basis=rest[0][0] if rest else None,
        outlier=highest if highest > basis else None,
        outlier_day=highest_day if highest > basis else None,
    )


def day_text(day: date) -> str:
    """Return a day with its weekday, as in Monday 2026-11-02."""
    return f"{WEEKDAYS[day.weekday()]} {day}"


class BucketDemand(Struct, frozen=True, kw_only=True):
    """What a bucket used of one broker, or of the whole cluster if the limit is one of the cluster."""

    bucket: str  # Its address
    key: str
    broker: str | None  # The broker; `None` for a whole cluster, or if clients measured
    entity_key: str | None  # The address of the entity whose value limits it; `None` without a limit
    limit: float | None  # That value
    busiest: BusiestDay | None  # The day with the highest percentile; `None` without a rate
    samples: int  # Times with a rate
    throttled: int  # Times with a throttle time above 0
    first: datetime  # The first sample
    begin: datetime  # When the window of that sample began
    last: datetime  # The last sample
    last_used: datetime | None  # The last time with a rate above 0; `None` if there is none
    hours: int
    """The hours (UTC) with a sample, as the bits of a number of which the lowest is the hour of the first sample."""
    is_coarse: bool  # Whether the recording cannot tell the bucket from others

    @property
    def basis(self) -> float:
        """The highest percentile of a day; 0 without a rate."""
        return 0.0 if self.busiest is None else self.busiest.basis


def demand_of(bucket: RecordedBucket, percentile: float, outlier_days: int) -> BucketDemand:
    """Return what a bucket used of a broker.

    `percentile`: of the rates of a day, above 0 and up to 100. `outlier_days`: as in `busiest_day`.
    """
    rows, series = bucket.rows, bucket.series
    at, rate = rows.at, rows.rate
    day, hour = (at // (seconds * 1_000_000) for seconds in (DAY_S, HOUR_S))
    bases: dict[date, float] = {}
    for begin, end in pairwise((*starts_of(day), len(at))):
        own = rate[begin:end]
        rates = numpy.sort(own[~numpy.isnan(own)])
        if len(rates):
            place = ceil(round(len(rates) * percentile / 100, 6)) - 1
            bases[numpy.datetime64(int(day[begin]), "D").item()] = float(rates[place])
    first, used = moment_of(int(at[0])), at[rate > 0]
    window_s = QUOTA_WINDOW_S if numpy.isnan(rows.window_s[0]) else float(rows.window_s[0])
    return BucketDemand(
        bucket=bucket.bucket,
        key=bucket.key,
        broker=bucket.broker,
        entity_key=series[0].entity_key,
        limit=series[0].limit,
        busiest=busiest_day(bases, outlier_days),
        samples=int(numpy.count_nonzero(~numpy.isnan(rate))),
        throttled=int(numpy.count_nonzero(rows.is_newly_throttled & ~numpy.isnan(rate))),
        hours=sum(1 << each for each in (hour[starts_of(hour)] - hour[0]).tolist()),
        first=first,
        begin=first - timedelta(seconds=window_s),
        last=moment_of(int(at[-1])),
        last_used=moment_of(int(used[-1])) if len(used) else None,
        is_coarse=any(each.is_coarse for each in series),
    )


def hour_of(moment: datetime) -> int:
    """Return the hour since 1970."""
    return int(moment.timestamp() // HOUR_S)
