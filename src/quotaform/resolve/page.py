"""Resolved quotas as a page: for each request and key the entries that match it, from the one that applies down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited
from quotaform.report.html import render_html
from quotaform.report.report import Cell, Number, Report, Section, Table
from quotaform.resolve.effect import value_text
from quotaform.resolve.report import header_text, limit_text
from quotaform.resolve.request import shared_by
from quotaform.resolve.resolve import KeyResolution, Resolution, ResolveHeader

_COLUMNS = ("request", "key", "limit", "entry", "place", "level", "limit before the plan", "one rate for")


def render_resolve_html(
    resolutions: Iterable[Resolution], header: ResolveHeader, findings: Callable[[], list[Finding]]
) -> Iterator[str]:
    """Yield the page. `findings` returns the findings, once all requests are resolved."""
    rows = tuple(row for each in resolutions for key in each.keys for row in _ladder(each, key))
    found = findings()
    report = Report(
        title=f"Kafka quotas of requests on {spell_name(header.cluster_name)}",
        about=tuple(header_text(header).splitlines()),
        sections=(Section(Table("Entries that match, in order of precedence", _COLUMNS, rows)),) if rows else (),
        nothing="No key was resolved.",
        notes=tuple(f"{each.severity.value}: {inert(each.message)} [{each.rule}]" for each in found),
    )
    return render_html(report)


def _ladder(resolution: Resolution, row: KeyResolution) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each entry with the key, the one that applies first; one row if there is none."""
    asked, resolved = resolution.entity, row.resolved
    before = "-" if row.before is None else limit_text(row.key, row.before)
    first = (asked.address, spell_name(row.key))
    if not resolved.entries:
        yield (*first, Number("unlimited", float("inf")), "-", "no entry applies", Number("-", 0.0), before, "-")
    for place, entry in enumerate(resolved.entries):
        source, level, value = entry.source, entry.level, entry.value
        if source is None or level is None or value is None:
            continue
        shared = "-"
        if place == 0 and not is_unlimited(QUOTA_KEYS.get(row.key), value):
            shared = shared_by(level, asked)
        yield (
            *first, Number(value_text(row.key, value), value), source.address, "overridden" if place else "applies",
            Number(f"{level.number} {level.source}", float(level.number)), "-" if place else before, shared,
        )  # fmt: skip
