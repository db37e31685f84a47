"""The time, for files that say when they were made."""

from __future__ import annotations

from datetime import UTC, date, datetime
from os import environ


def now() -> datetime:
    """Return the time in UTC, or that of SOURCE_DATE_EPOCH, which makes files reproducible."""
    epoch = environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)


def timestamp() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def today() -> date:
    """Return the day in UTC, on which entries may expire."""
    return now().date()
