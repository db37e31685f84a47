"""The JSON of recordings."""

from __future__ import annotations

from typing import Any

from quotaform.core.usage.record.recording import RecordedSource, Recording
from quotaform.document.envelope import envelope, indented
from quotaform.model.document_kind import USAGE_RECORD
from quotaform.model.moment import spell_moment


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
