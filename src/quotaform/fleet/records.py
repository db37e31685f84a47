"""The JSON document of a fleet report, and its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quotaform.fleet.fleet_report import COMMANDS, FleetReport, FleetRow, FleetStatus
from quotaform.model.errors import QuotaformError
from quotaform.model.records.document import FLEET_REPORT, document_lines, envelope
from quotaform.model.records.schema import (
    Node,
    boolean,
    choice,
    count,
    document,
    items,
    mapping,
    maybe,
    maybe_text,
    record,
    record_definitions,
    ref,
    text,
)
from quotaform.plan.blast_radius import RadiusCounts
from quotaform.plan.records import RadiusCountsRecord, dump_radius_counts

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


def fleet_report() -> tuple[Node, dict[str, Node]]:
    """Return the schema of fleet reports and its definitions."""
    schema = document(
        FLEET_REPORT,
        "What a run over clusters amounts to, as plan, drift and apply write it with --report.",
        {
            "command": choice("The command.", COMMANDS),
            "interrupted": boolean("Whether the run was interrupted; the report is what was known then."),
            "error": maybe(ref("error"), "What ended the run as a whole; null if nothing did."),
            "clusters": mapping(
                "The number of clusters: in total, and per status (with _ for -).",
                count("A number of clusters."),
                {"total": 12},
            ),
            "entities": ref("entities", "The number of entities on all clusters together."),
            "oldest_snapshot": maybe(
                record(
                    "The oldest snapshot that was read.",
                    {"cluster": _cluster(), "captured_at": text("When it was captured.", "2026-11-20T09:12:44Z")},
                ),
                "Null if no snapshot was read in the place of a cluster, or none says when it was captured.",
            ),
            "blocked": items(
                "What blocks clusters, the rule with the most clusters first.",
                record("A rule.", {"rule": text("The rule.", "delete"), "clusters": _clusters()}),
            ),
            "errors": items(
                "Errors that differ only in names of clusters and servers and in numbers, the most frequent first.",
                ref("error_group"),
            ),
            "largest": items(
                "The clusters with the most differences; at most 10.",
                record("A cluster.", {"cluster": _cluster(), "differences": _differences()}),
                maxItems=10,
            ),
            "blast_radius": ref(
                "radius_counts", "That of all clusters together: a principal counts on each. Omitted if not asked for."
            ),
            "rows": items("One item per cluster, in the order of the run.", ref("row")),
        },
        optional=("blast_radius",),
    )
    return schema, _definitions()


def _definitions() -> dict[str, Node]:
    error = {
        "type": text("The kind of error.", "ConnectError"),
        "exit_code": {"description": "The exit code of this error alone.", "type": "integer"},
        "message": text("The error and its remedy."),
    }
    row = record(
        "What became of one cluster.",
        {
            "cluster": _cluster(),
            "id": maybe_text("The id that it gave itself; null after an error."),
            "status": choice("What became of it.", (each.value for each in FleetStatus)),
            "read_at": maybe_text("When it or its snapshot was read; null after an error, and of an apply."),
            "snapshot": boolean("Whether a snapshot was read in its place."),
            "entities": maybe(ref("entities"), "The number of entities; null after an error."),
            "differences": _differences(),
            "blocked_by": items("The rules that block it.", text("A rule.", "delete")),
            "blast_radius": ref("radius_counts", "That of its plan. Omitted if not asked for, or without a plan."),
            "error": maybe(ref("error"), "Why there is no result; null if there is one."),
        },
        optional=("blast_radius",),
    )
    return {
        "error": record("An error.", error),
        "error_group": record("An error.", {**error, "clusters": _clusters()}),
        "entities": mapping(
            "The number of entities of each kind that the command counts.", count("A number of entities.")
        ),
        "row": row,
        **record_definitions(RadiusCountsRecord),
    }


def _cluster() -> Node:
    return text("The name of the cluster.", "prod-eu")


def _clusters() -> Node:
    return items("The names of the clusters.", _cluster(), minItems=1)


def _differences() -> Node:
    return count("The number of entities to change, or that differ, or that were to be changed.")
