"""A plan as a page, and the tables of it that pages of its apply and of drift have, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from quotaform.model.entity import spell_name
from quotaform.model.finding import Finding
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Action, Change
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited
from quotaform.plan.backtest_report import note_lines, total_text
from quotaform.plan.blast_radius import BlastRadius
from quotaform.plan.change import EntityChange, Origin
from quotaform.plan.plan import Plan, Unmanaged
from quotaform.plan.report import (
    affected_text,
    change_text,
    drift_reason,
    drift_text,
    effect_line,
    header_lines,
    limit_text,
    no_changes,
    source_text,
    summary_line,
)
from quotaform.report.markdown import cell_text
from quotaform.report.report import Bar, Cell, Column, ColumnKind, Number, Report, Section, Table
from quotaform.report.text import PLAIN
from quotaform.resolve.effect import Effect, effect_text, fallback_text, value_text

_UNKNOWN: Cell = Number("not set", -1.0)
_COLUMNS: Final = (
    Column("entity", ColumnKind.NAME), "action", Column("key", ColumnKind.NAME), "now", "after",
    Column("chart", ColumnKind.PAGE), "effective limit", Column("origin", ColumnKind.PAGE),
    Column("owner", ColumnKind.DETAIL), Column("reason", ColumnKind.DETAIL), Column("place", ColumnKind.PAGE),
)  # fmt: skip


def plan_report(plan: Plan) -> Report:
    """Return the plan for a page: what the checks found, a row for each value that changes, and who would notice."""
    radius, backtest = plan.blast_radius, plan.backtest
    sections = [*findings_sections(plan.findings), *change_sections(plan.changes)]
    if radius is not None and radius.largest:
        sections.append(Section(radius_table(radius)))
    sections += _unmanaged_sections(plan.unmanaged)
    end = f"{effect_line(plan)} Plan id {plan.plan_id}" if plan.changes else no_changes(plan)
    notes = [] if radius is None else [f"Blast radius: {affected_text(radius, inert(source_text(radius)))}"]
    notes += [] if backtest is None else [f"Backtest: {total_text(backtest)}", *note_lines(backtest)]
    drifted = sum(change.origin is not None and change.origin.value != "config" for change in plan.changes)
    return Report(
        title=f"Kafka quota plan for {spell_name(plan.header.cluster_name)}",
        about=(*header_lines(plan, PLAIN), end, *([summary_line(plan)] if plan.changes else [])),
        sections=tuple(sections),
        nothing=no_changes(plan),
        notes=(*([drift_text(drifted)] if drifted else []), *notes),
    )


def radius_table(radius: BlastRadius) -> Table:
    """Return a table of the limits that change most."""
    rows = tuple(
        (
            each.principal.address, spell_name(each.key), limit_text(each.key, each.before),
            limit_text(each.key, each.after), change_text(each),
        )
        for each in (large.limits for large in radius.largest)
    )  # fmt: skip
    columns = (
        Column("principal", ColumnKind.NAME),
        Column("key", ColumnKind.NAME),
        "limit now",
        "limit after",
        "change",
    )
    return Table("Principals whose limits change most", columns, rows)


def findings_sections(findings: Iterable[Finding]) -> Iterator[Section]:
    """Yield a table of what checks found, what blocks first; nothing if there is nothing."""
    ordered = sorted(findings, key=lambda each: (not each.blocking, each.rule, each.address or ""))
    rows = tuple(
        (
            each.address or "-", each.rule, "blocks" if each.blocking else each.severity.value, inert(each.message),
            f"allowed by {each.allowed_by}" if each.allowed_by else each.override or "-", str(each.location or "-"),
        )
        for each in ordered
    )  # fmt: skip
    if rows:
        yield Section(Table("Findings", ("entity", "rule", "severity", "finding", "override", "place"), rows))


class Changed(NamedTuple):
    """An entity, with those of its rows that a table is about."""

    change: EntityChange
    rows: Sequence[tuple[Change, Effect]]


def change_sections(changes: Iterable[EntityChange]) -> Iterator[Section]:
    """Yield a table of what changes; nothing if nothing does."""
    changed = [Changed(each, list(zip(each.changes, each.effects, strict=True))) for each in changes]
    if changed:
        yield Section(change_table("Changes", changed))


def change_table(caption: str, entities: Iterable[Changed]) -> Table:
    """Return a table of what changes, a row for each value."""
    rows = tuple(
        (
            change.entity.address, change.action.value, spell_name(row.key), value_cell(row.key, row.before),
            value_cell(row.key, row.after), value_bar(row), _limit_notes(change, row, effect) or "-",
            str(change.origin_of(row) or "-"), inert(change.owner or "-"), inert(change.reason or "-"),
            str(change.location or "-"),
        )
        for change, changed in entities
        for row, effect in changed
    )  # fmt: skip
    return Table(caption, _COLUMNS, rows)


def _limit_notes(change: EntityChange, row: Change, effect: Effect) -> str:
    """Return what becomes of the effective limit, and what else the origin of a change has to say."""
    notes = [effect_text(row, effect)[1:-1]]
    if row.after is None and effect.shadowed_by(row.entity, None) is None:
        notes.insert(0, fallback_text(row.key, effect.after)[1:-1])
    origin = change.origin_of(row)
    if origin is Origin.BOTH and change.base is not None:
        notes.append(f"conflict: the base declares {cell_text(value_cell(row.key, change.base.get(row.key)))}")
    elif origin is Origin.DRIFT and change.action is Action.DELETE:
        notes.append(f"drift: {drift_reason(change)}")
    return "; ".join(filter(None, notes))


def value_cell(key: str, value: float | None) -> Cell:
    """Return a value as it prints; one that is not set comes before all others."""
    return _UNKNOWN if value is None else Number(value_text(key, value), value)


def value_bar(row: Change) -> Cell:
    """Return a value with the one before it as a mark; no bar where there is no limit."""
    known = QUOTA_KEYS.get(row.key)
    shown = [0.0 if each is None or is_unlimited(known, each) else each for each in (row.before, row.after)]
    scale = max(shown)
    if not 0 < scale < float("inf"):
        return "-"
    is_severe = row.action is Action.DELETE or is_unlimited(known, row.after)
    return Bar(value=shown[1], scale=scale * 1.05, mark=shown[0] or None, is_severe=is_severe)


def _unmanaged_sections(unmanaged: Iterable[Unmanaged]) -> Iterator[Section]:
    rows = tuple(
        (
            each.entity.address,
            ", ".join(f"{spell_name(key)} = {value_text(key, value)}" for key, value in each.values.items()),
            "in scope" if each.in_scope else "out of scope",
        )
        for each in unmanaged
    )
    if rows:
        yield Section(Table("Not managed, left unchanged", ("entity", "values", "scope"), rows))
