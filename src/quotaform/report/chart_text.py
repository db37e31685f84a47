"""A chart without pictures: how buckets, keys, values and times are named, its numbers as tables, and the page around
both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape as escaped
from re import compile as regex
from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.moment import duration_text
from quotaform.model.printable import printable
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, shorten_middle
from quotaform.model.units import is_decimal, is_unlimited, render_measured, render_value
from quotaform.report.chart import (
    BacktestPart,
    Bucket,
    Chart,
    HeadroomPart,
    LimitPart,
    Part,
    ReplayPart,
    ThrottledTime,
    UsedLimit,
)


def bucket_label(bucket: Bucket, longest: int, *, rows: Sequence[Bucket]) -> str:
    """Return the name of a bucket among others, in at most so many characters: what is the same of all is left out.

    >>> from dataclasses import replace
    >>> alice = Bucket(cluster="prod", broker="1", key="producer_byte_rate", address="user=alice")
    >>> bucket_label(alice, 40, rows=[alice]), bucket_label(alice, 40, rows=[alice, replace(alice, broker="2")])
    ('user=alice', 'user=alice (broker 1)')
    """
    parts = []
    if len({each.key for each in rows}) > 1:
        parts.append(inert(bucket.key))
    if len({each.cluster for each in rows}) > 1:
        parts.append(spell_name(bucket.cluster or "unknown cluster"))
    if len({each.broker for each in rows}) > 1 and bucket.broker is not None:
        parts.append(f"broker {inert(bucket.broker)}")
    address = inert(bucket.address)
    where = shorten_middle(f" ({', '.join(parts)})" if parts else "", max(longest * 3 // 5, longest - len(address)))
    return shorten_middle(address, longest - len(where)) + where


def bucket_place(bucket: Bucket) -> str:
    """Return where the limit of a bucket holds.

    >>> bucket_place(Bucket(cluster="prod", broker="1", key="producer_byte_rate", address="user=alice"))
    'cluster prod, broker 1'
    """
    cluster = f"cluster {spell_name(bucket.cluster)}" if bucket.cluster is not None else "unknown cluster"
    return cluster if bucket.broker is None else f"{cluster}, broker {inert(bucket.broker)}"


def key_heading(key: str) -> tuple[str, str]:
    """Return a quota key, and what it limits.

    >>> key_heading("controller_mutation_rate")
    ('controller_mutation_rate', 'Partitions created or deleted per second, per cluster')
    """
    known = QUOTA_KEYS.get(key)
    return inert(key), "" if known is None else f"{known.limits}, per {known.per}"


def value_text(key: str, value: float | None) -> str:
    """Return the limit of a bucket, exact where few digits are.

    >>> value_text("producer_byte_rate", 5e6), value_text("producer_byte_rate", 12345678.0)
    ('5 MB/s', '11.8 MiB/s')
    """
    known = QUOTA_KEYS.get(key)
    if value is None or is_unlimited(known, value):
        return "unlimited"
    exact = render_value(known, value)
    return render_measured(known, value) if "[" in exact or len(exact) > 12 else exact


def rate_text(key: str, value: float, limit: float | None = None) -> str:
    """Return a measured rate, in the units of the limit with which it is compared.

    >>> rate_text("producer_byte_rate", 12345678.0), rate_text("producer_byte_rate", 12345678.0, 10e6)
    ('11.8 MiB/s', '12.3 MB/s')
    """
    known = QUOTA_KEYS.get(key)
    return render_measured(known, value, decimal=is_decimal(known, limit))


def span_text(seconds: float) -> str:
    """Return how long something lasted; a dash for no time at all.

    >>> span_text(0.0), span_text(0.4), span_text(3725.0)
    ('-', '<1s', '1h 2m')
    """
    if seconds <= 0:
        return "-"
    return duration_text(timedelta(seconds=seconds)) if seconds >= 1 else "<1s"


def used_text(row: UsedLimit, decimals: int = 0) -> str:
    """Return which share of its limit a bucket used; behind ≤ if the recording is too coarse to tell."""
    return f"{'≤ ' if row.is_coarse else ''}{100 * row.used:,.{decimals}f}%"


def minute_text(at: datetime | None) -> str:
    """Return a time as tables have it, in UTC: to the minute.

    >>> minute_text(datetime(2026, 11, 20, 9, 12, 44, tzinfo=UTC)), minute_text(None)
    ('2026-11-20 09:12', '-')
    """
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


MOST_TIMES = 50
"""How many times of throttling are listed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        caption: What it is about.
        columns: The names of the columns; those that begin with `#` are of numbers, with `@` of times.
        more: What is not in it, in a sentence.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""


