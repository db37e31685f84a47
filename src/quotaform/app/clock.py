"""The time, for files that say when they were made."""

from __future__ import annotations

from datetime import UTC, date, datetime
from os import environ


def timestamp() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return _spell(datetime.now(UTC))


def plan_timestamp() -> str:
    """Return when a plan is made: the time, or that of SOURCE_DATE_EPOCH, which makes plan files reproducible."""
    epoch = environ.get("SOURCE_DATE_EPOCH", "")
    is_time = epoch.isascii() and epoch.isdecimal() and len(epoch) <= 11
    return _spell(datetime.fromtimestamp(int(epoch), UTC)) if is_time else timestamp()


def today() -> date:
    """Return the day in UTC, on which entries may expire."""
    return datetime.now(UTC).date()


def _spell(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
