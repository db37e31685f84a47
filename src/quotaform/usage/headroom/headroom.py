"""How close clients are to their quotas, as far as it is printed, with its JSON and its schema.

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
from typing import Any, Final

from quotaform.model.moment import spell_moment
from quotaform.model.records.document import USAGE_HEADROOM, envelope, indented, json_number
from quotaform.model.records.schema import (
    MOMENT,
    Node,
    boolean,
    choice,
    count,
    document,
    items,
    maybe_text,
    number,
    quota_key,
    record,
    ref,
    text,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUse:
    """What was used of one limit, on one broker; rates have the unit of the key."""

    cluster: str | None  # The cluster; `None` if the recording does not say
    broker: str | None  # The broker; `None` if the limit is one of the cluster, or if the recording does not say
    key: str
    bucket: str  # The address of those who share the limit
    entity: str | None  # The address of the entity whose value the limit is; `None` if nothing limits them
    limit: float | None
    status: HeadroomStatus  # How the bucket stands to it
    samples: int  # How many times were recorded
    first: datetime  # The first of them
    last: datetime  # The last one
    p50: float | None  # The median of the rates
    p95: float | None  # The rate that 95 % of the samples do not exceed
    p99: float | None  # The same of 99 %
    maximum: float | None  # The highest rate
    used_ratio: float | None  # p99 / limit
    recorded_s: float  # How many seconds the samples stand for
    throttled_s: float  # In how many of them requests were throttled
    throttle_ms_max: float | None  # The longest average delay
    members: int  # How many recorded series share the bucket
    top_member: str | None  # The address of the one that uses most
    top_member_share: float | None  # Its part of what they use
    is_coarse: bool  # Whether the recording cannot tell what the bucket used: it is at most this


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedQuota:
    """A value that limited nothing that was recorded."""

    cluster: str
    entity: str  # The address of the entity
    key: str
    value: float
    recorded_s: float  # For how many seconds, at least, the key was recorded on the cluster
    first: datetime  # When that recording begins
    last: datetime  # When it ends


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
    """How close clients are to their quotas."""

    usage: str  # The recording, as it was given
    first: datetime  # Its first time
    last: datetime  # Its last one
    samples: int  # How many samples it has
    counts: dict[HeadroomStatus, int]  # How many buckets there are of each status
    buckets: tuple[BucketUse, ...]
    """The buckets closest to their limits, the most severe first; those without a limit are left out."""
    noisy: tuple[BucketUse, ...]  # Buckets with a noisy neighbour
    noisy_total: int  # How many of them there are
    unused: tuple[UnusedQuota, ...]  # Values that limited nothing that was recorded, by cluster, key and entity
    unused_total: int  # How many of them there are
    coarse: int  # How many buckets with a limit the recording is too coarse for
    unrecorded: tuple[UnrecordedKey, ...]  # Keys that were not recorded
    unknown: tuple[UnknownCluster, ...]  # Clusters without known quotas

    @property
    def total(self) -> int:
        """How many buckets were recorded, per broker."""
        return sum(self.counts.values())


def dump_headroom(found: Headroom) -> str:
    """Return how close clients are to their quotas as JSON."""
    fields = {
        "usage": found.usage,
        "first": spell_moment(found.first),
        "last": spell_moment(found.last),
        "samples": found.samples,
        "summary": {
            **{status.value: number for status, number in found.counts.items()},
            "noisy": found.noisy_total,
            "unused": found.unused_total,
            "coarse": found.coarse,
        },
        "buckets": [_dump_bucket(each) for each in found.buckets],
        "noisy": [_dump_bucket(each) for each in found.noisy],
        "unused": [_dump_unused(each) for each in found.unused],
        "unrecorded": [{"cluster": each.cluster, "key": each.key, "values": each.values} for each in found.unrecorded],
        "unknown_clusters": [{"cluster": each.cluster, "buckets": each.buckets} for each in found.unknown],
    }
    return indented(envelope(USAGE_HEADROOM, fields))


def _dump_bucket(each: BucketUse) -> dict[str, Any]:
    numbers = ("limit", "p50", "p95", "p99")
    return {
        "cluster": each.cluster,
        "broker": each.broker,
        "key": each.key,
        "bucket": each.bucket,
        "source": each.entity,
        "status": each.status.value,
        **{name: json_number(getattr(each, name)) for name in numbers},
        "max": json_number(each.maximum),
        "used_ratio": json_number(each.used_ratio),
        "samples": each.samples,
        "first": spell_moment(each.first),
        "last": spell_moment(each.last),
        "recorded_s": json_number(each.recorded_s),
        "throttled_s": json_number(each.throttled_s),
        "throttle_ms_max": json_number(each.throttle_ms_max),
        "members": each.members,
        "top_member": each.top_member,
        "top_member_share": json_number(each.top_member_share),
        "coarse": each.is_coarse,
    }


def _dump_unused(each: UnusedQuota) -> dict[str, Any]:
    return {
        "cluster": each.cluster,
        "address": each.entity,
        "key": each.key,
        "value": json_number(each.value),
        "recorded_s": json_number(each.recorded_s),
        "first": spell_moment(each.first),
        "last": spell_moment(each.last),
    }


_COUNTS: Final = {
    HeadroomStatus.THROTTLED: "Buckets that were throttled while they were recorded.",
    HeadroomStatus.CLOSE: "Other buckets whose p99 is at least 80 % of the limit.",
    HeadroomStatus.BELOW: "Other buckets with a limit.",
    HeadroomStatus.UNLIMITED: "Buckets without a limit, or whose limit is not known.",
}


def usage_headroom() -> tuple[Node, dict[str, Node]]:
    """Return the schema of headroom and its definitions."""
    unused = record(
        "A value that limited nothing that was recorded.",
        {
            "cluster": text("The name of the cluster."),
            "address": ref("address"),
            "key": quota_key(),
            "value": ref("maybe_value"),
            "recorded_s": number("For how many seconds, at least, the key was recorded on the cluster."),
            "first": text("When this recording begins.", pattern=MOMENT),
            "last": text("When it ends.", pattern=MOMENT),
        },
    )
    unrecorded = record(
        "A quota key of a cluster of which nothing was recorded.",
        {"cluster": text("The name of the cluster."), "key": quota_key(), "values": count("How many values it has.")},
    )
    unknown = record(
        "A cluster that was recorded, and whose quotas are not known.",
        {"cluster": maybe_text("Its name, or null."), "buckets": count("How many buckets were recorded of it.")},
    )
    fields = {
        "usage": text("The usage table, as given."),
        "first": text("The first time, as ISO 8601 in UTC.", pattern=MOMENT),
        "last": text("The last one.", pattern=MOMENT),
        "samples": count("How many samples there are."),
        "summary": record(
            "Numbers of buckets, per broker, and of values that were not used.",
            {
                **{status.value: count(about) for status, about in _COUNTS.items()},
                "noisy": count("Buckets that were throttled or are close, of which one of several has more than half."),
                "unused": count("Values that limited nothing that was recorded."),
                "coarse": count("Buckets with a limit that used at most what is shown."),
            },
        ),
        "buckets": items("The buckets closest to their limits; as many as --top says.", ref("bucket")),
        "noisy": items("Buckets with a noisy neighbour; as many as --top says.", ref("bucket")),
        "unused": items("Values that limited nothing; as many as --top says.", unused),
        "unrecorded": items("Quota keys that cannot be judged.", unrecorded),
        "unknown_clusters": items("Clusters without known quotas; the first 100.", unknown),
    }
    return document(USAGE_HEADROOM, "The result of quotaform usage headroom.", fields), {"bucket": _bucket_node()}


def _bucket_node() -> Node:
    return record(
        "What those who share a limit used, on one broker.",
        {
            "cluster": maybe_text("The name of the cluster; null if the recording does not say."),
            "broker": maybe_text("The broker; null if the limit is one of the cluster, or if it is not known."),
            "key": quota_key(),
            "bucket": text("The address of those who share the limit."),
            "source": maybe_text("The address of the entity whose value the limit is, or null."),
            "status": choice(
                "throttled: while it was recorded; close: p99 is at least 80 % of the limit; below: less; unlimited.",
                [status.value for status in HeadroomStatus],
            ),
            "limit": ref("maybe_value"),
            **{name: ref("maybe_value") for name in ("p50", "p95", "p99", "max", "used_ratio")},
            "samples": count("How many times with a rate were recorded."),
            "first": text("The first time, as ISO 8601 in UTC.", pattern=MOMENT),
            "last": text("The last one.", pattern=MOMENT),
            "recorded_s": number("How many seconds the samples stand for."),
            "throttled_s": number("In how many of them requests were throttled."),
            "throttle_ms_max": ref("maybe_value"),
            "members": count("How many recorded series share the limit."),
            "top_member": maybe_text("The address of the one that uses most, or null."),
            "top_member_share": ref("maybe_value"),
            "coarse": boolean("Whether the bucket used at most what is shown."),
        },
    )