_BUCKET = ("bucket", "cluster", "broker")


def chart_table(part: Part) -> Table:
    """Return the table of a part."""
    if isinstance(part, HeadroomPart):
        return _headroom_table(part)
    if isinstance(part, BacktestPart):
        return _backtest_table(part)
    if isinstance(part, ReplayPart):
        return _replay_table(part)
    return _limit_table(part)


def _bucket(bucket: Bucket, brokers: int = 1) -> tuple[str, str, str]:
    broker = "-" if bucket.broker is None else inert(bucket.broker)
    if brokers > 1:
        broker = f"{broker} (the closest of {brokers:,})"
    return inert(bucket.address), "-" if bucket.cluster is None else spell_name(bucket.cluster), broker


def _headroom_table(part: HeadroomPart) -> Table:
    name, about = key_heading(part.key)
    columns = (*_BUCKET, "#limit", "#p50", "#p95", "#p99", "#highest", "#p99 of the limit", "#throttled", "#recorded")
    rows = tuple(
        (
            *_bucket(row.bucket, row.brokers),
            value_text(part.key, row.limit),
            *(rate_text(part.key, each, row.limit) for each in (row.p50, row.p95, row.p99, row.max)),
            used_text(row, 1),
            span_text(row.throttled_s),
            span_text(row.recorded_s),
        )
        for row in part.rows
    )
    more = f"{part.left_out:,} more are further from their limits." if part.left_out else ""
    return Table(f"{name}: {about}" if about else name, columns, rows, more)


def _backtest_table(part: BacktestPart) -> Table:
    columns = (
        *_BUCKET, "key", "#limit before", "#limit after", "#throttled", "#lower bound", "#upper bound", "#longest wait",
        "#recorded", "#demand hidden", "@first", "@last",
    )  # fmt: skip
    more = f"{part.left_out:,} more would have been throttled for less time, or not at all." if part.left_out else ""
    return Table("Time throttled under the plan", columns, tuple(map(_throttled_row, part.rows)), more)


def _throttled_row(row: ThrottledTime) -> tuple[str, ...]:
    key = row.bucket.key
    return (
        *_bucket(row.bucket),
        inert(key),
        value_text(key, row.before_limit),
        value_text(key, row.limit),
        *(
            span_text(each) if each is not None else "unknown"
            for each in (row.throttled_s, row.low_s, row.high_s, row.delay_s, row.recorded_s, row.hidden_s)
        ),
        minute_text(row.first),
        minute_text(row.last),
    )


def _replay_table(part: ReplayPart) -> Table:
    bucket = part.row.bucket
    address, cluster, broker = _bucket(bucket)
    spans = part.throttled[:MOST_TIMES]
    left_out = len(part.throttled) - len(spans)
    return Table(
        f"{address}, {inert(bucket.key)}, cluster {cluster}, broker {broker}: when it would have been throttled",
        ("@from", "@to", "#for"),
        tuple(
            (minute_text(span.start), minute_text(span.end), span_text((span.end - span.start).total_seconds()))
            for span in spans
        ),
        f"{left_out:,} more times." if left_out else "" if spans else "Never.",
    )


def _limit_table(part: LimitPart) -> Table:
    return Table(
        f"{inert(part.address)}, {inert(part.key)}, cluster {spell_name(part.cluster)}",
        ("#limit", "@from", "@to", "set by"),
        tuple(
            (
                value_text(part.key, limit.value),
                minute_text(limit.start),
                "now" if limit.end is None else minute_text(limit.end),
                inert(limit.changed_by) if limit.changed_by else "-",
            )
            for limit in part.limits
        ),
    )


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
