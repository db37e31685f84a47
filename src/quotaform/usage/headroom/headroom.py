"""How close clients are to their quotas, as far as it is printed and written; docs/usage-headroom.md has the terms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import field

from quotaform.model.records.document import USAGE_HEADROOM
from quotaform.model.records.field import Address, QuotaKeyName
from quotaform.model.records.record import Count, Moment, Record, about

CLOSE_RATIO: Final = 0.8
"""A bucket is close to its limit when p99 of its rates, or its rate at a moment, is at least this part of it."""

AT_LIMIT_RATIO: Final = 0.95
"""From this part of the limit on a rate is as high as the limit lets it be: the window of a rate is not exact."""

NOISY_SHARE: Final = 0.5
"""A member is noisy who has more than this part of what a shared bucket uses."""


class HeadroomStatus(StrEnum):
    """How a bucket stands to its limit; the most severe first."""

    THROTTLED = "throttled"
    CLOSE = "close"
    BELOW = "below"
    UNLIMITED = "unlimited"


Rate: TypeAlias = Annotated[float | None, about("A rate in the unit of the key, or null without one.")]


class BucketUse(Record):
    """What those who share a limit used, on one broker."""

    cluster: Annotated[str | None, about("The name of the cluster; null if the recording does not say.")]
    broker: Annotated[str | None, about("The broker; null if the limit is one of the cluster, or if it is not known.")]
    key: QuotaKeyName
    bucket: Annotated[str, about("The address of those who share the limit.")]
    entity: Annotated[str | None, about("The address of the entity whose value the limit is, or null.")] = field(
        name="source"
    )
    status: Annotated[
        HeadroomStatus,
        about("throttled: while it was recorded; close: p99 is at least 80 % of the limit; below: less; unlimited."),
    ]
    limit: Rate
    p50: Rate
    p95: Rate
    p99: Rate
    maximum: Rate = field(name="max")
    used_ratio: Annotated[float | None, about("p99 / limit, or null.")]
    samples: Annotated[Count, about("How many times with a rate were recorded.")]
    first: Annotated[Moment, about("The first time.")]
    last: Annotated[Moment, about("The last one.")]
    recorded_s: Annotated[float, about("How many seconds the samples stand for.")]
    throttled_s: Annotated[float, about("In how many of them requests were throttled.")]
    throttle_ms_max: Annotated[float | None, about("The longest average delay, or null.")]
    members: Annotated[Count, about("How many recorded series share the limit.")]
    top_member: Annotated[str | None, about("The address of the one that uses most, or null.")]
    top_member_share: Annotated[float | None, about("Its part of what they use, or null.")]
    is_coarse: Annotated[bool, about("Whether the bucket used at most what is shown.")] = field(name="coarse")


class UnusedQuota(Record):
    """A value that limited nothing that was recorded."""

    cluster: Annotated[str, about("The name of the cluster.")]
    entity: Address = field(name="address")
    key: QuotaKeyName
    value: Annotated[float, about("The value.")]
    recorded_s: Annotated[float, about("For how many seconds, at least, the key was recorded on the cluster.")]
    first: Annotated[Moment, about("When this recording begins.")]
    last: Annotated[Moment, about("When it ends.")]


class UnrecordedKey(Record):
    """A quota key of a cluster that has values, of which nothing was recorded."""

    cluster: Annotated[str, about("The name of the cluster.")]
    key: QuotaKeyName
    values: Annotated[Count, about("How many values it has.")]


class UnknownCluster(Record):
    """A cluster that was recorded, and whose quotas are not known."""

    cluster: Annotated[str | None, about("Its name, or null.")]
    buckets: Annotated[Count, about("How many buckets were recorded of it.")]


class HeadroomSummary(Record):
    """Numbers of buckets, per broker, and of values that were not used."""

    throttled: Annotated[Count, about("Buckets that were throttled while they were recorded.")]
    close: Annotated[Count, about("Other buckets whose p99 is at least 80 % of the limit.")]
    below: Annotated[Count, about("Other buckets with a limit.")]
    unlimited: Annotated[Count, about("Buckets without a limit, or whose limit is not known.")]
    noisy: Annotated[
        Count, about("Buckets that were throttled or are close, of which one of several has more than half.")
    ]
    unused: Annotated[Count, about("Values that limited nothing that was recorded.")]
    coarse: Annotated[Count, about("Buckets with a limit that used at most what is shown.")]

    @property
    def limited(self) -> int:
        """How many buckets with a limit were recorded."""
        return self.throttled + self.close + self.below

    @property
    def total(self) -> int:
        """How many buckets were recorded, per broker."""
        return self.limited + self.unlimited


class Headroom(Record, document=USAGE_HEADROOM):
    """The result of quotaform usage headroom."""

    usage: Annotated[str, about("The usage table, as given.")]
    first: Annotated[Moment, about("The first time.")]
    last: Annotated[Moment, about("The last one.")]
    samples: Annotated[Count, about("How many samples there are.")]
    summary: Annotated[HeadroomSummary, about("How many there are of what; the lists have the first of them.")]
    buckets: Annotated[
        tuple[BucketUse, ...],
        about("The buckets closest to their limits, the most severe first; as many as were asked for."),
    ]
    noisy: Annotated[tuple[BucketUse, ...], about("Buckets with a noisy neighbour; as many as were asked for.")]
    unused: Annotated[tuple[UnusedQuota, ...], about("Values that limited nothing; as many as were asked for.")]
    unrecorded: Annotated[tuple[UnrecordedKey, ...], about("Quota keys that cannot be judged.")]
    unknown: Annotated[tuple[UnknownCluster, ...], about("Clusters without known quotas; the first 100.")] = field(
        name="unknown_clusters"
    )
