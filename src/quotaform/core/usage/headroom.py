"""How close clients are to their quotas, as far as it is printed; all of it goes to files from the executors.

| a bucket is | if |
| --- | --- |
| throttled | the broker reported new throttling of it while it was recorded |
| close | it is not throttled, and p99 of its rates is at least 80 % of its limit |
| below | it has a limit, and is neither |
| unlimited | nothing limits it |

A neighbour is noisy who has more than half of what a bucket of several members uses that is throttled or close.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

CLOSE_RATIO: Final = 0.8
"""A bucket is close to its limit when p99 of its rates, or its rate at a moment, is at least this part of it."""

AT_LIMIT_RATIO: Final = 0.95
"""From this part of the limit on a rate is as high as the limit lets it be: the window of a rate is not exact."""

NOISY_SHARE: Final = 0.5
"""A member is noisy who has more than this part of what a shared bucket uses."""


class HeadroomStatus(StrEnum):
    """How a bucket stands to its limit; the gravest first."""

    THROTTLED = "throttled"
    CLOSE = "close"
    BELOW = "below"
    UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUse:
    """What was used of one limit, on one broker; rates have the unit of the key.

    Attributes:
        cluster: The cluster; `None` if the recording does not say.
        broker: The broker; `None` if the limit is one of the cluster, or if the recording does not say.
        bucket: The address of those who share the limit.
        entity: The address of the entity whose value the limit is; `None` if nothing limits them.
        status: How the bucket stands to it.
        samples: How many times were recorded.
        first: The first of them.
        last: The last one.
        p50: The median of the rates.
        p95: The rate that 95 % of the samples do not exceed.
        p99: The same of 99 %.
        maximum: The highest rate.
        used_ratio: p99 / limit.
        recorded_s: How many seconds the samples stand for.
        throttled_s: In how many of them requests were throttled.
        throttle_ms_max: The longest average delay.
        members: How many recorded series share the bucket.
        top_member: The address of the one that uses most.
        top_member_share: Its part of what they use.
        is_coarse: Whether the recording cannot tell what the bucket used: it is at most this.
    """

    cluster: str | None
    broker: str | None
    key: str
    bucket: str
    entity: str | None
    limit: float | None
    status: HeadroomStatus
    samples: int
    first: datetime
    last: datetime
    p50: float | None
    p95: float | None
    p99: float | None
    maximum: float | None
    used_ratio: float | None
    recorded_s: float
    throttled_s: float
    throttle_ms_max: float | None
    members: int
    top_member: str | None
    top_member_share: float | None
    is_coarse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedQuota:
    """A value that limited nothing that was recorded.

    Attributes:
        entity: The address of the entity.
        recorded_s: For how many seconds, at least, the key was recorded on the cluster.
        first: When that recording begins.
        last: When it ends.
    """

    cluster: str
    entity: str
    key: str
    value: float
    recorded_s: float
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedKey:
    """A quota key of a cluster that has values, of which nothing was recorded; they cannot be judged."""

    cluster: str
    key: str
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCluster:
    """A cluster that was recorded, and whose quotas are not known."""

    cluster: str | None
    buckets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """How close clients are to their quotas.

    Attributes:
        usage: The recording, as it was given.
        first: Its first time.
        last: Its last one.
        samples: How many samples it has.
        counts: How many buckets there are of each status.
        buckets: The buckets closest to their limits, the gravest first; those without a limit are left out.
        noisy: Buckets with a noisy neighbour.
        noisy_total: How many of them there are.
        unused: Values that limited nothing that was recorded, by cluster, key and entity.
        unused_total: How many of them there are.
        coarse: How many buckets with a limit the recording is too coarse for.
        unrecorded: Keys that were not recorded.
        unknown: Clusters without known quotas.
    """

    usage: str
    first: datetime
    last: datetime
    samples: int
    counts: dict[HeadroomStatus, int]
    buckets: tuple[BucketUse, ...]
    noisy: tuple[BucketUse, ...]
    noisy_total: int
    unused: tuple[UnusedQuota, ...]
    unused_total: int
    coarse: int
    unrecorded: tuple[UnrecordedKey, ...]
    unknown: tuple[UnknownCluster, ...]

    @property
    def total(self) -> int:
        """How many buckets were recorded, per broker."""
        return sum(self.counts.values())
