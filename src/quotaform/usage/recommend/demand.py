"""What was recorded of the buckets that share a quota, on which day they used most, and whether it is enough."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import floor
from typing import Final, Self

from msgspec import Struct

from quotaform.model.moment import duration_text, spell_second
from quotaform.model.quota_key import QuotaKey
from quotaform.model.settings import SizingSettings
from quotaform.model.text import inert, listed
from quotaform.usage.recommend.recommendation import MIN_SHARE, MOST_AGE_DAYS

# The day on which a right-sized value rests, and how a reason names it.
#
# Of each day (UTC) the percentile of its rates is taken, and of each weekday the highest of its days, after as many as
# the settings say were left out as outliers. The busiest of the weekdays is the basis, so what happens once a week
# counts in full.

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEKLY_FACTOR: Final = 1.1
"""A weekday is the busiest of each week if the median of its days is above that of every other one by this factor."""
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
        """When it was busiest, as a reason says it; `None` if a single day is recorded.

        >>> BusiestDay(basis=8.0, day=date(2026, 11, 2), is_weekly=True, next_basis=2.0).text
        'on Mondays'
        >>> BusiestDay(basis=8.0, day=date(2026, 11, 2), next_basis=2.0).text
        'on Monday 2026-11-02'
        """
        if self.is_weekly:
            return f"on {WEEKDAYS[self.day.weekday()]}s"
        return None if self.next_basis is None and self.outlier is None else f"on {day_text(self.day)}"

    @property
    def stands_out(self) -> bool:
        """Whether it is far above all other days that count."""
        return self.next_basis is not None and self.basis > STANDS_OUT * self.next_basis


def busiest_day(bases: Mapping[date, float], outlier_days: int) -> BusiestDay | None:
    """Return the busiest day of a bucket on a broker; `None` without a day.

    >>> days = {date(2026, 11, day): 8.0 if day in (2, 9) else 2.0 for day in range(1, 15)}
    >>> found = busiest_day(days, 0)
    >>> found.basis, found.text, found.weekday_days, found.next_basis
    (8.0, 'on Mondays', 2, 8.0)
    >>> busiest_day({**days, date(2026, 11, 9): 20.0}, 0).text
    'on Monday 2026-11-09'
    >>> found = busiest_day({**days, date(2026, 11, 9): 20.0}, 1)
    >>> found.basis, day_text(found.day), found.outlier, day_text(found.outlier_day)
    (8.0, 'Monday 2026-11-02', 20.0, 'Monday 2026-11-09')

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
    is_busiest = median > WEEKLY_FACTOR * max(medians.values(), default=0.0)
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
    """Return a day with its weekday.

    >>> day_text(date(2026, 11, 2))
    'Monday 2026-11-02'
    """
    return f"{WEEKDAYS[day.weekday()]} {day}"


HOUR_S: Final = 3600
HOURS_OF_DAY: Final = 24


class BrokerRecorded(Struct, frozen=True):
    """When a quota key was recorded on a broker. An hour (UTC) is recorded if a sample of the key is in it."""

    first: datetime  # The first sample
    recent_hours: int  # How many hours are recorded of those after which a quota counts as unused
    begin: datetime  # When the window of the first sample began


class Recorded(Struct, frozen=True, kw_only=True):
    """When a quota key was recorded on a cluster."""

    last: datetime  # The last sample, of any broker
    brokers: Mapping[str | None, BrokerRecorded]
    """When it was recorded on each broker; `None` is the whole cluster if the limit is one of the cluster, and clients
    that measured otherwise."""


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
    last_used: datetime | None  # The last time with a rate above 0; `None` if there is none
    hours: int  # How many hours are recorded from the first sample on
    is_coarse: bool  # Whether the recording cannot tell the bucket from others

    @property
    def basis(self) -> float:
        """The highest percentile of a day; 0 without a rate."""
        return 0.0 if self.busiest is None else self.busiest.basis


