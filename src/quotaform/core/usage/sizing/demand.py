"""What was recorded of the buckets that share a quota: the numbers from which a right-sized quota follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quotaform.core.usage.sizing.busiest_day import BusiestDay

HOUR_S: Final = 3600
HOURS_OF_DAY: Final = 24


@dataclass(frozen=True, slots=True)
class BrokerRecorded:
    """When a quota key was recorded on a broker. An hour (UTC) is recorded if a sample of the key is in it.

    Attributes:
        first: The first sample.
        recent_hours: How many hours are recorded of those after which a quota counts as unused.
        begin: When the window of the first sample began.
    """

    first: datetime
    recent_hours: int
    begin: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """When a quota key was recorded on a cluster.

    Attributes:
        last: The last sample, of any broker.
        brokers: When it was recorded on each broker; `None` is the whole cluster if the limit is one of the cluster,
            and clients that measured otherwise.
    """

    last: datetime
    brokers: Mapping[str | None, BrokerRecorded]

    def span_hours(self, since: datetime) -> float:
        """How many hours there are from a sample to the last one, both of their hours included."""
        return (self.last.timestamp() // HOUR_S) - (since.timestamp() // HOUR_S) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDemand:
    """What a bucket used of one broker, or of the whole cluster if the limit is one of the cluster.

    Attributes:
        broker: The broker; `None` for a whole cluster, or if clients measured.
        busiest: The day with the highest percentile; `None` without a rate.
        samples: Times with a rate.
        throttled: Times with a throttle time above 0.
    """

    broker: str | None
    busiest: BusiestDay | None
    samples: int
    throttled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDemand:
    """What a bucket used.

    Attributes:
        bucket: Its address.
        entity_key: The address of the entity whose value limits it; `None` without a limit.
        limit: That value.
        brokers: What it used of each broker.
        first: Its first sample.
        begin: When the window of that sample began.
        last_used: The last time with a rate above 0; `None` if there is none.
        hours: How many hours are recorded from its first sample on.
        is_coarse: Whether the recording cannot tell the bucket from others.
    """

    bucket: str
    key: str
    entity_key: str | None
    limit: float | None
    brokers: tuple[BrokerDemand, ...]
    first: datetime
    begin: datetime
    last_used: datetime | None
    hours: int
    is_coarse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the buckets used that one value limits.

    Attributes:
        buckets: How many buckets there are per broker.
        bases: The sum of their bases per broker.
        busiest: The day with the highest basis of a bucket on a broker; `None` without a rate.
        bucket: The bucket of that basis.
        broker: The broker of that basis.
        samples: Times with a rate, of all.
        throttled: Times with a throttle time above 0, of all.
        first: The first sample.
        begin: When the window of that sample began.
        last_used: The last time with a rate above 0; `None` if there is none.
        hours: How many hours are recorded from the first sample on.
        coarse: A bucket that the recording cannot tell from others; `None` if there is none.
        has_brokers: Whether brokers measured, where the limit is one of each broker.
    """

    buckets: Mapping[str | None, int]
    bases: Mapping[str | None, float]
    busiest: BusiestDay | None
    bucket: str | None
    broker: str | None
    samples: int
    throttled: int
    first: datetime
    begin: datetime
    last_used: datetime | None
    hours: int
    coarse: str | None
    has_brokers: bool

    @property
    def basis(self) -> float | None:
        """The highest basis; `None` without a rate."""
        return None if self.busiest is None else self.busiest.basis


def make_demand(buckets: Iterable[BucketDemand], *, is_per_broker: bool) -> Demand:
    """Return the demand of buckets that one value limits.

    Where both brokers and clients measured a bucket, what clients say of all brokers together is left out. `buckets`
    are the buckets, at least one. `is_per_broker` says whether the limit is one of each broker.
    """
    listed = sorted(buckets, key=lambda each: each.bucket)
    counts: dict[str | None, int] = {}
    bases: dict[str | None, float] = {}
    best: tuple[BusiestDay, str, str | None] | None = None
    samples = throttled = 0
    has_brokers = not is_per_broker
    for each in listed:
        measured = each.brokers
        if is_per_broker:
            by_brokers = tuple(row for row in measured if row.broker is not None)
            has_brokers |= bool(by_brokers)
            measured = by_brokers or measured
        for row in sorted(measured, key=lambda row: row.broker or ""):
            counts[row.broker] = counts.get(row.broker, 0) + 1
            samples += row.samples
            throttled += row.throttled
            if row.busiest is not None:
                bases[row.broker] = bases.get(row.broker, 0.0) + row.busiest.basis
                if best is None or row.busiest.basis > best[0].basis:
                    best = row.busiest, each.bucket, row.broker
    used = [each.last_used for each in listed if each.last_used is not None]
    return Demand(
        buckets=counts,
        bases=bases,
        busiest=None if best is None else best[0],
        bucket=None if best is None else best[1],
        broker=None if best is None else best[2],
        samples=samples,
        throttled=throttled,
        first=min(each.first for each in listed),
        begin=min(each.begin for each in listed),
        last_used=max(used, default=None),
        hours=max(each.hours for each in listed),
        coarse=next((each.bucket for each in listed if each.is_coarse), None),
        has_brokers=has_brokers,
    )
