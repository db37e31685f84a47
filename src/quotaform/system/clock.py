"""The time: read, and waited for, through one value that a test can replace."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from os import environ
from typing import Final

EPOCH_VARIABLE: Final = "SOURCE_DATE_EPOCH"
"""The variable of the environment that makes plan files reproducible: seconds since 1970."""


class Clock:
    """What use cases ask of the time: the clock of this machine, or another one."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back, for deadlines."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM_CLOCK: Final = Clock()


def timestamp(clock: Clock = SYSTEM_CLOCK) -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"


def plan_timestamp(clock: Clock = SYSTEM_CLOCK) -> str:
    """Return when a plan is made: the time, or that of SOURCE_DATE_EPOCH, which makes plan files reproducible."""
    epoch = environ.get(EPOCH_VARIABLE, "")
    is_time = epoch.isascii() and epoch.isdecimal() and len(epoch) <= 11
    return f"{datetime.fromtimestamp(int(epoch), UTC):%Y-%m-%dT%H:%M:%SZ}" if is_time else timestamp(clock)


def today(clock: Clock = SYSTEM_CLOCK) -> date:
    """Return the day in UTC, on which entries may expire."""
    return clock.now().date()
