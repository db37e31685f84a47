"""Durations such as `90s`, `30m`, `24h` and `7d`."""

from __future__ import annotations

from datetime import timedelta
from re import compile as regex
from typing import Final

from quotaform.model.text import quote

_DURATION: Final = regex(r"([0-9]{1,6})(s|m|h|d)").fullmatch
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> timedelta:
    """Read a duration: a whole number above zero, and one unit.

    >>> parse_duration("24h")
    datetime.timedelta(days=1)

    Raises:
        ValueError: It is none; the message says what to write.
    """
    match = _DURATION(text)
    if match is None or not int(match[1]):
        raise ValueError(f"{quote(text)} is not a duration; write for example 30m, 24h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
