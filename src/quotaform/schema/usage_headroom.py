"""The schema of how close clients are to their quotas."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.headroom import HeadroomStatus
from quotaform.model.document_kind import USAGE_HEADROOM
from quotaform.schema.definition import document, quota_key
from quotaform.schema.node import Node, boolean, choice, count, items, maybe_text, record, ref, text

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"
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
            "recorded_s": _number("For how many seconds, at least, the key was recorded on the cluster."),
            "first": text("When this recording begins.", pattern=_MOMENT),
            "last": text("When it ends.", pattern=_MOMENT),
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
        "first": text("The first time, as ISO 8601 in UTC.", pattern=_MOMENT),
        "last": text("The last one.", pattern=_MOMENT),
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
    return document(USAGE_HEADROOM, "The result of quotaform usage headroom.", fields), {"bucket": _bucket()}


def _bucket() -> Node:
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
            "first": text("The first time, as ISO 8601 in UTC.", pattern=_MOMENT),
            "last": text("The last one.", pattern=_MOMENT),
            "recorded_s": _number("How many seconds the samples stand for."),
            "throttled_s": _number("In how many of them requests were throttled."),
            "throttle_ms_max": ref("maybe_value"),
            "members": count("How many recorded series share the limit."),
            "top_member": maybe_text("The address of the one that uses most, or null."),
            "top_member_share": ref("maybe_value"),
            "coarse": boolean("Whether the bucket used at most what is shown."),
        },
    )


def _number(description: str) -> Node:
    return {"description": description, "type": "number", "minimum": 0}
