"""How long something took, as people read it."""

from __future__ import annotations

from datetime import timedelta


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
