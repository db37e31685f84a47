"""A report as text for terminals."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.report.finding import render_findings
from quotaform.report.markdown import shown_columns
from quotaform.report.report import Coloured, ColumnKind, Report, Table, cell_text
from quotaform.report.text import PLAIN, Style, aligned

_MOST_ROWS = 500
_MOST_FOLDED = 30


def render_text(report: Report, style: Style = PLAIN) -> Iterator[str]:
    """Yield a report line by line; the last one is the summary."""
    return (f"{line}\n" for line in _lines(report, style))


def _lines(report: Report, style: Style) -> Iterator[str]:
    yield from report.about
    if report.findings:
        yield from ("", *render_findings(report.findings, style))
    for section in report.sections:
        yield from ("", style.paint(f"{section.table.caption}:", "bold"), *section.sentences)
        yield from (*_table_lines(section.table, style), *filter(None, (section.table.more,)), *section.notes)
    if report.sentences:
        yield ""
    yield from report.sentences
    if report.total:
        yield from ("", style.paint(report.total, "bold"))


def _table_lines(found: Table, style: Style) -> Iterator[str]:
    columns, rows = shown_columns(found, _MOST_FOLDED if found.is_folded else _MOST_ROWS)
    in_line = [place for place, column in enumerate(columns) if column.kind is not ColumnKind.DETAIL]
    cells = [[row[place] for place in in_line] for row in rows]
    titles = [columns[place].name.upper() for place in in_line]
    head, *lines = aligned([titles, *([*map(cell_text, row)] for row in cells)])
    yield style.paint(f"  {head}", "dim")
    for row, shown, line in zip(rows, cells, lines, strict=True):
        colour = next((cell.colour for cell in shown if isinstance(cell, Coloured) and cell.colour), None)
        yield style.paint(f"  {line}", colour) if colour else f"  {line}"
        if found.is_folded:
            continue
        below = [cell_text(row[place]) for place, column in enumerate(columns) if column.kind is ColumnKind.DETAIL]
        yield from (style.paint(f"    # {text}", "dim") for text in below if text)
    if left := max(found.total, len(found.rows)) - len(rows):
        yield f"  ... and {left:,} more. {found.hint}".rstrip()
