"""Moments and durations: ISO 8601 in UTC, as documents have them, and days and ages as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from re import compile as regex
from typing import Final

from quotaform.model.text import quote


def duration_text(duration: timedelta) -> str:
    """Return a duration in its two largest units; what is smaller is left out.

    >>> duration_text(timedelta(days=2, hours=3, minutes=59)), duration_text(timedelta(seconds=61))
    ('2d 3h', '1m 1s')
    """
    seconds = int(duration.total_seconds())
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    first = next((index for index, (number, _) in enumerate(parts) if number), len(parts) - 1)
    shown = [f"{number}{unit}" for number, unit in parts[first : first + 2] if number]
    return " ".join(shown) or "0s"


_DURATION: Final = regex(r"([0-9]{1,6})(s|m|h|d)").fullmatch
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> timedelta:
    """Read a duration: a whole number above zero, and one unit.

    >>> parse_duration("24h")
    datetime.timedelta(days=1)

    Raises `ValueError`: it is not one; the message says what to write.
    """
    match = _DURATION(text)
    if match is None or not int(match[1]):
        raise ValueError(f"{quote(text)} is not a duration; write for example 30m, 24h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def parse_moment(text: str, now: datetime) -> datetime:
    """Read a moment: a time, a day (its start), an age, or `now`; what names no time zone is in UTC.

    >>> now = datetime(2026, 11, 20, 9, tzinfo=UTC)
    >>> [spell_moment(parse_moment(text, now)) for text in ("2026-11-01T10:00:00+01:00", "2026-11-01", "7d")]
    ['2026-11-01T09:00:00Z', '2026-11-01T00:00:00Z', '2026-11-13T09:00:00Z']

    Raises `ValueError`: it is not one of them; the message says what to write.
    """
    try:
        if text == "now":
            return now
        if text[-1:] in ("s", "m", "h", "d"):
            return now - parse_duration(text)
        return read_moment(text)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{quote(text)} is not a time; write for example 2026-11-20T09:12:44Z, 2026-11-20, 7d (ago) or now"
        ) from None


def read_moment(text: str) -> datetime:
    """Read a moment as documents have it. Raises `ValueError` if it is not ISO 8601.

    >>> read_moment("2026-11-20T09:12:44Z")
    datetime.datetime(2026, 11, 20, 9, 12, 44, tzinfo=datetime.timezone.utc)
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{quote(text, 40)} is not a time in ISO 8601, as in 2026-11-20T09:12:44Z") from None


def spell_moment(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, with a fraction of a second only where it has one.

    >>> spell_moment(datetime(2026, 11, 20, 9, 12, 44, tzinfo=UTC))
    '2026-11-20T09:12:44Z'
    """
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text}Z"


def spell_second(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC to the second, for people: what is below a second is left out.

    >>> spell_second(datetime(2026, 11, 20, 9, 12, 44, 804514, tzinfo=UTC))
    '2026-11-20T09:12:44Z'
    """
    return spell_moment(moment.replace(microsecond=0))
