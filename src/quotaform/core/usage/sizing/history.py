"""Whether enough is recorded to size a value, or to say that nobody uses it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor
from typing import Final

from quotaform.core.usage.sizing.demand import HOUR_S, HOURS_OF_DAY, BrokerRecorded, Demand, Recorded
from quotaform.core.usage.sizing.recommendation import MIN_SHARE, MOST_AGE_DAYS, SizingSettings
from quotaform.duration import duration_text
from quotaform.model.moment import spell_second
from quotaform.model.quota_key import QuotaKey
from quotaform.model.text import inert, listed

DAY_S: Final = HOURS_OF_DAY * HOUR_S
_MOST_HOURS: Final = 48
"""From so many hours on, times are given in days."""


@dataclass(frozen=True, slots=True)
class History:
    """What is recorded of a quota key.

    Attributes:
        recorded: When it was recorded on the cluster.
        settings: How much is needed.
        brokers: The brokers on which any key was recorded whose limit is one of each broker.
        now: The time.
        broker_count: How many brokers the cluster has; `None` if it is not known.
    """

    key: QuotaKey
    recorded: Recorded
    settings: SizingSettings
    brokers: Collection[str]
    now: datetime
    broker_count: int | None = None

    def seconds(self, demand: Demand) -> float:
        """How much is recorded of a demand: its hours, or less if the window of its first sample began later."""
        return min(demand.hours * HOUR_S, self._seconds_since(demand.begin))

    def missing(self, demand: Demand) -> str | None:
        """Return what is missing to size a value; `None` if it is enough."""
        if demand.coarse is not None:
            return f"the recording of {inert(demand.coarse)} does not tell its buckets apart"
        if not demand.has_brokers:
            return f"only clients measured it, and {self.key.name} is limited per broker"
        found, needed = self.seconds(demand), self.settings.min_history_days * DAY_S
        span = self.recorded.span_hours(demand.first) * HOUR_S
        if span < needed or found < MIN_SHARE * needed:
            return f"{share_text(found, needed)} recorded"
        if demand.samples < self.settings.min_samples:
            return f"{demand.samples:,} of {self.settings.min_samples:,} samples recorded"
        return None

    def is_idle(self, demand: Demand) -> bool:
        """Whether nobody used a value for as long as the settings say, as far as is recorded."""
        if demand.last_used is None:
            return True
        return self._seconds_since(demand.last_used) >= self.settings.unused_after_days * DAY_S

    def recent_seconds(self) -> float:
        """How much is recorded of the time after which a value counts as unused, on the broker with the least of it."""
        return min((self._recent_seconds(part) for part in self._parts().values()), default=0.0)

    def missing_to_remove(self) -> str | None:
        """Return what is missing to say that nobody uses a value; `None` if it is enough.

        A client may use one broker and not the others, so the time must be recorded on each of them. Recordings name
        brokers as their source does, so they are compared with those of the cluster by number.
        """
        last = self.recorded.last
        if self.now - last > timedelta(days=MOST_AGE_DAYS):
            return f"the recording ends on {_day(last)}; record again"
        parts, needed = self._parts(), self.settings.unused_after_days * DAY_S
        if not parts:
            return f"only clients measured it, and {self.key.name} is limited per broker"
        if self._is_per_broker and self.broker_count is not None and len(parts) < self.broker_count:
            are = "is" if len(parts) == 1 else "are"
            return f"only {len(parts)} of {self.broker_count} brokers {are} recorded ({self._names})"
        for broker, part in sorted(parts.items(), key=lambda each: self._recent_seconds(each[1])):
            where = "" if broker is None else f" on broker {inert(broker)}"
            if part is None:
                return f"{self.key.name} is not recorded{where}"
            found, span = self._recent_seconds(part), self.recorded.span_hours(part.first) * HOUR_S
            if span < needed or found < MIN_SHARE * needed:
                return f"only {share_text(found, needed)} recorded{where}"
        return None

    def unused_text(self) -> str:
        """Return from when to when nobody used a value that nobody uses."""
        last = self.recorded.last
        first = last - timedelta(days=self.settings.unused_after_days)
        spell = _day if self.settings.unused_after_days * HOURS_OF_DAY >= _MOST_HOURS else spell_second
        return f"not used from {spell(first)} to {spell(last)}"

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

    def _parts(self) -> dict[str | None, BrokerRecorded | None]:
        """Return what is recorded of the key where its limit is one of its own; `None` where nothing is."""
        known = self.recorded.brokers
        return {name: known.get(name) for name in sorted(self.brokers)} if self._is_per_broker else {**known}

    def _recent_seconds(self, part: BrokerRecorded | None) -> float:
        return 0.0 if part is None else min(part.recent_hours * HOUR_S, self._seconds_since(part.begin))

    def _seconds_since(self, moment: datetime) -> float:
        return (self.recorded.last - moment).total_seconds()


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def time_text(seconds: float) -> str:
    """Return for how long something is recorded: in days from two of them on.

    >>> time_text(31 * DAY_S), time_text(5 * HOUR_S), time_text(724.5), time_text(37)
    ('31 days', '5h', '12m 4s', '37s')
    """
    if seconds >= _MOST_HOURS * HOUR_S:
        return f"{seconds / DAY_S:.0f} days"
    return duration_text(timedelta(seconds=seconds))


def share_text(found: float, needed: float) -> str:
    """Return how much of a time there is; never more than there is.

    >>> share_text(3.28 * DAY_S, 14 * DAY_S), share_text(37, 14 * DAY_S), share_text(700, 1800)
    ('3.2 of 14 days', '37s of 14 days', '11m 40s of 30m')
    """
    if needed < _MOST_HOURS * HOUR_S:
        return f"{time_text(min(found, needed))} of {time_text(needed)}"
    days = floor(found / DAY_S * 10) / 10
    return f"{days:.1f} of {needed / DAY_S:g} days" if days else f"{time_text(found)} of {needed / DAY_S:g} days"
