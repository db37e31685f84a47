"""Options that are times."""

from __future__ import annotations

from datetime import datetime

from quotaform.errors import UsageError


def read_moment_option(option: str, text: str) -> datetime:
    """Read a time: ISO 8601 in UTC, a day, an age, or `now`."""
    from quotaform.app.clock import SYSTEM_CLOCK
    from quotaform.model.moment import parse_moment

    try:
        return parse_moment(text, SYSTEM_CLOCK.now())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_period(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Read the values of `--since` and `--until`; `None` is no bound.

    Raises `UsageError` if one is not a time, or the first is not before the second.
    """
    first = None if since is None else read_moment_option("--since", since)
    last = None if until is None else read_moment_option("--until", until)
    if first is not None and last is not None and first >= last:
        raise UsageError("--since must be before --until")
    return first, last
