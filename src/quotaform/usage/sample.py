"""Series, samples of them, and the rows of the usage table that they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Final, NamedTuple, TypeAlias

from quotaform.model.quota_key import QUOTA_KEYS, QUOTA_WINDOW_S
from quotaform.model.records.record import Count, about

# What one series of measurements is about, whatever program recorded it.
#
# | attribute | unit | metric |
# | --- | --- | --- |
# | rate | that of the quota key: B/s, % of one thread, partitions/s, connections/s | `byte-rate` and others |
# | throttle_time | ms: the average delay of the throttled requests of the last 30 to 60 s | `throttle-time` |
# | total | bytes or events since a program started | counters of clients |
#
# Source: org.apache.kafka.server.quota.ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager;
# kafka.network.ConnectionQuotas.

LONGEST_STEP_S: Final = 600.0
"""The longest time between two samples for which the later one may stand; a longer one is a gap, in which nothing is
known. It is two pushes of clients that send their metrics every five minutes (KIP-714)."""


class Attribute(StrEnum):
    """What is measured."""

    RATE = "rate"
    THROTTLE_TIME = "throttle_time"
    TOTAL = "total"

    __hash__ = str.__hash__  # Each sample asks for it with its series; that of an enum is in Python.


def broker_window_s(key: str) -> float:
    """Return how many seconds a rate of a broker covers, about.

    >>> broker_window_s("producer_byte_rate"), broker_window_s("controller_mutation_rate")
    (11.5, 60.0)
    """
    known = QUOTA_KEYS.get(key)
    return known.metrics.window_s if known and known.metrics else QUOTA_WINDOW_S


class Series(NamedTuple):
    """One series: a value per time."""

    cluster: str | None  # The name of the cluster; `None` if the source does not say
    broker: str | None  # The broker, as the source names it; `None` if it does not say, or a client measured
    key: str
    user: str | None  # The user of the bucket, decoded; `None` if the bucket has no user
    client_id: str | None  # The client-id of the bucket; `None` if the bucket has none
    ip: str | None  # The address of the bucket; `None` if the bucket has none
    attribute: Attribute
    instance: str | None = None
    """Which of several clients with these names measured itself; `None` if a broker measured."""


LONGEST_RECORD: Final = 200
"""The characters of a record that could not be read which are kept."""


class DropReason(StrEnum):
    """Why a sample is not in the table of usage, although it could be read. The value is for people.

    | member | the sample |
    | --- | --- |
    | NAN | is not a number: the metric has no value at that time; a throttle time: nothing was throttled |
    | MISSING | has no value, as an empty cell of a CSV file, or an MBean that is not there |
    | OTHER_METRIC | is of a metric that is not about client quotas |
    | OTHER_ATTRIBUTE | is of a client quota, but neither a rate nor a throttle time, such as `tokens` |
    | BROKER_TOTAL | is of a whole broker or listener, of no user, client-id or ip |
    | DUPLICATE | is there twice, with the same time and value |
    | CONFLICT | has the time of another one of its series, and a smaller value |
    | FIRST_TOTAL | is the first value of a counter, from which no rate follows |
    | COUNTER_RESET | is the first value of a counter after a restart of what counts |
    """

    NAN = "not a number"
    MISSING = "no value"
    OTHER_METRIC = "metrics that are not of client quotas"
    OTHER_ATTRIBUTE = "neither a rate nor a throttle time"
    BROKER_TOTAL = "of a whole broker"
    DUPLICATE = "there twice"
    CONFLICT = "another value of the same time"
    FIRST_TOTAL = "first value of a counter"
    COUNTER_RESET = "counter reset"


_REASONS: Final = ", ".join(f"{reason.name.lower()}: {reason.value}" for reason in DropReason)
DroppedSamples: TypeAlias = Annotated[
    dict[str, Count], about(f"Numbers of samples that are not in the table, by reason. {_REASONS}.")
]


def by_reason(dropped: Iterable[tuple[DropReason, int]]) -> dict[str, int]:
    """Return numbers of samples as documents have them.

    >>> by_reason([(DropReason.NAN, 3)])
    {'nan': 3}
    """
    return {reason.name.lower(): count for reason, count in dropped}


def reason_text(name: str) -> str:
    """Return a reason of `by_reason` as people read it.

    >>> reason_text("nan")
    'not a number'
    """
    return DropReason[name.upper()].value


class Unreadable(NamedTuple):
    """Why a metric of client quotas can't be read, and the remedy."""

    reason: str


class Sample(NamedTuple):
    """One value of one series."""

    series: Series  # What it is about
    ts: float  # The end of what was measured, in seconds since the epoch (UTC)
    value: float  # In the unit of the attribute; finite, and not negative
    window_s: float  # How many seconds up to `ts` it covers; 0 for a total


class Dropped(NamedTuple):
    """Samples that are not for the table, and how many."""

    reason: DropReason
    samples: int


class Rejected(NamedTuple):
    """A record that could not be read."""

    position: int  # Where it begins: the line, the element or the byte, as `reason` says
    reason: str  # What is wrong, and the remedy
    record: str  # Its first 200 characters; what is not UTF-8 is escaped


Item = Sample | Dropped | Rejected


def reject(position: int, reason: str, record: str) -> Rejected:
    """Return a record that could not be read, cut to what is kept of it.

    >>> len(reject(1, "line 1: cut", "a" * 1000).record)
    200
    """
    shown = record[:LONGEST_RECORD]
    return Rejected(position, reason, shown.encode("utf-8", "backslashreplace").decode()[:LONGEST_RECORD])


class MergedRow(NamedTuple):
    """What a bucket used at one time: the columns of the table of usage that are no names."""

    ts: float  # Seconds since the epoch
    window_s: float  # How many seconds up to `ts` the rate covers
    rate: float | None  # In the unit of the quota key; `None` if only the throttle time is known
    throttle_ms: float | None  # `None` if it is not known, or nothing was throttled


def merge(samples: Iterable[Sample]) -> tuple[list[MergedRow], list[Dropped]]:
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

    `samples`: in any order; their series differ in the attribute at most.
    """
    dropped: Counter[DropReason] = Counter()
    of: dict[Attribute, dict[float, Sample]] = {attribute: {} for attribute in Attribute}
    for sample in samples:
        _keep(of[sample.series.attribute], sample, dropped)
    for sample in _rates(of[Attribute.TOTAL], dropped):
        _keep(of[Attribute.RATE], sample, dropped)
    rates, times = of[Attribute.RATE], of[Attribute.THROTTLE_TIME]
    rows = [_merged_row(ts, rates.get(ts), times.get(ts)) for ts in sorted(rates.keys() | times.keys())]
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


def _merged_row(ts: float, rate: Sample | None, throttle: Sample | None) -> MergedRow:
    window = rate or throttle
    return MergedRow(
        ts,
        window.window_s if window else 0.0,
        rate.value if rate else None,
        throttle.value if throttle else None,
    )