class Demand(Struct, frozen=True):
    """What the buckets used that one value limits."""

    every: Sequence[BucketDemand]  # All that was measured of them
    counted: Sequence[BucketDemand]
    """What counts of it: where both brokers and clients measured a bucket, what clients say of all brokers together is
    left out."""

    @classmethod
    def of(cls, every: Iterable[BucketDemand], *, is_per_broker: bool) -> Self:
        """Return the demand of buckets; `is_per_broker` says whether the limit is one of each broker."""
        ordered = sorted(every, key=lambda each: (each.bucket, each.broker or ""))
        measured = {each.bucket for each in ordered if is_per_broker and each.broker is not None}
        return cls(ordered, [each for each in ordered if each.broker is not None or each.bucket not in measured])

    @property
    def highest(self) -> BucketDemand | None:
        """The bucket with the highest basis, and the broker of that; `None` without a rate."""
        rated = [each for each in self.counted if each.busiest is not None]
        return max(rated, key=lambda each: each.basis, default=None)

    @property
    def busiest(self) -> BusiestDay | None:
        """The day of the highest basis; `None` without a rate."""
        return None if self.highest is None else self.highest.busiest

    @property
    def basis(self) -> float:
        """The highest basis; 0 without a rate."""
        return 0.0 if self.highest is None else self.highest.basis

    @property
    def samples(self) -> int:
        """Times with a rate, of all."""
        return sum(each.samples for each in self.counted)

    @property
    def throttled(self) -> int:
        """Times with a throttle time above 0, of all."""
        return sum(each.throttled for each in self.counted)


DAY_S: Final = HOURS_OF_DAY * HOUR_S
_MOST_TIME: Final = timedelta(hours=48)
"""From here on, times are given in days."""


