"""The JSON of what became of an ingest."""

from __future__ import annotations

from datetime import datetime

from quotaform.core.usage.ingest import Ingested
from quotaform.document.envelope import envelope, indented
from quotaform.model.document_kind import USAGE_INGEST
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
