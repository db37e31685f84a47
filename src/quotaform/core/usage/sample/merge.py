"""From the samples of one bucket on one broker to rows of the table of usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quotaform.core.usage.sample.sample import Dropped, DropReason, Sample
from quotaform.core.usage.sample.series import Attribute


class Row(NamedTuple):
    """What a bucket used at one time: the columns of the table of usage that are no names.

    Attributes:
        ts: Seconds since the epoch.
        window_s: How many seconds up to `ts` the rate covers.
        rate: In the unit of the quota key; `None` if only the throttle time is known.
        throttle_ms: `None` if it is not known, or nothing was throttled.
    """

    ts: float
    window_s: float
    rate: float | None
    throttle_ms: float | None


def merge(samples: Iterable[Sample]) -> tuple[list[Row], list[Dropped]]:
    """Return a row per time, by time, and what is left out.

    | samples | become |
    | --- | --- |
    | a rate and a throttle time of one time | one row |
    | two equal values of one time | one; the other is a duplicate |
    | two values of one time | the larger; the other is a conflict |
    | totals | the rate between a total and the one before, which covers the time between them |
    | the first total, a total smaller than the one before | nothing |
    | a total in whose time there is a rate, too | nothing but a duplicate or a conflict |

    Samples in = rates and throttle times out + dropped.

    Args:
        samples: In any order; their series differ in the attribute at most.
    """
    dropped: Counter[DropReason] = Counter()
    of: dict[Attribute, dict[float, Sample]] = {attribute: {} for attribute in Attribute}
    for sample in samples:
        _keep(of[sample.series.attribute], sample, dropped)
    for sample in _rates(of[Attribute.TOTAL], dropped):
        _keep(of[Attribute.RATE], sample, dropped)
    rates, times = of[Attribute.RATE], of[Attribute.THROTTLE_TIME]
    rows = [_row(ts, rates.get(ts), times.get(ts)) for ts in sorted(rates.keys() | times.keys())]
    return rows, [Dropped(reason, count) for reason, count in dropped.items()]


def _keep(kept: dict[float, Sample], sample: Sample, dropped: Counter[DropReason]) -> None:
    other = kept.get(sample.ts)
    if other is None or other.value < sample.value:
        kept[sample.ts] = sample
    if other is not None:
        dropped[DropReason.DUPLICATE if other.value == sample.value else DropReason.CONFLICT] += 1


def _rates(totals: dict[float, Sample], dropped: Counter[DropReason]) -> Iterator[Sample]:
    """Yield the rates that follow from the totals of a counter."""
    before: Sample | None = None
    for ts in sorted(totals):
        total = totals[ts]
        if before is None:
            dropped[DropReason.FIRST_TOTAL] += 1
        elif total.value < before.value:
            dropped[DropReason.COUNTER_RESET] += 1
        else:
            seconds = ts - before.ts
            yield total._replace(value=(total.value - before.value) / seconds, window_s=seconds)
        before = total


def _row(ts: float, rate: Sample | None, throttle: Sample | None) -> Row:
    window = rate or throttle
    return Row(
        ts,
        window.window_s if window else 0.0,
        rate.value if rate else None,
        throttle.value if throttle else None,
    )