class History(Struct, frozen=True):
    """What is recorded of a quota key."""

    key: QuotaKey
    recorded: Recorded  # When it was recorded on the cluster
    settings: SizingSettings  # How much is needed
    brokers: Collection[str]  # The brokers on which any key was recorded whose limit is one of each broker
    now: datetime  # The time
    broker_count: int | None = None  # How many brokers the cluster has; `None` if it is not known

    def seconds(self, demand: Demand) -> float:
        """How much is recorded of a demand: its hours, or less if the window of its first sample began later."""
        begin = min(each.begin for each in demand.every)
        return self._seconds(max(each.hours for each in demand.every), begin)

    def missing(self, demand: Demand) -> str | None:
        """Return what is missing to size a value; `None` if it is enough."""
        if coarse := [each for each in demand.every if each.is_coarse]:
            return f"the recording of {inert(coarse[0].bucket)} does not tell its buckets apart"
        if self._is_per_broker and all(each.broker is None for each in demand.every):
            return f"only clients measured it, and {self.key.name} is limited per broker"
        first, found = min(each.first for each in demand.every), self.seconds(demand)
        if (share := self._missing_share(first, found, self.settings.min_history_days)) is not None:
            return f"{share} recorded"
        if demand.samples < self.settings.min_samples:
            return f"{demand.samples:,} of {self.settings.min_samples:,} samples recorded"
        return None

    def is_idle(self, demand: Demand) -> bool:
        """Whether no use of a value is recorded for as long as the settings require."""
        used = [each.last_used for each in demand.every if each.last_used is not None]
        return all(self.recorded.last - last >= self._unused_after for last in used)

    def missing_to_remove(self) -> tuple[str | None, float]:
        """Return what is missing to say that a value is unused, `None` if it is enough, and the recorded days.

        A client may use one broker and not the others, so the time must be recorded on each of them, and the broker
        with the least of it counts. Recordings name brokers as their source does, so they are compared with those of
        the cluster by number.
        """
        parts: dict[str | None, BrokerRecorded | None] = {**self.recorded.brokers}
        if self._is_per_broker:
            parts = {name: parts.get(name) for name in sorted(self.brokers)}
        recent = {
            name: 0.0 if part is None else self._seconds(part.recent_hours, part.begin) for name, part in parts.items()
        }
        return self._missing_to_remove(parts, recent), min(recent.values(), default=0.0) / DAY_S

    def _missing_to_remove(
        self, parts: Mapping[str | None, BrokerRecorded | None], recent: Mapping[str | None, float]
    ) -> str | None:
        if self.now - self.recorded.last > timedelta(days=MOST_AGE_DAYS):
            return f"the recording ends on {_day(self.recorded.last)}; record again"
        if not parts:
            return f"only clients measured it, and {self.key.name} is limited per broker"
        if self._is_per_broker and self.broker_count is not None and len(parts) < self.broker_count:
            are = "is" if len(parts) == 1 else "are"
            return f"only {len(parts)} of {self.broker_count} brokers {are} recorded ({self._names})"
        for broker in sorted(parts, key=recent.__getitem__):
            part, where = parts[broker], "" if broker is None else f" on broker {inert(broker)}"
            if part is None:
                why = "" if self.key.metrics else ", as no metric of it is known"
                return f"{self.key.name} is not recorded{where}{why}"
            share = self._missing_share(part.first, recent[broker], self.settings.unused_after_days)
            if share is not None:
                return f"only {share} recorded{where}"
        return None

    def unused_text(self) -> str:
        """Return the time in which an unused value was not used."""
        last, spell = self.recorded.last, _day if self._unused_after >= _MOST_TIME else spell_second
        return f"not used from {spell(last - self._unused_after)} to {spell(last)}"

    def brokers_text(self) -> str | None:
        """Return on which brokers that is recorded; `None` if the limit is one of the cluster."""
        if not self._is_per_broker:
            return None
        return f"recorded on broker{'s' if len(self.brokers) > 1 else ''} {self._names}"

    @property
    def _names(self) -> str:
        return listed(inert(name) for name in sorted(self.brokers))

    @property
    def _is_per_broker(self) -> bool:
        return self.key.per == "broker"

    @property
    def _unused_after(self) -> timedelta:
        return timedelta(days=self.settings.unused_after_days)

    def _seconds(self, hours: int, begin: datetime) -> float:
        """Return how much is recorded: some hours, or less if the window of the first sample began later."""
        return min(hours * HOUR_S, (self.recorded.last - begin).total_seconds())

    def _missing_share(self, first: datetime, found: float, days: float) -> str | None:
        """Return how much there is of the days that are needed, from a first sample on; `None` if it is enough."""
        hours = self.recorded.last.timestamp() // HOUR_S - first.timestamp() // HOUR_S + 1
        needed = days * DAY_S
        is_enough = hours * HOUR_S >= needed and found >= MIN_SHARE * needed
        return None if is_enough else share_text(found, needed)


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def time_text(seconds: float) -> str:
    """Return for how long something is recorded: in days from two of them on.

    >>> time_text(31 * DAY_S), time_text(5 * HOUR_S), time_text(724.5), time_text(37)
    ('31 days', '5h', '12m 4s', '37s')
    """
    if seconds >= _MOST_TIME.total_seconds():
        return f"{seconds / DAY_S:.0f} days"
    return duration_text(timedelta(seconds=seconds))


def share_text(found: float, needed: float) -> str:
    """Return how much of a time there is; never more than there is.

    >>> share_text(3.28 * DAY_S, 14 * DAY_S), share_text(37, 14 * DAY_S), share_text(700, 1800)
    ('3.2 of 14 days', '37s of 14 days', '11m 40s of 30m')
    """
    if needed < _MOST_TIME.total_seconds():
        return f"{time_text(min(found, needed))} of {time_text(needed)}"
    days = floor(found / DAY_S * 10) / 10
    return f"{days:.1f} of {needed / DAY_S:g} days" if days else f"{time_text(found)} of {needed / DAY_S:g} days"
