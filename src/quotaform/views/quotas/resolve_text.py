"""What limits requests, as text: per quota key the entries that hold it, by precedence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quotaform.core.resolve.bucket import shared_by
from quotaform.core.resolve.entry import Effective, Resolved
from quotaform.core.resolve.resolution import Detail, KeyResolution, Resolution, ResolveHeader, TableReport
from quotaform.model.entity import Entity, spell_name
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.text import inert
from quotaform.model.units import UNLIMITED, is_unlimited
from quotaform.views.finding.finding_text import render_findings
from quotaform.views.plan.effect_text import differs_text, size_and_direction, value_text
from quotaform.views.reading_text import reading_text
from quotaform.views.style import PLAIN, Style


def render_resolve(
    resolutions: Iterable[Resolution],
    header: ResolveHeader,
    findings: Callable[[], list[Finding]],
    style: Style = PLAIN,
) -> Iterator[str]:
    """Yield the text in pieces of whole lines, one per request.

    `findings` returns the findings, once all requests are resolved.
    """
    yield (
        f"{header_text(header, style)}\nPer quota key, the first matching entry in order of precedence applies (*).\n"
    )
    for resolution in resolutions:
        yield "\n" + "".join(f"{line}\n" for line in _request_lines(resolution, header.detail, style))
    if found := findings():
        yield "\n" + "".join(f"{line}\n" for line in render_findings(found, style))


def header_text(header: ResolveHeader, style: Style = PLAIN) -> str:
    """Return what was resolved against what: one line, and another with a plan."""
    cluster = style.paint(spell_name(header.cluster_name), "bold")
    plan = (
        f"\nAs if plan {header.plan_id} were applied: {'live' if header.snapshot is None else 'captured'} -> planned."
        if header.plan_id
        else ""
    )
    reading = reading_text(header.read_at, header.snapshot)
    return f"Cluster  {cluster} (id {spell_name(header.cluster_id)})   {reading}{plan}"


def _request_lines(resolution: Resolution, detail: Detail, style: Style) -> Iterator[str]:
    assumed = " and ".join(f"a {entity_type} that no quota mentions" for entity_type in resolution.unmentioned)
    yield style.paint(resolution.entity.address, "bold") + (f"   (with {assumed})" if assumed else "")
    if not resolution.keys:
        yield f"  ({_why_nothing(resolution.entity, detail)})"
    entries = [entry for row in resolution.keys for entry in row.resolved.entries]
    names = max((len(entry.level.source) for entry in entries if entry.level), default=0)
    addresses = max((len(entry.source.address) for entry in entries if entry.source), default=0)
    for row in resolution.keys:
        yield f"  {_headline(row, style)}"
        for place, entry in enumerate(row.resolved.entries):
            yield f"    {_entry(row.key, entry, place == 0, names, addresses, style)}"
        yield from (f"      {note}" for note in _notes(row, resolution.entity, style))


def _why_nothing(entity: Entity, detail: Detail) -> str:
    valid = keys_for(entity)
    if detail.keys and not any(key in valid or key not in QUOTA_KEYS for key in detail.keys):
        verb = "is" if len(detail.keys) == 1 else "are"
        return f"{', '.join(detail.keys)} {verb} not valid for {entity.address}, which can have {', '.join(valid)}"
    return "all values are inherited from other entities"


def _headline(row: KeyResolution, style: Style) -> str:
    known = QUOTA_KEYS.get(row.key)
    scope = f" per {known.per}" if known and row.resolved.source else ""
    value = style.paint(limit_text(row.key, row.resolved), "bold")
    if row.before is not None and row.is_changed:
        value = f"{limit_text(row.key, row.before)} -> {value}"
        notes = size_and_direction(row.key, row.before.value, row.resolved.value)
        scope += f"   ({', '.join(notes)})" if notes else ""
    elif row.resolved.source is None:
        scope = ": no entry applies"
    return f"{spell_name(row.key)} = {value}{scope}"


def limit_text(key: str, resolved: Resolved) -> str:
    """Return a limit as it prints: a value, `unlimited`, or `unlimited (explicit)` when an entry says so."""
    if resolved.value is None:
        return UNLIMITED
    if is_unlimited(QUOTA_KEYS.get(key), resolved.value):
        return f"{UNLIMITED} (explicit)"
    return value_text(key, resolved.value)


def _entry(key: str, entry: Effective, wins: bool, names: int, addresses: int, style: Style) -> str:
    if entry.source is None or entry.level is None or entry.value is None:
        return ""
    text = (
        f"{'*' if wins else ' '} {entry.level.number} {entry.level.source:<{names}}  "
        f"{entry.source.address:<{addresses}}  {value_text(key, entry.value)}"
    )
    return style.paint(text, "green") if wins else style.paint(f"{text}   overridden", "dim")


def _notes(row: KeyResolution, asked: Entity, style: Style) -> Iterator[str]:
    level, before = row.resolved.level, row.before
    if level is not None and not is_unlimited(QUOTA_KEYS.get(row.key), row.resolved.value):
        yield style.paint(f"one rate for {shared_by(level, asked)}", "dim")
    if row.resolved.differs:
        yield differs_text(row.resolved.differs)
    if before is not None and before.source != row.resolved.source:
        if before.source is None or before.level is None:
            yield "before: no entry applies"
        else:
            number, name = before.level.number, before.level.source
            yield f"before: {limit_text(row.key, before)} from {before.source.address} (level {number}, {name})"


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
