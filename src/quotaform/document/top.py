"""The JSON of who is throttled."""

from __future__ import annotations

from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.usage.top import BucketState, Top, TopBucket
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_entity
from quotaform.model.document_kind import TOP
from quotaform.model.moment import spell_moment


def dump_top(top: Top, *, limit: int | None = None, shows_all: bool = False) -> str:
    """Return who is throttled as JSON.

    `limit` is the most buckets that are listed. `shows_all` says whether buckets are listed that are neither throttled
    nor close to their limit.
    """
    listed = [bucket for bucket in top.buckets if shows_all or bucket.state is not BucketState.BELOW]
    fields = {
        "cluster": top.cluster,
        "at": spell_moment(top.at),
        "limits_known": top.has_limits,
        "summary": {
            **{state.value: top.count(state) for state in BucketState},
            "measured": len(top.buckets),
            "brokers": top.brokers,
        },
        "buckets": [_dump_bucket(bucket) for bucket in listed[:limit]],
        "unread": [{"what": each.what, "problem": each.problem} for each in top.unread],
    }
    return indented(envelope(TOP, fields))


def _dump_bucket(bucket: TopBucket) -> dict[str, Any]:
    source = bucket.resolved.source
    return {
        "broker": bucket.broker,
        **dump_entity(bucket.entity),
        "key": bucket.key,
        "state": bucket.state.value,
        "rate": json_number(bucket.rate),
        "limit": json_number(bucket.limit),
        "ratio": json_number(bucket.ratio),
        "throttle_ms": json_number(bucket.throttle_ms),
        "source": None if source is None else source.address,
        "source_name": bucket.resolved.source_name,
        "shared_by": bucket.shared_by,
    }
