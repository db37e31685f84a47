"""Why a value is proposed, in a line, and what else there is to know."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.usage.sizing.busiest_day import BusiestDay, day_text
from quotaform.core.usage.sizing.demand import Demand
from quotaform.core.usage.sizing.history import time_text
from quotaform.core.usage.sizing.recommendation import SizingSettings
from quotaform.model.quota_key import QuotaKey
from quotaform.model.units import render_measured


def size_reason(
    key: QuotaKey,
    busiest: BusiestDay,
    seconds: float,
    settings: SizingSettings,
    factor: float,
    *,
    decimal: bool = False,
) -> str:
    """Return the reason of a value.

    Args:
        key: The quota key.
        busiest: The day on which it rests.
        seconds: How much is recorded.
        settings: How it was sized.
        factor: The headroom that it was given.
        decimal: Whether rates are given in powers of 1000, as the value is; see `quotaform.model.units.is_decimal`.
    """
    days = f"{time_text(seconds)}{'' if busiest.outlier is None else ' without outliers'}"
    basis = " ".join(filter(None, (render_measured(key, busiest.basis, decimal=decimal), busiest.text)))
    return f"p{settings.percentile:g} of {days}, {basis}, x {factor:g}"


def size_notes(key: QuotaKey, demand: Demand, settings: SizingSettings, *, decimal: bool = False) -> Iterator[str]:
    """Yield what else there is to know of a proposed value; arguments are those of `size_reason`."""
    if demand.throttled:
        yield f"throttled in {demand.throttled:,} of {demand.samples:,} samples: demand was higher"
    busiest = demand.busiest
    if busiest is None:
        return
    if busiest.outlier is not None and busiest.outlier_day is not None:
        yield f"left out: {render_measured(key, busiest.outlier, decimal=decimal)} on {day_text(busiest.outlier_day)}"
    if busiest.stands_out and busiest.next_basis is not None:
        rate = render_measured(key, busiest.next_basis, decimal=decimal)
        others = f"that day stands out: at most {rate} on all others"
        # The last day of a weekday is never left out.
        can_be_left_out = busiest.weekday_days >= settings.outlier_days + 2
        yield f"{others} (--outlier-days {settings.outlier_days + 1} leaves it out)" if can_be_left_out else others
