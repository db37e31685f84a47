"""The views of resolved and of explained quotas: text, and CSV with one row per request and quota key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from quotaform.model.entity import CLIENT_ID, ENTITY_TYPES, KNOWN_TYPES, USER, Entity, spell_name
from quotaform.model.quota_key import QUOTA_KEYS, keys_for
from quotaform.model.quotas import Cause, same_value
from quotaform.model.text import inert
from quotaform.model.units import UNLIMITED, is_unlimited, plain
from quotaform.report.finding import render_findings
from quotaform.report.report import Cell, Number, Report, Table, sections_of
from quotaform.report.text import PLAIN, Style, aligned, cluster_text, counted, csv_lines, reading_text
from quotaform.resolve.effect import differs_text, size_and_direction, value_text
from quotaform.resolve.explain import Explained, Explanation, Giver, LayerValue
from quotaform.resolve.index import NOT_LIMITED, Effective, Resolved, shared_by
from quotaform.resolve.resolve import KeyResolution, Resolution, ResolveHeader, ResolveOptions, TableReport

if TYPE_CHECKING:
    from quotaform.resolve.run import ResolveRun


def render_resolve(run: ResolveRun, style: Style = PLAIN) -> Iterator[str]:
    """Yield the text in pieces of whole lines, one per request."""
    head = header_text(run.header, style)
    yield f"{head}\nPer quota key, the first matching entry in order of precedence applies (*).\n"
    for resolution in run:
        yield "\n" + "".join(f"{line}\n" for line in _request_lines(resolution, run.header.options, style))
    if found := run.findings():
        yield "\n" + "".join(f"{line}\n" for line in render_findings(found, style))


def header_text(header: ResolveHeader, style: Style = PLAIN) -> str:
    """Return what was resolved against what: one line, and another with a plan."""
    cluster = cluster_text(header.cluster.name, header.cluster.id, None, style)
    plan = (
        f"\nAs if plan {header.plan_id} were applied: {'live' if header.snapshot is None else 'captured'} -> planned."
        if header.plan_id
        else ""
    )
    return f"Cluster  {cluster}   {reading_text(header.read_at, header.snapshot)}{plan}"


def _request_lines(resolution: Resolution, detail: ResolveOptions, style: Style) -> Iterator[str]:
    assumed = " and ".join(f"a {entity_type} that no quota mentions" for entity_type in resolution.unmentioned)
    yield style.paint(resolution.entity.address, "bold") + (f"   (with {assumed})" if assumed else "")
    if not resolution.keys:
        why, valid = "all values are inherited from other entities", keys_for(resolution.entity)
        if detail.keys and not any(key in valid or key not in QUOTA_KEYS for key in detail.keys):
            verb = "is" if len(detail.keys) == 1 else "are"
            asked = f"{', '.join(detail.keys)} {verb} not valid for {resolution.entity.address}"
            why = f"{asked}, which can have {', '.join(valid)}"
        yield f"  ({why})"
    lines = iter(aligned([_entry(row.key, entry) for row in resolution.keys for entry in row.resolved.entries]))
    for row in resolution.keys:
        yield f"  {_headline(row, style)}"
        for place, line in enumerate(islice(lines, len(row.resolved.entries))):
            yield f"    {style.paint(f'  {line}   overridden', 'dim') if place else style.paint(f'* {line}', 'green')}"
        yield from (f"      {note}" for note in _notes(row, resolution.entity, style))


def _headline(row: KeyResolution, style: Style) -> str:
    known = QUOTA_KEYS.get(row.key)
    scope = f" per {known.per}" if known and row.resolved.source else ""
    value = style.paint(resolved_text(row.key, row.resolved), "bold")
    if row.before is not None and not same_value(row.before.value, row.resolved.value):
        value = f"{resolved_text(row.key, row.before)} -> {value}"
        notes = size_and_direction(row.key, row.before.value, row.resolved.value)
        scope += f"   ({', '.join(notes)})" if notes else ""
    elif row.resolved.source is None:
        scope = ": no entry applies"
    return f"{spell_name(row.key)} = {value}{scope}"


def resolved_text(key: str, resolved: Resolved) -> str:
    """Return a limit as it prints: a value, `unlimited`, or `unlimited (explicit)` when an entry says so."""
    if resolved.value is None:
        return UNLIMITED
    if is_unlimited(QUOTA_KEYS.get(key), resolved.value):
        return f"{UNLIMITED} (explicit)"
    return value_text(key, resolved.value)


def _entry(key: str, entry: Effective) -> tuple[str, str, str]:
    level = f"{entry.level.number} {entry.level.source}" if entry.level else ""
    return level, entry.source.address if entry.source else "", value_text(key, entry.value)


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
            yield f"before: {resolved_text(row.key, before)} from {before.source.address} (level {number}, {name})"


def resolve_report(run: ResolveRun) -> Report:
    """Return, for each request and key, the entries that match it, from the one that applies down."""
    rows = tuple(row for each in run for key in each.keys for row in _ladder(each, key))
    columns = ("request", "key", "limit", "entry", "place", "level", "limit before the plan", "one rate for")
    return Report(
        title="Kafka quotas of requests on",
        name=run.header.cluster.name,
        about=tuple(header_text(run.header).splitlines()),
        sections=sections_of(Table("Entries that match, in order of precedence", columns, rows)),
        nothing="No key was resolved.",
        notes=tuple(f"{each.severity.value}: {inert(each.message)} [{each.rule}]" for each in run.findings()),
    )


def _ladder(resolution: Resolution, row: KeyResolution) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each entry with the key, the one that applies first; one row if there is none."""
    asked, resolved = resolution.entity, row.resolved
    before = "-" if row.before is None else resolved_text(row.key, row.before)
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


