"""The JSON and the schemas of what comes into a usage table, and of what is measured at this moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from quotaform.model.moment import spell_moment
from quotaform.model.precedence import LEVELS
from quotaform.model.records.document import (
    TOP,
    USAGE_INGEST,
    USAGE_RECORD,
    USAGE_STREAM,
    envelope,
    indented,
    json_number,
)
from quotaform.model.records.field import dump_entity
from quotaform.model.records.schema import (
    MOMENT,
    Node,
    boolean,
    choice,
    closed,
    count,
    document,
    items,
    mapping,
    maybe,
    maybe_text,
    number,
    quota_key,
    record,
    ref,
    text,
    titled,
)
from quotaform.usage.format.table import COLUMN_FIELDS, CONSTANT_FIELDS, FACTOR_FIELDS, TimeUnit
from quotaform.usage.headroom.headroom import CLOSE_RATIO
from quotaform.usage.ingest.ingest import Ingested, Streamed
from quotaform.usage.record.recording import RecordedSource, Recording
from quotaform.usage.sample import DropReason
from quotaform.usage.top.top import BucketState, Top, TopBucket


def dump_ingested(result: Ingested) -> str:
    """Return what became of an ingest as JSON."""
    fields = {
        "usage": result.usage,
        "files": result.files,
        "empty_files": result.empty_files,
        "summary": {
            "read": result.read,
            "written": result.written,
            "dropped": sum(result.dropped.values()),
            "quarantined": result.quarantined,
        },
        "rows": result.rows,
        "since": _moment(result.since),
        "until": _moment(result.until),
        "dropped": {reason.name.lower(): count for reason, count in result.dropped.items()},
        "clusters": [{"cluster": each.name, "declared": each.is_declared} for each in result.clusters],
        "quarantine": result.quarantine,
        "rejected": [{"file": each.file, "position": each.position, "reason": each.reason} for each in result.rejected],
    }
    return indented(envelope(USAGE_INGEST, fields))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)


def dump_streamed(result: Streamed) -> str:
    """Return what a run of a stream has done as JSON."""
    counts = result.counts
    fields = {
        "topic": result.topic,
        "usage": result.usage,
        "batches": counts.batches,
        "records": counts.records,
        "duplicate_records": counts.duplicate_records,
        "late_records": counts.late_records,
        "behind": result.behind,
        "summary": {
            "read": counts.samples,
            "written": counts.written,
            "dropped": sum(counts.dropped.values()),
            "quarantined": counts.quarantined,
        },
        "dropped": {reason.name.lower(): count for reason, count in counts.dropped.items()},
        "quarantine": result.quarantine if result.has_quarantine else None,
    }
    return indented(envelope(USAGE_STREAM, fields))


def dump_recording(result: Recording) -> str:
    """Return what became of a recording as JSON."""
    fields = {
        "cluster": result.cluster,
        "usage": result.usage,
        "started_at": spell_moment(result.started),
        "ended_at": spell_moment(result.ended),
        "interval_s": result.interval,
        "rows": result.rows,
        "files": result.files,
        "unwritten": result.unwritten,
        "failure": result.failure,
        "sources": [_dump_source(each) for each in result.sources],
    }
    return indented(envelope(USAGE_RECORD, fields))


def _dump_source(each: RecordedSource) -> dict[str, Any]:
    return {
        "broker": each.broker,
        "source": each.source,
        "asked": each.asked,
        "read": each.read,
        "rows": each.rows,
        "dropped": {reason.name.lower(): count for reason, count in each.dropped},
        "rejected": each.rejected,
        "problems": list(each.problems),
        "bytes": each.size,
        "seconds": round(each.seconds, 6),
        "longest_s": round(each.longest, 6),
        "gaps": [
            {
                "first": spell_moment(gap.first),
                "last": spell_moment(gap.last),
                "missed": gap.missed,
                "reason": gap.reason,
            }
            for gap in each.gaps
        ],
        "remark": each.remark,
    }


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


_SUMMARY: Final = record(
    "The numbers of samples.",
    {
        "read": count("Samples, and records that could not be read: the sum of the others."),
        "written": count("Samples in the table."),
        "dropped": count("Samples that were left out."),
        "quarantined": count("Records that could not be read."),
    },
)
_REASONS: Final = {each.name.lower(): count(f"Samples that are left out: {each.value}.") for each in DropReason}
_DROPPED: Final = record("How many samples were left out, per reason.", _REASONS, optional=_REASONS)


def usage_ingest() -> tuple[Node, dict[str, Node]]:
    """Return the schema of an ingest and its definitions."""
    cluster = {
        "cluster": text("The name of the cluster."),
        "declared": maybe({"type": "boolean"}, "Whether quotaform.yaml declares it; null if there is none."),
    }
    rejected = {
        "file": text("The file."),
        "position": count("Where in the file; the reason says what is counted."),
        "reason": text("What is wrong."),
    }
    fields = {
        "usage": text("The usage table, as given."),
        "files": count("How many files were read."),
        "empty_files": count("How many of them were empty."),
        "summary": _SUMMARY,
        "rows": count("How many rows were added: a rate and a throttle time of one time are one."),
        "since": maybe_text("The earliest time of the rows; null if there are none.", pattern=MOMENT),
        "until": maybe_text("The latest time of the rows; null if there are none.", pattern=MOMENT),
        "dropped": _DROPPED,
        "clusters": items("The clusters of the rows.", record("A cluster.", cluster)),
        "quarantine": maybe_text("Where the records are that could not be read; null if there are none."),
        "rejected": items("The first of these records.", record("A record.", rejected)),
    }
    return document(USAGE_INGEST, "The result of quotaform usage ingest.", fields), {}


def usage_stream() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a run of a stream and its definitions."""
    fields = {
        "topic": text("The topic."),
        "usage": text("The usage table, as given."),
        "batches": count("How many batches the run had."),
        "records": count("How many records of the topic it read."),
        "duplicate_records": count("How many of them were read before."),
        "late_records": count("How many of them were late; they are in the quarantine."),
        "behind": maybe(
            count("How many records it had not read."), "Records not read yet; null if there was no batch."
        ),
        "summary": _SUMMARY,
        "dropped": _DROPPED,
        "quarantine": maybe_text("Where the records are that could not be read or were late; null if there are none."),
    }
    return document(USAGE_STREAM, "The result of quotaform usage ingest --topic.", fields), {}


