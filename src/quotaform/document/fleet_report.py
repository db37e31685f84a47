"""The JSON of a report of a run over many clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quotaform.core.blast_radius import RadiusCounts
from quotaform.core.fleet_report import FleetReport, FleetRow
from quotaform.document.blast_radius import dump_radius_counts
from quotaform.document.envelope import document_lines, envelope
from quotaform.errors import QuotaformError
from quotaform.model.document_kind import FLEET_REPORT

_LISTS: Final = frozenset({"blocked", "errors", "largest", "rows"})
_LONGEST_ERROR: Final = 2_000
"""An error of the files as a whole is that of every cluster."""


def fleet_report_lines(report: FleetReport) -> Iterator[str]:
    """Yield a report as JSON, with one line per cluster."""
    oldest = report.oldest
    fields = {
        "command": report.command,
        "interrupted": report.is_interrupted,
        "error": _dump_error(report.error),
        "clusters": {"total": len(report.rows), **_dump_statuses(report)},
        "entities": dict(report.totals),
        "oldest_snapshot": None if oldest is None else {"cluster": oldest.cluster, "captured_at": oldest.read_at},
        "blocked": [{"rule": each.rule, "clusters": list(each.clusters)} for each in report.blocked],
        "errors": [{**_error(each.error), "clusters": list(each.clusters)} for each in report.errors],
        "largest": [{"cluster": row.cluster, "differences": row.differences} for row in report.largest],
        **_dump_radius(report.blast_radius),
        "rows": map(_dump_row, report.rows),
    }
    return document_lines(envelope(FLEET_REPORT, fields).items(), _LISTS)


def _dump_statuses(report: FleetReport) -> dict[str, int]:
    return {status.value.replace("-", "_"): count for status, count in report.statuses.items()}


def _dump_row(row: FleetRow) -> dict[str, Any]:
    return {
        "cluster": row.cluster,
        "id": row.cluster_id,
        "status": row.status.value,
        "read_at": row.read_at,
        "snapshot": row.is_snapshot,
        "entities": dict(row.counts) if row.error is None else None,
        "differences": row.differences,
        "blocked_by": list(row.rules),
        **_dump_radius(row.blast_radius),
        "error": _dump_error(row.error),
    }


def _dump_radius(radius: RadiusCounts | None) -> dict[str, Any]:
    return {} if radius is None else {"blast_radius": dump_radius_counts(radius)}


def _dump_error(error: QuotaformError | None) -> dict[str, Any] | None:
    return None if error is None else _error(error)


def _error(error: QuotaformError) -> dict[str, Any]:
    return {"type": type(error).__name__, "exit_code": error.exit_code, "message": str(error)[:_LONGEST_ERROR]}
