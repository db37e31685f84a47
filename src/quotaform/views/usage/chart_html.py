"""A chart as one page in HTML that needs nothing else: pictures in SVG, each with a table of its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape as escaped
from re import compile as regex
from typing import Final

from quotaform.core.usage.chart.chart import Chart
from quotaform.core.usage.chart.chart_table import Table, chart_table
from quotaform.printable import printable

_STYLE: Final = """\
:root { color-scheme: light dark; }
body { margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem; font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
.about { opacity: .75; margin: 0; }
figure { margin: 2rem 0; }
figure > svg { display: block; width: 100%; height: auto; background: #fff; border-radius: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .75rem 0 0; font-size: .8rem; min-width: 40%; }
caption { text-align: left; font-weight: 600; padding-bottom: .25rem; overflow-wrap: anywhere; }
th, td { text-align: left; padding: .2rem .45rem; border-bottom: 1px solid #8886; }
th { font-weight: 600; vertical-align: bottom; }
td:first-child { overflow-wrap: anywhere; min-width: 8rem; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.time { white-space: nowrap; }
@media print {
  :root { color-scheme: light; }
  body { margin: 0; max-width: none; font-size: 10pt; }
  figure > svg, tr { break-inside: avoid; }
  figure { margin: 1rem 0; }
  table { font-size: 7pt; }
  .scroll { overflow: visible; }
}
@page { size: A4 landscape; margin: 12mm; }
"""

_CLASSES: Final = {"#": ' class="number"', "@": ' class="time"'}
_GROUP: Final = regex(r'<g id="[^"]*">')
_SIZE: Final = regex(
    r'(<svg [^>]*?) height="[^"]*"([^>]*?) width="[^"]*"|(<svg [^>]*?) width="[^"]*"([^>]*?) height="[^"]*"'
)


def render_chart_html(chart: Chart, pictures: Sequence[str]) -> str:
    """Return the page. `pictures` is a document in SVG of each part."""
    return "".join(_page(chart, pictures))


def _page(chart: Chart, pictures: Sequence[str]) -> Iterator[str]:
    title = _escape(chart.title)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width">\n'
    yield f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    for line in chart.about:
        yield f'<p class="about">{_escape(line)}</p>\n'
    for part, picture in zip(chart.parts, pictures, strict=True):
        table = chart_table(part)
        yield f"<figure>\n{_inline(picture, table.caption)}\n"
        yield from _table(table)
        yield "</figure>\n"
    for line in chart.notes if chart.parts else (chart.nothing, *chart.notes):
        yield f"<p>{_escape(line)}</p>\n"
    yield "</body>\n</html>\n"


def _escape(text: str) -> str:
    """Return a text as HTML; what could change the direction of others is spelled."""
    return escaped(printable(text))


def _inline(picture: str, about: str) -> str:
    """Return a document in SVG as an element; ids of groups go, since several pictures have the same ones."""
    element = _GROUP.sub("<g>", picture[picture.index("<svg ") :].rstrip())
    element = _SIZE.sub(lambda found: "".join(part for part in found.groups() if part), element, count=1)
    return element.replace("<svg ", f'<svg role="img" aria-label="{_escape(about)}" ', 1)


def _table(table: Table) -> Iterator[str]:
    classes = [_CLASSES.get(column[0], "") for column in table.columns]
    yield f'<div class="scroll"><table>\n<caption>{_escape(table.caption)}</caption>\n<thead><tr>'
    for name, attribute in zip(table.columns, classes, strict=True):
        yield f'<th scope="col"{attribute}>{_escape(name.lstrip("#@"))}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in table.rows:
        cells = (f"<td{attribute}>{_escape(cell)}</td>" for cell, attribute in zip(row, classes, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody>\n</table></div>\n"
    if table.more:
        yield f"<p>{_escape(table.more)}</p>\n"
