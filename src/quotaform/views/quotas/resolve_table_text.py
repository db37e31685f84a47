"""What a table of resolved limits amounts to, as text."""

from __future__ import annotations

from collections.abc import Iterator

from quotaform.core.resolve.table_report import TableReport
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.views.quotas.resolve_text import header_text
from quotaform.views.style import PLAIN, Style


def render_resolve_table(report: TableReport, style: Style = PLAIN) -> str:
    """Return the text: what was resolved, where the rows are, and how many of them limit anything."""
    return "".join(f"{line}\n" for line in _lines(report, style))


def _lines(report: TableReport, style: Style) -> Iterator[str]:
    yield header_text(report.header, style)
    people = [f"{report.clients:,} client{'' if report.clients == 1 else 's'}"] if report.clients else []
    people += [f"{report.ips:,} address{'' if report.ips == 1 else 'es'}"] if report.ips else []
    rows = f"{report.rows:,} row{'' if report.rows == 1 else 's'}"
    yield f"Resolved {' and '.join(people)}: {rows} in {inert(report.target)}"
    if not report.keys:
        return
    yield ""
    has_changes = any(each.changed is not None for each in report.keys)
    headings = ["key", "limited", "unlimited", *(["changed"] if has_changes else [])]
    cells = [
        [
            spell_name(each.key),
            *(f"{number:,}" for number in (each.limited, each.unlimited, each.changed) if number is not None),
        ]
        for each in report.keys
    ]
    widths = [max(len(line[column]) for line in (headings, *cells)) for column in range(len(headings))]
    for line in (headings, *cells):
        first, *others = zip(line, widths, strict=True)
        yield f"  {first[0]:<{first[1]}}" + "".join(f"  {text:>{width}}" for text, width in others)
