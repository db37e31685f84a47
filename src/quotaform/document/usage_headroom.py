"""The JSON of how close clients are to their quotas."""

from __future__ import annotations

from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.usage.headroom import BucketUse, Headroom, UnusedQuota
from quotaform.document.envelope import envelope, indented
from quotaform.model.document_kind import USAGE_HEADROOM
from quotaform.model.moment import spell_moment


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
        "buckets": [_dump_use(each) for each in found.buckets],
        "noisy": [_dump_use(each) for each in found.noisy],
        "unused": [_dump_unused(each) for each in found.unused],
        "unrecorded": [{"cluster": each.cluster, "key": each.key, "values": each.values} for each in found.unrecorded],
        "unknown_clusters": [{"cluster": each.cluster, "buckets": each.buckets} for each in found.unknown],
    }
    return indented(envelope(USAGE_HEADROOM, fields))


def _dump_use(each: BucketUse) -> dict[str, Any]:
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
