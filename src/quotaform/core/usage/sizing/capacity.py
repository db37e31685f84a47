"""The headroom that the capacity of a broker leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quotaform.core.usage.sizing.sizing_case import SizingCase

_FACTORS: Final = 100
"""A headroom is a number of hundredths."""

SizeOf = Callable[[SizingCase, float], float]
"""Returns the value of a case at some headroom."""


def fitting_headroom(
    cases: Sequence[SizingCase],
    size_of: SizeOf,
    *,
    wanted: float,
    capacity: float | None,
    fixed: Mapping[str | None, float],
) -> float | None:
    """Return the largest headroom at which the limits of all buckets fit the capacity of each broker.

    Args:
        cases: The values that are sized.
        size_of: Returns their values; they never decrease with more headroom.
        wanted: The headroom that is not exceeded.
        capacity: What the limits may sum up to, per broker; `None` for anything.
        fixed: What the limits of the other buckets sum up to, per broker.

    Returns:
        The headroom, in hundredths unless it is the wanted one; `None` if they do not even fit without any.
    """

    def fits(headroom: float) -> bool:
        total = dict(fixed)
        for case in cases:
            for broker, rate in case.limits(size_of(case, headroom)).items():
                total[broker] = total.get(broker, 0.0) + rate
        return all(rate <= (capacity or 0.0) for rate in total.values())

    if capacity is None or fits(wanted):
        return wanted
    if not fits(1.0):
        return None
    low, high = _FACTORS, int(wanted * _FACTORS)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle / _FACTORS):
            low = middle
        else:
            high = middle - 1
    return low / _FACTORS
