"""Drift as a page."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.drift.drift import Drift, Drifted, Pending
from quotaform.drift.report import drift_line
from quotaform.model.entity import spell_name
from quotaform.model.quotas import Change
from quotaform.model.text import inert
from quotaform.plan.page import findings_sections, value_bar, value_cell
from quotaform.report.html import render_html
from quotaform.report.report import Cell, Report, Section, Table
from quotaform.report.text import cluster_text, reading_text

_COLUMNS = ("entity", "what", "key", "on the cluster", "in the files", "agreed", "chart", "owner", "place")


def render_drift_html(drift: Drift) -> Iterator[str]:
    """Yield what differs, what is pending and what is ignored, a row for each value, as a page."""
    drifted = tuple(row for each in drift.entities for row in _rows(each, each.drift_class.value))
    pending = tuple(row for each in drift.pending for row in _rows(each, each.action.value))
    ignored = tuple(row for each in drift.ignored for row in _rows(each, f"until {each.expires}"))
    tables = (
        ("Drift", drifted),
        ("Pending: in the files and not applied yet", pending),
        ("Ignored: listed in drift_ignore", ignored),
    )
    cluster = cluster_text(drift.cluster_name, drift.cluster_id, drift.options.bootstrap_server)
    report = Report(
        title=f"Kafka quota drift of {spell_name(drift.cluster_name)}",
        about=(f"Cluster {cluster}, {reading_text(drift.read_at, drift.snapshot)}", drift_line(drift)),
        sections=(
            *findings_sections(drift.findings),
            *(Section(Table(title, _COLUMNS, rows)) for title, rows in tables if rows),
        ),
        nothing=drift_line(drift),
    )
    return render_html(report)


def _rows(each: Drifted | Pending, what: str) -> Iterator[tuple[Cell, ...]]:
    for row in each.keys:
        agreed = row.actual if isinstance(each, Pending) else row.agreed
        values = (value_cell(row.key, value) for value in (row.actual, row.desired, agreed))
        bar = value_bar(Change(each.entity, row.key, row.actual, row.desired))
        about = (inert(each.owner or "-"), str(each.location or "-"))
        yield (each.address, what, spell_name(row.key), *values, bar, *about)
