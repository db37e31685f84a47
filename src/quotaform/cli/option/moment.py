"""Options that are times."""

from __future__ import annotations

from datetime import datetime

from quotaform.errors import UsageError


def read_moment_option(option: str, text: str) -> datetime:
    """Read a time: ISO 8601 in UTC, a day, an age, or `now`.

    Raises:
        UsageError: The text is not a time.
    """
    from quotaform.app.clock import SYSTEM_CLOCK
    from quotaform.model.moment import parse_moment

    try:
        return parse_moment(text, SYSTEM_CLOCK.now())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
