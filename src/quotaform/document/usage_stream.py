"""The JSON of what a run of a stream has done."""

from __future__ import annotations

from quotaform.core.usage.stream import Streamed
from quotaform.document.envelope import envelope, indented
from quotaform.model.document_kind import USAGE_STREAM


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
