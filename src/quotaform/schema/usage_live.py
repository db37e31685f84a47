"""The schemas of what is measured at this moment: recordings, and who is throttled."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.headroom import CLOSE_RATIO
from quotaform.core.usage.sample.sample import DropReason
from quotaform.core.usage.top import BucketState
from quotaform.model.document_kind import TOP, USAGE_RECORD
from quotaform.model.precedence import LEVELS
from quotaform.schema.definition import document, quota_key
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe_text, record, ref, text

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"


def usage_record() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a recording and its definitions."""
    reasons = ", ".join(f"{reason.name.lower()}: {reason.value}" for reason in DropReason)
    gap = record(
        "A time without measurements.",
        {
            "first": moment("The first time at which there should be one."),
            "last": moment("The last such time."),
            "missed": count("How many are missing."),
            "reason": text("Why."),
        },
    )
    source = record(
        "What was recorded of a broker.",
        {
            "broker": text("Its name in the table."),
            "source": text("Where it was measured."),
            "asked": count("How often it was asked."),
            "read": count("How often it answered."),
            "rows": count("The rows of it in the table."),
            "dropped": mapping(
                f"Numbers of samples that are not in the table, by reason. {reasons}.", count("Samples.")
            ),
            "rejected": count("Records that could not be read."),
            "problems": items("The first reasons of these.", {"type": "string"}),
            "bytes": count("The bytes of all its answers."),
            "seconds": number("The time that all its answers took."),
            "longest_s": number("The longest of these times."),
            "gaps": items("The times without measurements.", ref("gap")),
            "remark": maybe_text("Why its last answer had no row, or null."),
        },
    )
    fields = {
        "cluster": text("The name of the cluster."),
        "usage": text("The table, as given."),
        "started_at": moment("When it began."),
        "ended_at": moment("When it ended."),
        "interval_s": number("Seconds between two measurements of a broker."),
        "rows": count("The rows that were added to the table."),
        "files": count("The files that were added to the table."),
        "unwritten": count("The rows that were measured and could not be written."),
        "failure": maybe_text("Why, or null if all were written."),
        "sources": items("What was recorded of each broker.", ref("source")),
    }
    schema = document(USAGE_RECORD, "The result of quotaform usage record.", fields)
    return schema, {"source": source, "gap": gap}


def top() -> tuple[Node, dict[str, Node]]:
    """Return the schema of who is throttled, and its definitions."""
    bucket = record(
        "A bucket on a broker.",
        {
            "broker": maybe_text("The broker, or null if the source does not say."),
            "address": ref("address"),
            "entity": ref("entity"),
            "key": quota_key(),
            "state": choice(
                "throttled: requests were delayed in the last 30 to 60 s. close: it uses "
                f"{CLOSE_RATIO:.0%} of its limit or more. below: any other.",
                BucketState,
            ),
            "rate": ref("maybe_value", "The rate in the unit of the key, or null if it is not measured."),
            "limit": ref("maybe_value", "The limit, or null if nothing limits it."),
            "ratio": ref("maybe_value", "The rate as a share of the limit, or null."),
            "throttle_ms": ref(
                "maybe_value", "The average delay of the throttled requests, or null if there are none."
            ),
            "source": maybe_text("The address of the entity whose quota the limit is, or null."),
            "source_name": choice(
                "The name of this kind of entry in KIP-248.", (*(level.source for level in LEVELS), None)
            ),
            "shared_by": maybe_text("Which requests share the bucket, or null."),
        },
    )
    fields = {
        "cluster": text("The name of the cluster."),
        "at": moment("When it was measured."),
        "limits_known": boolean("Whether the quotas of the cluster could be read."),
        "summary": record(
            "Numbers of buckets.",
            {
                **{state.value: count(f"Buckets that are {state.value}.") for state in BucketState},
                "measured": count("All that were measured."),
                "brokers": count("The brokers that measured them."),
            },
        ),
        "buckets": items(
            "Buckets that are throttled or close (--all-buckets: all), by how much they are throttled, then by ratio.",
            ref("bucket"),
        ),
        "unread": items(
            "What could not be read.",
            record("A source, or the quotas.", {"what": text("What it is."), "problem": text("Why.")}),
        ),
    }
    return document(TOP, "The result of quotaform top --once.", fields), {"bucket": bucket}


def moment(description: str) -> Node:
    """Return the schema of a time."""
    return text(f"{description.removesuffix('.')}, as ISO 8601 in UTC.", pattern=_MOMENT)


def number(description: str) -> Node:
    """Return the schema of a measured number, which is never below 0."""
    return {"description": description, "type": "number", "minimum": 0}
