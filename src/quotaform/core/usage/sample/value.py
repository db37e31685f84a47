"""From what a recording says that a metric's value is to a sample."""

from __future__ import annotations

from math import isinf, isnan
from typing import Final

from quotaform.core.usage.metric.metric import Measure
from quotaform.core.usage.sample.sample import DropReason, Sample
from quotaform.core.usage.sample.series import Attribute
from quotaform.model.text import quote

LATEST: Final = 253402300800.0
"""The end of the year 9999, in seconds: later times are no seconds."""
LARGEST: Final = 1e100
"""What no rate, time or total reaches. Below it, sums and rates of change of values stay finite, too."""


def read_number(raw: object) -> float | None:
    """Return the number that a value of a document is or spells; `None` if it is none.

    >>> read_number("+Inf"), read_number(" 1.5"), read_number("1_0"), read_number(True)
    (inf, 1.5, None, None)
    """
    if isinstance(raw, str):
        # Python reads 1_000, which no program writes.
        return _float(raw) if "_" not in raw else None
    if isinstance(raw, float):
        return raw
    return _float(raw) if isinstance(raw, int) and not isinstance(raw, bool) else None


def spell_value(raw: object) -> str:
    """Return a value of a document as messages show it; of a list or an object only what it is.

    >>> spell_value("a"), spell_value(7), spell_value([[]])
    ('"a"', '"7"', 'a list')
    """
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "an object"
    return quote(str(raw))


def read_time(raw: object) -> float | str:
    """Return a time in seconds since the epoch, or what is wrong with it.

    >>> read_time(1763676256.157), read_time("x")
    (1763676256.157, '"x" is not a time in seconds since 1970')
    """
    ts = read_number(raw)
    if ts is None or not 0 < ts < LATEST:
        return f"{spell_value(raw)} is not a time in seconds since 1970"
    return ts


def read_epoch(raw: object) -> float | str:
    """Return a time that is given in seconds or milliseconds, which differ in size, or what is wrong with it.

    >>> read_epoch("1763676256157"), read_epoch(1763676256.157)
    (1763676256.157, 1763676256.157)
    """
    number = read_number(raw)
    if number is not None and 1e11 <= number < LATEST * 1000:
        return number / 1000
    return read_time(raw)


def make_sample(measure: Measure, ts: float, raw: object) -> Sample | DropReason | str:
    """Return the sample of a value, or why there is none, or what is wrong with the value."""
    number = read_number(raw)
    if number is None:
        return DropReason.MISSING if raw is None or raw == "" else f"{spell_value(raw)} is not a number"
    value = number * measure.factor
    if 0 <= value < LARGEST:
        return Sample(measure.series, ts, value, measure.window_s)
    if isnan(value):
        return DropReason.NAN
    if isinf(value):
        return f"the value is infinite; {_NAMES[measure.series.attribute]} never is"
    if value < 0:
        return f"the value is {number:g}; {_NAMES[measure.series.attribute]} is never negative"
    return f"the value {number:g} is not below the limit of 1e100"


_NAMES: Final = {Attribute.RATE: "a rate", Attribute.THROTTLE_TIME: "a throttle time", Attribute.TOTAL: "a total"}


def _float(raw: int | str) -> float | None:
    try:
        return float(raw)
    except (ValueError, OverflowError):
        return None
