"""A report as one HTML page: a file without requests, which can be searched, sorted and printed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import escape
from importlib.resources import files
from json import dumps
from math import floor, isfinite, log10
from typing import Final
from urllib.parse import quote

from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import printable, shorten_middle
from quotaform.model.units import is_decimal, measuring_unit
from quotaform.report.finding import findings_table
from quotaform.report.report import Bar, Cell, Coloured, Number, Plot, Report, Section, Table
from quotaform.report.text import counted, short_limit_text

_LONGEST: Final = 300
"""Characters of a text; more are left out in its middle."""

_WIDTH, _HEIGHT = 960, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 915, 8, 215
"""The place of a plot in its picture."""
_BAR: Final = 144
_FAR: Final = 3.0
"""A limit that is so many times the highest value is not on the scale, where the values would be a flat line."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TIME_STEPS: Final = (
    1, 5, 15, 30, *(_MINUTE * each for each in (1, 5, 10, 30)), *(_HOUR * each for each in (1, 3, 6, 12)),
    *(_DAY * each for each in (1, 2, 7, 14, 30, 90, 365, 3650)),
)  # fmt: skip


def render_html(report: Report) -> Iterator[str]:
    """Yield the page in pieces."""
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    name = f" {spell_name(report.name)}" if report.name else ""
    title = _text(f"{report.title}{name}{f': {report.state}' if report.state else ''}")
    found = (Section(findings_table(report.findings)),) if report.findings else ()
    sections = (*found, *report.sections)
    yield (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{title}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    )
    for line in (*report.about, *filter(None, (report.total,))):
        yield f'<p class="about">{_text(line)}</p>\n'
    number = sum(len(section.table.rows) for section in sections)
    if number:
        yield (
            '<p class="tools"><label>Search <input type="search" autocomplete="off" spellcheck="false"></label> '
            f'<span role="status">{counted(number, "row")}</span></p>\n'
        )
    named: set[str] = set()
    for section in sections:
        yield from _section(section, named)
    for line in report.sentences:
        yield f"<p>{_text(line)}</p>\n"
    yield f"</main>\n<script>{script}</script>\n</body>\n</html>\n"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _text(text: str) -> str:
    """Return a text as HTML; what could change the direction of others is spelled."""
    return escape(shorten_middle(printable(text), _LONGEST))


def _section(section: Section, named: set[str]) -> Iterator[str]:
    table = section.table
    yield f"<details open>\n<summary>{_text(table.caption)}</summary>\n"
    yield from (f"<p>{_text(each)}</p>\n" for each in section.sentences)
    for plot in section.plots:
        yield from _figure(plot)
    if table.rows:
        yield from _table(table, named)
    if (left := table.total - len(table.rows)) > 0:
        yield f"<p>{_text(f'And {left:,} more. {table.hint}')}</p>\n"
    yield from (f"<p>{_text(each)}</p>\n" for each in filter(None, (table.more, *section.notes)))
    yield "</details>\n"


def _table(table: Table, named: set[str]) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(table.caption)}"><table>\n<thead><tr>'
    for column, cell in zip(table.columns, table.rows[0], strict=True):
        name = column if isinstance(column, str) else column.name
        kind = ' class="number"' if isinstance(cell, Number) else ""
        yield f'<th scope="col"{kind}><button type="button">{_text(name)}</button></th>'
    yield "</tr></thead>\n<tbody>\n"
    for first, *cells in table.rows:
        text = str(first)
        place = quote(shorten_middle(text, _LONGEST), safe="=,@.:-_")
        if place in named:
            yield f'<tr><th scope="row">{_text(text)}</th>'
        else:
            named.add(place)
            yield f'<tr id="{place}"><th scope="row"><a href="#{quote(place)}">{_text(text)}</a></th>'
        yield f"{''.join(map(_cell, cells))}</tr>\n"
    yield "</tbody>\n</table></div>\n"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return f'<td data-value="{_sortable(cell.value)}">{_bar(cell)}</td>'
    if isinstance(cell, Number):
        return f'<td class="number" data-value="{_sortable(cell.value)}">{_text(cell.text)}</td>'
    return f"<td>{_text(cell.text if isinstance(cell, Coloured) else cell)}</td>"


def _sortable(value: float) -> str:
    """Return a number as a script reads it; other values come last."""
    return f"{value if isfinite(value) else 1e308:.9g}"


def _bar(bar: Bar) -> str:
    def x(value: float) -> float:
        share = value / bar.scale
        return round(min(max(share, 0.0), 1.0) * (_BAR - 2), 1) if isfinite(share) else 0.0

    kind = "severe" if bar.is_severe else "value"
    shapes = [f'<rect class="{kind}" x="0" y="3" width="{x(bar.value)}" height="10"/>']
    if bar.high is not None:
        low = x(bar.low or 0.0)
        shapes.append(f'<rect class="bounds" x="{low}" y="3" width="{x(bar.high) - low:.1f}" height="10"/>')
    if bar.mark is not None:
        shapes.append(f'<line class="mark" x1="{x(bar.mark)}" x2="{x(bar.mark)}" y1="0" y2="16"/>')
    return f'<svg class="bar" viewBox="0 0 {_BAR} 16" aria-hidden="true">{"".join(shapes)}</svg>'


