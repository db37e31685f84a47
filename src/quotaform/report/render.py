"""A report as text for terminals, as Markdown, and as a page."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.report.html import render_html
from quotaform.report.markdown import cell_text, link, markdown_table, shown_columns, words
from quotaform.report.report import Coloured, ColumnKind, Report, Table
from quotaform.report.text import PLAIN, Style

_MOST_ROWS = 500
_MOST_FOLDED = 30


def render_report(
    report: Report, format_name: str, style: Style = PLAIN, *, run_url: str | None = None
) -> Iterator[str]:
    """Yield a report as `text`, `markdown` or `html`; Markdown with a heading ends with a link to the run of CI."""
    if format_name == "html":
        return render_html(report)
    return (
        _markdown(report, run_url) if format_name == "markdown" else (f"{line}\n" for line in text_lines(report, style))
    )


def text_lines(report: Report, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a report as text; the last one says what it comes to."""
    yield from report.about
    tables = [section.table for section in report.sections]
    for each in tables:
        yield from ("", style.paint(f"{each.caption}:", "bold"), *_table_lines(each, style))
    if report.sentences:
        yield ""
    yield from report.sentences
    if report.total:
        yield from ("", style.paint(report.total, "bold"))


def _table_lines(found: Table, style: Style) -> Iterator[str]:
    columns, rows = shown_columns(found, _MOST_FOLDED if found.is_folded else _MOST_ROWS)
    in_line = [place for place, column in enumerate(columns) if column.kind is not ColumnKind.DETAIL]
    widths = [
        max(len(text) for text in (column.name, *(cell_text(row[place]) for row in rows)))
        for place, column in enumerate(columns)
    ]

    def line(texts: list[str]) -> str:
        padded = [text.ljust(widths[place]) for place, text in zip(in_line, texts, strict=True)]
        return f"  {'  '.join(padded).rstrip()}"

    yield style.paint(line([columns[place].name.upper() for place in in_line]), "dim")
    for row in rows:
        cells = [row[place] for place in in_line]
        colour = next((cell.colour for cell in cells if isinstance(cell, Coloured) and cell.colour), None)
        text = line([cell_text(cell) for cell in cells])
        yield style.paint(text, colour) if colour else text
        if found.is_folded:
            continue
        below = [cell_text(row[place]) for place, column in enumerate(columns) if column.kind is ColumnKind.DETAIL]
        yield from (style.paint(f"    # {text}", "dim") for text in below if text)
    if left := max(found.total, len(found.rows)) - len(rows):
        yield f"  ... and {left:,} more. {found.hint}".rstrip()


def _markdown(report: Report, run_url: str | None) -> Iterator[str]:
    if report.heading:
        yield f"### {words(report.heading)}\n\n"
    if report.total:
        yield f"**{words(report.total)}**\n\n"
    yield "".join(f"{words(line)}\n\n" for line in report.about)
    for section in report.sections:
        yield from markdown_table(section.table)
    yield "".join(f"- {words(line)}\n" for line in report.sentences)
    if report.heading and (run := link("run", run_url)) is not None:
        yield f"<sub>{run}</sub>\n"
