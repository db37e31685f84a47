"""Rounds a rate up to a number that people write.

| rate | steps |
| --- | --- |
| bytes, in the largest unit of which there is one | 0.25 below 5, 0.5 below 25, 1 below 100, 5 below 250, then 10 |
| percent, events | two significant digits; whole numbers for keys that take no others |

Every result is one of these numbers, so rounding never decreases a rate, keeps the order of rates, and leaves its own
results as they are. It adds at most a quarter to bytes, and a tenth to others.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import ceil, isfinite
from typing import Final

from quotaform.model.quota_key import QuotaKey
from quotaform.model.units import UNLIMITED, plain_fraction, spell_value

_BINARY: Final = {"B/s": 1, "KiB/s": 2**10, "MiB/s": 2**20, "GiB/s": 2**30, "TiB/s": 2**40, "PiB/s": 2**50}
_DECIMAL: Final = {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12, "PB/s": 10**15}
_STEPS: Final = ((5, Fraction(1, 4)), (25, Fraction(1, 2)), (100, Fraction(1)), (250, Fraction(5)))
_LAST_STEP: Final = Fraction(10)
_LARGEST: Final = 1000
"""What has more of a unit is rounded up to one of the next unit."""
_EXACT: Final = 2**53


def round_up(key: QuotaKey, value: float, *, decimal: bool = False) -> float:
    """Return the smallest number that people write which is not below a rate.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
    >>> round_up(PRODUCER_BYTE_RATE, 12.3 * 2**20) / 2**20, round_up(REQUEST_PERCENTAGE, 141.2)
    (12.5, 150.0)

    Args:
        value: The rate, above 0 and finite.
        decimal: Whether bytes are counted in powers of 1000; see `quotaform.model.units.is_decimal`.

    Raises:
        ValueError: The rate is not above 0, or not finite.
    """
    if not isfinite(value) or value <= 0:
        raise ValueError(f"{value} is no rate above 0")
    if value >= key.maximum:
        return key.maximum
    rounded = _whole_bytes(value, decimal=decimal) if key.unit == "B/s" else _two_digits(key, value)
    return min(rounded, key.maximum)


def _whole_bytes(value: float, *, decimal: bool) -> float:
    number = ceil(value)
    sizes = list((_DECIMAL if decimal and number < _EXACT // 2 else _BINARY).values())
    place = max(index for index, size in enumerate(sizes) if number >= size)
    size = sizes[place]
    step = max(1, int(size * next((step for below, step in _STEPS if number < below * size), _LAST_STEP)))
    rounded = -(-number // step) * step
    if rounded > _LARGEST * size and place + 1 < len(sizes):
        rounded = sizes[place + 1]
    return float(rounded)


def _two_digits(key: QuotaKey, value: float) -> float:
    exact = Decimal(repr(value))
    step = Decimal(1).scaleb(exact.adjusted() - 1)
    if key.is_whole:
        step = max(step, Decimal(1))
    return float((exact / step).to_integral_value(ROUND_CEILING) * step)


def spell_rounded(key: QuotaKey, value: float, *, decimal: bool = False) -> str:
    """Return a value as it is written in files: bytes in the largest unit that gives at most two decimals.

    >>> from quotaform.model.quota_key import PRODUCER_BYTE_RATE
    >>> spell_rounded(PRODUCER_BYTE_RATE, 13107200.0), spell_rounded(PRODUCER_BYTE_RATE, 1500001.0)
    ('12.5MiB/s', '1500001B/s')

    Args:
        value: A value that files can hold.
        decimal: As in `round_up`.

    Raises:
        ValueError: Files cannot hold the value.
    """
    shortest = spell_value(key, value)
    if shortest is None:
        raise ValueError(f"{value} cannot be written as {key.name}")
    if key.unit != "B/s" or shortest == UNLIMITED:
        return shortest
    for units in (_DECIMAL, _BINARY) if decimal else (_BINARY, _DECIMAL):
        for name, size in reversed(units.items()):
            number = Fraction(int(value), size)
            if number >= 1 and (number * 100).denominator == 1 and size > 1:
                return f"{plain_fraction(number)}{name}"
    return shortest