def usage_record() -> tuple[Node, dict[str, Node]]:
    """Return the schema of a recording and its definitions."""
    reasons = ", ".join(f"{reason.name.lower()}: {reason.value}" for reason in DropReason)
    gap = record(
        "A time without measurements.",
        {
            "first": _moment_node("The first time at which there should be one."),
            "last": _moment_node("The last such time."),
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
        "started_at": _moment_node("When it began."),
        "ended_at": _moment_node("When it ended."),
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
        "at": _moment_node("When it was measured."),
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


def _moment_node(description: str) -> Node:
    """Return the schema of a time."""
    return text(f"{description.removesuffix('.')}, as ISO 8601 in UTC.", pattern=MOMENT)


def usage_mapping() -> tuple[Node, dict[str, Node]]:
    """Return the schema and its definitions."""
    fields = {
        "columns": closed(
            "The column of each field. Rows of metrics have ts, metric, value and labels; rows of buckets have ts, "
            "key, rate or throttle_ms, and user, client_id or ip.",
            {name: text(_COLUMNS[name], minLength=1) for name in COLUMN_FIELDS},
            required=["ts"],
        ),
        "constants": closed(
            "Fields that are the same in all rows.",
            {name: text(f"In all rows: {_COLUMNS[name]}", minLength=1) for name in CONSTANT_FIELDS},
        ),
        "labels": mapping(
            "Rows of metrics: the column of each label that has one.", {"type": "string", "minLength": 1}, {"user": "u"}
        ),
        "factors": closed(
            "By what numbers are multiplied to be in bytes per second, percent of one thread, events per second, "
            "milliseconds (throttle_ms) or seconds (window_s).",
            {
                name: {"description": f"By what {name} is multiplied.", "type": "number", "exclusiveMinimum": 0}
                for name in FACTOR_FIELDS
            },
        ),
        "time_unit": choice("What a number in the column of ts counts since 1970; by its size if omitted.", TimeUnit),
        "sanitized_users": boolean(
            "Rows of buckets: whether users are percent-encoded, as metrics of Kafka have them."
        ),
    }
    schema = closed("What the columns of a table with usage are: the file for --mapping.", fields, required=["columns"])
    return titled("columns of a table with usage", schema), {}


_COLUMNS = {
    "ts": "The time.",
    "cluster": "The name of the cluster.",
    "broker": "The broker.",
    "metric": "The name of the metric.",
    "value": "The value of the metric.",
    "labels": "All labels of the metric: a map, pairs, or JSON.",
    "key": "The quota key, or the type of the quota: Produce, Fetch, Request, ControllerMutation.",
    "rate": "The rate.",
    "throttle_ms": "The average delay of throttled requests.",
    "window_s": "How many seconds up to the time the rate covers.",
    "user": "The user.",
    "client_id": "The client-id.",
    "ip": "The address.",
    "instance": "Which of several clients with these names measured itself, in rows without a broker.",
}