def _figure(plot: Plot) -> Iterator[str]:
    values = list(plot.curve.values)
    highest = max(values, default=0.0)
    near = [limit for limit in plot.limits if not highest or limit.value <= _FAR * highest]
    end = 1.1 * max([highest, *(limit.value for limit in near)]) or 1.0
    key = None if plot.key is None else QUOTA_KEYS.get(plot.key)
    decimal = any(is_decimal(key, limit.value) for limit in plot.limits)
    size, unit = (1, "ms") if plot.key is None else measuring_unit(key, end, decimal=decimal)
    first, last = plot.start, max(plot.end, plot.start + timedelta(seconds=1))

    def x(at: datetime) -> float:
        share = (min(max(at, first), last) - first) / (last - first)
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(value: float) -> float:
        return round(_BOTTOM - value / end * (_BOTTOM - _TOP), 1)

    # How marked times are drawn: their places, measured from the upper edge.
    bands = (
        ("band", plot.severe[1], _TOP, _BOTTOM),
        ("severe", plot.severe[1], _BOTTOM - 6, _BOTTOM),
        ("bounds", plot.possible[1], _BOTTOM - 12, _BOTTOM),
    )
    shapes = [
        f'<rect class="{kind}" x="{x(span.start)}" y="{top}" width="{max(1.0, x(span.end) - x(span.start)):.1f}" '
        f'height="{bottom - top}"/>'
        for kind, spans, top, bottom in bands
        for span in spans
    ]
    for value in _round_numbers(end / size):
        at = y(value * size)
        shapes.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{at}" y2="{at}"/>')
        shapes.append(f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{value:,.10g}</text>')
    shapes += [
        f'<text x="{x(at)}" y="{_HEIGHT - 8}" text-anchor="middle">{text}</text>' for at, text in _times(first, last)
    ]
    names = list(dict.fromkeys(limit.name for limit in near))
    for limit in near:
        kind = "limit" if names.index(limit.name) == 0 else "limit limit1"
        at = y(limit.value)
        shapes.append(
            f'<line class="{kind}" x1="{x(limit.start or first)}" x2="{x(limit.end or last)}" y1="{at}" y2="{at}"/>'
        )
    for piece in plot.curve.pieces():
        points = [(x(at), y(value)) for at, value in piece]
        points += [(points[0][0] + 1, points[0][1])] if len(points) == 1 else []
        shapes.append(f'<polyline class="rate" points="{" ".join(f"{a},{b}" for a, b in points)}"/>')
    data = ""
    if values:
        shapes.append(f'<line class="cursor" x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{_BOTTOM}"/>')
        pairs = zip(plot.curve.times, values, strict=True)
        found = {
            "points": [(round(at.timestamp()), float(f"{value:.6g}")) for at, value in pairs],
            "left": _LEFT, "right": _RIGHT, "from": first.timestamp(), "to": last.timestamp(),
            "size": size, "unit": unit,
        }  # fmt: skip
        data = f' tabindex="0" data-plot="{escape(dumps(found, separators=(",", ":")))}"'
    caption = _text(plot.caption)
    yield f'<figure>\n<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{caption}"{data}>'
    yield f"{''.join(shapes)}</svg>\n"
    legend = _text("; ".join(_legend(plot, unit, end)))
    yield f"<output></output>\n<figcaption>{caption}. {legend}.</figcaption>\n</figure>\n"


def _legend(plot: Plot, unit: str, end: float) -> Iterator[str]:
    """Yield what is drawn how, and what is above the end of the scale."""
    if plot.curve.times:
        yield f"Line: {plot.name}, {unit}"
    styles = iter(("solid", "dashed"))
    for name in dict.fromkeys(limit.name for limit in plot.limits):
        values = {limit.value for limit in plot.limits if limit.name == name}
        style = next(styles, "dashed") if min(values) <= end else "above the scale"
        value = f", {short_limit_text(plot.key or '', values.pop())}" if len(values) == 1 else ""
        yield f"{style}: {name}{value}"
    for words, style in ((plot.severe, "orange"), (plot.possible, "dotted frame")):
        if words[1]:
            yield f"{style}: {words[0]}"
    yield "times are in UTC"


def _round_numbers(end: float) -> list[float]:
    """Return some round numbers from 0 on.

    >>> _round_numbers(22.0)
    [0.0, 5.0, 10.0, 15.0, 20.0]
    """
    power = 10.0 ** floor(log10(end / 5))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= end / 5)
    return [step * index for index in range(int(end / step) + 1)]


def _times(first: datetime, last: datetime) -> Iterator[tuple[datetime, str]]:
    """Yield round times, and how they are written."""
    start, end = first.timestamp(), last.timestamp()
    step = next((each for each in _TIME_STEPS if (end - start) / each <= 8), _TIME_STEPS[-1])
    at = -(-start // step) * step
    while at <= end:
        moment = datetime.fromtimestamp(at, UTC)
        is_day = step >= _DAY or at % _DAY == 0
        yield moment, f"{moment:%Y-%m-%d}" if is_day else f"{moment:%H:%M}" if step >= _MINUTE else f"{moment:%H:%M:%S}"
        at += step
