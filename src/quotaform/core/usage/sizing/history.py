"""Whether enough is recorded to size a value, or to say that nobody uses it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor
from typing import Final

from quotaform.core.usage.sizing.demand import HOUR_S, HOURS_OF_DAY, Demand, Recorded
from quotaform.core.usage.sizing.recommendation import MIN_SHARE, SizingSettings
from quotaform.duration import duration_text
from quotaform.model.quota_key import QuotaKey
from quotaform.model.text import inert

DAY_S: Final = HOURS_OF_DAY * HOUR_S
_MOST_HOURS: Final = 48
"""From so many hours on, times are given in days."""


@dataclass(frozen=True, slots=True)
class History:
    """What is recorded of a quota key.

    Attributes:
        key: The quota key.
        recorded: When it was recorded on the cluster.
        settings: How much is needed.
    """

    key: QuotaKey
    recorded: Recorded
    settings: SizingSettings

    def seconds(self, demand: Demand) -> float:
        """How much is recorded since the first sample of a demand: its hours, or less if it began within the last."""
        return min(demand.hours * HOUR_S, self._seconds_since(demand.first))

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
        """How much is recorded of the time after which a value counts as unused."""
        return min(self.recorded.recent_hours * HOUR_S, self._seconds_since(self.recorded.first))

    def missing_to_remove(self) -> str | None:
        """Return what is missing to say that nobody uses a value; `None` if it is enough."""
        found, needed = self.recent_seconds(), self.settings.unused_after_days * DAY_S
        span = self.recorded.span_hours(self.recorded.first) * HOUR_S
        if span < needed or found < MIN_SHARE * needed:
            return f"{share_text(found, needed)} recorded"
        return None

    def _seconds_since(self, moment: datetime) -> float:
        return (self.recorded.last - moment).total_seconds()


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
