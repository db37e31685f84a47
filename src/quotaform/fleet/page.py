"""The report of a run over many clusters as a page."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.fleet.fleet_report import COMMANDS, FleetReport, FleetRow
from quotaform.fleet.report import STATUS_WORDS, cluster_names, count_words, oldest_words, run_problems, status_words
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.plan.report import TITLE, affected_text, source_text
from quotaform.report.html import render_html
from quotaform.report.report import Bar, Cell, Number, Report, Section, Table
from quotaform.report.text import counted


def render_fleet_report_html(report: FleetReport) -> Iterator[str]:
    """Yield the page: a row for each cluster, the most severe status first, what blocks, and errors."""
    counts = COMMANDS[report.command].counts
    names = tuple(name.replace("_", " ") for name in counts)
    most = max((row.differences for row in report.rows), default=0) or 1
    clusters = tuple(_row(row, counts, most) for row in report.by_severity())
    blocked = tuple(
        (each.rule, Number(*_number(each.clusters)), cluster_names(each.clusters)) for each in report.blocked
    )
    errors = tuple(
        (inert(each.head), Number(*_number(each.clusters)), cluster_names(each.clusters)) for each in report.errors
    )
    tables = (
        Table("Clusters", ("cluster", "status", "differences", "chart", *names, "why"), clusters),
        Table("Blocked by", ("rule", "clusters", "names"), blocked),
        Table("Errors", ("error", "clusters", "names"), errors),
    )
    about = [f"Clusters: {status_words(report)}", f"Entities: {count_words(report.totals)}"]
    about += [] if report.oldest is None else [f"Oldest snapshot: {oldest_words(report.oldest)}"]
    if (radius := report.blast_radius) is not None:
        about.append(f"{TITLE}: {affected_text(radius, inert(source_text(radius)))}")
    page = Report(
        title=f"Kafka quota {report.command} for {counted(len(report.rows), 'cluster')}",
        about=(*run_problems(report), *about),
        sections=tuple(Section(table) for table in tables if table.rows),
        nothing="No cluster was reached.",
    )
    return render_html(page)


def _number(clusters: tuple[str, ...]) -> tuple[str, float]:
    return f"{len(clusters):,}", float(len(clusters))


def _row(row: FleetRow, counts: tuple[str, ...], most: int) -> tuple[Cell, ...]:
    found = row.entities or {}
    numbers = (Number(f"{found[name]:,}", found[name]) if name in found else Number("-", -1.0) for name in counts)
    why = ", ".join(row.rules) if row.error is None else inert(row.error.message)
    bar = Bar(value=row.differences, scale=most, is_severe=row.error is not None or bool(row.rules))
    return (
        spell_name(row.cluster),
        STATUS_WORDS[row.status],
        Number(f"{row.differences:,}", row.differences),
        bar,
        *numbers,
        why or "-",
    )