def resolve_table_report(report: TableReport, style: Style = PLAIN) -> Report:
    """Return what was resolved, where the rows are, and how many of them limit anything."""
    parts = [counted(report.clients, "client")] if report.clients else []
    parts += [counted(report.ips, "address", "addresses")] if report.ips else []
    total = sum(limited + unlimited for _, limited, unlimited, _ in report.keys)
    written = f"Resolved {' and '.join(parts)}: {counted(total, 'row')} in {inert(report.target)}"
    has_changes = any(changed is not None for *_, changed in report.keys)
    columns = ("key", "limited", "unlimited", *(["changed"] * has_changes))
    cells = tuple(
        (spell_name(key), *(f"{each:,}" for each in numbers if each is not None)) for key, *numbers in report.keys
    )
    return Report(
        title="Resolved principals",
        about=(*header_text(report.header, style).splitlines(), written),
        sections=sections_of(Table("Rows by key", columns, cells)),
        nothing="Nothing was resolved.",
    )


COLUMNS: Final = (
    *(row.parameter for row in KNOWN_TYPES.values()),
    *("key", "value", "unlimited", "source", "source_name", "level"),
    *("per", "bucket", "shared_by", "overridden", "before_value", "before_source", "before_source_name"),
    *("unmentioned", "differing_users", "differing_client_ids"),
)


def render_resolve_csv(resolutions: Iterable[Resolution]) -> Iterator[str]:
    """Yield what limits requests as a table, row by row: one per request and quota key.

    What is not there is an empty field: the value and the source of a key that nothing limits, and what was
    before where no plan is asked about. Overridden entries are `address=value` in order of precedence, with `; `
    between them. A type that the request leaves out is an empty field, and is in `unmentioned` when a name that no
    quota mentions was resolved for it, with the number of names that have another limit in `differing_...`; an empty
    client-id is `""`.
    """
    return csv_lines(COLUMNS, (_csv_row(each, row) for each in resolutions for row in each.keys))


def _csv_row(resolution: Resolution, row: KeyResolution) -> tuple[str | float | None, ...]:
    asked, resolved, known = resolution.entity, row.resolved, QUOTA_KEYS.get(row.key)
    level, names = resolved.level, asked.names
    overridden = "; ".join(
        f"{entry.source.address}={plain(entry.value)}"
        for entry in resolved.overridden
        if entry.source is not None and entry.value is not None
    )
    return (
        *(names.get(entity_type) for entity_type in ENTITY_TYPES),
        row.key,
        resolved.value,
        "true" if is_unlimited(known, resolved.value) else "false",
        *_source_cells(resolved),
        level.number if level else None,
        known.per if known else None,
        ",".join(level.bucket) if level else None,
        shared_by(level, asked) if level else None,
        overridden or None,
        *(row.before or NOT_LIMITED)[:1],
        *_source_cells(row.before or NOT_LIMITED),
        ",".join(resolution.unmentioned) or None,
        *(resolved.differs.get(entity_type) for entity_type in (USER, CLIENT_ID)),
    )


def _source_cells(resolved: Resolved) -> tuple[str | None, str | None]:
    return None if resolved.source is None else resolved.source.address, resolved.source_name


def render_explained(explained: Explained, style: Style = PLAIN) -> str:
    """Return an explanation as text: per key the value that holds, then every step, the deciding one marked."""
    sections = ("\n".join(_section(explanation, explained, style)) for explanation in explained.clusters)
    return "\n\n".join(sections) + "\n"


def _section(explanation: Explanation, explained: Explained, style: Style) -> Iterator[str]:
    source = f"Source {inert(explained.directory)}"
    if explanation.cluster is None:
        yield source
    else:
        yield f"Cluster  {style.paint(spell_name(explanation.cluster), 'bold')}   {source}"
    yield ""
    address = style.paint(explained.entity.address, "bold")
    if explanation.cause is Cause.UNDECLARED:
        yield f"  {address} is not declared"
        return
    what = f" must not exist: {explanation.absent}" if explanation.absent else ""
    yield f"  {address}{what}   ({explanation.location})"
    for text in explanation.texts:
        replaced = ", replaced" if text.is_replaced else ""
        yield f"    {text.field} {inert(text.text)}   ({_layer(text.layer)}, {text.location}{replaced})"
    for key in explanation.keys:
        verb = "is" if key.value is None else "="
        yield f"    {style.paint(f'{key.key} {verb} {value_text(key.key, key.value)}', 'bold')}"
        *overridden, last = aligned([_step_cells(key.key, step) for step in key.steps])
        yield from (f"      {style.paint(f'  {line}', 'dim')}" for line in overridden)
        yield f"      * {last}"


def _step_cells(key: str, step: LayerValue) -> tuple[str, str, str, str]:
    giver = "state: absent" if step.giver is Giver.TOMBSTONE else step.giver.value
    if step.profile is not None:
        giver = f"profile {inert(step.profile)}"
    return value_text(key, step.value), _layer(step.layer), giver, str(step.location)


def _layer(layer: str | None) -> str:
    return "common" if layer is None else spell_name(layer)
