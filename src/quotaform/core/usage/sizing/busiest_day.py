"""The day on which a right-sized value rests, and how a reason names it.

Of each day (UTC) the percentile of its rates is taken, and of each weekday the highest of its days, after as many as
the settings say were left out as outliers. The busiest of the weekdays is the basis, so what happens once a week counts
in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST_WEEKDAY: Final = 3
"""The weekday of 1970-01-01, as a place in `WEEKDAYS`."""
WEEKLY_FACTOR: Final = 1.1
"""A weekday is the busiest of each week if the median of its days is above that of every other one by this factor."""
STANDS_OUT: Final = 1.5
"""A day stands out if its percentile is above others by this factor."""

_FIRST_DAY: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestDay:
    """The day with the highest percentile of those that count.

    Attributes:
        basis: The percentile of the day.
        day: The day, as days since 1970-01-01.
        is_weekly: Whether its weekday is the busiest of each week, and the day does not stand out among its days.
        weekday_days: How many days are recorded of its weekday.
        next_basis: The highest percentile of the other days that count; `None` without one.
        outlier: The highest percentile that was left out and is above the basis; `None` without one.
    """

    basis: float
    day: int
    is_weekly: bool = False
    weekday_days: int = 1
    next_basis: float | None = None
    outlier: float | None = None
    outlier_day: int | None = None

    @property
    def text(self) -> str | None:
        """When it was busiest, as a reason says it; `None` if a single day is recorded.

        >>> BusiestDay(basis=8.0, day=20759, is_weekly=True, next_basis=2.0).text
        'on Mondays'
        >>> BusiestDay(basis=8.0, day=20759, next_basis=2.0).text
        'on Monday 2026-11-02'
        """
        if self.is_weekly:
            return f"on {weekday_of(self.day)}s"
        return None if self.next_basis is None and self.outlier is None else f"on {day_text(self.day)}"

    @property
    def stands_out(self) -> bool:
        """Whether it is far above all other days that count."""
        return self.next_basis is not None and self.basis > STANDS_OUT * self.next_basis


def date_of(day: int) -> date:
    """Return a day that is given as days since 1970-01-01."""
    return date.fromordinal(_FIRST_DAY + day)


def weekday_of(day: int) -> str:
    """Return the weekday of a day that is given as days since 1970-01-01.

    >>> weekday_of(0), weekday_of(20759)
    ('Thursday', 'Monday')
    """
    return WEEKDAYS[(day + FIRST_WEEKDAY) % len(WEEKDAYS)]


def day_text(day: int) -> str:
    """Return a day that is given as days since 1970-01-01, with its weekday.

    >>> day_text(20759)
    'Monday 2026-11-02'
    """
    return f"{weekday_of(day)} {date_of(day).isoformat()}"
