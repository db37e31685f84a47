"""The JSON of what comes into a usage table: by an ingest, a stream or a recording."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quotaform.core.usage.ingest import Ingested
from quotaform.core.usage.record.recording import RecordedSource, Recording
from quotaform.core.usage.stream import Streamed
from quotaform.document.envelope import envelope, indented
from quotaform.model.document_kind import USAGE_INGEST, USAGE_RECORD, USAGE_STREAM
from quotaform.model.moment import spell_moment


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
