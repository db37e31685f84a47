"""A plan as a `Report`, for comments and pages; and the tables that those of its apply and of drift have, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from quotaform.model.entity import Entity, spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Action, Change
from quotaform.model.text import inert
from quotaform.model.units import is_unlimited
from quotaform.plan.backtest import backtest_section
from quotaform.plan.plan import ChangeOrigin, EntityChange, Plan
from quotaform.plan.report import (
    DRIFTED,
    counts_text,
    drift_reason,
    drift_text,
    effect_line,
    header_lines,
    no_changes,
    radius_section,
    render_plan,
    unmanaged_text,
)
from quotaform.report.comment import Marker
from quotaform.report.report import Bar, Cell, Column, ColumnKind, Number, Report, Section, Table, cell_text
from quotaform.report.text import PLAIN, counted
from quotaform.resolve.effect import DIRECTIONS, Effect, effect_text, fallback_text, value_text

MARKER: Final = "plan"
"""What hides in the first line of a comment about a plan, and of one about its apply, which takes its place."""
_TITLES: Final[Mapping[Action | ChangeOrigin, str]] = {
    Action.DELETE: "Deleted",
    Action.UPDATE: "Changed",
    Action.CREATE: "Created",
    ChangeOrigin.DRIFT: "Drift, not in this change (not applied yet, or edited by hand)",
}
_COLUMNS: Final = (
    Column("entity", ColumnKind.NAME), "action", Column("key", ColumnKind.NAME), "now", "after",
    Column("chart", ColumnKind.PAGE), "effective limit", Column("direction", ColumnKind.PAGE),
    Column("origin", ColumnKind.PAGE), Column("owner", ColumnKind.DETAIL), Column("reason", ColumnKind.DETAIL),
    Column("place", ColumnKind.PAGE),
)  # fmt: skip


def plan_report(plan: Plan) -> Report:
    """Return the plan as a page: findings, blast radius, a row per changed value, unmanaged entities."""
    header, summary = plan.header, plan.summary
    if plan.changes:
        state, total = counts_text(summary), effect_line(plan)
    elif plan.is_applyable:
        state, total = "no changes", no_changes(plan)
    else:
        state, total = f"blocked by {counted(summary['blocked'], 'finding')}", "Nothing would be changed."
    unmanaged = Table(
        unmanaged_text(plan.unmanaged),
        (Column("entity", ColumnKind.NAME), "values", "scope"),
        tuple(
            (
                each.entity.address,
                ", ".join(f"{spell_name(key)} = {value_text(key, value)}" for key, value in each.values.items()),
                "in scope" if each.in_scope else "out of scope",
            )
            for each in sorted(plan.unmanaged, key=lambda each: not each.in_scope)
        ),
        is_folded=True,
    )
    drifted = sum(change.origin in DRIFTED for change in plan.changes)
    return Report(
        title="Kafka quota plan for",
        name=header.cluster.name,
        state=state,
        about=(*header_lines(plan, PLAIN), *([drift_text(drifted)] if drifted else []), f"Plan id {plan.plan_id}"),
        findings=plan.findings,
        sections=(
            *radius_section(plan.blast_radius),
            *backtest_section(plan.backtest),
            *change_sections(plan.changes),
            *([Section(unmanaged)] if unmanaged.rows else []),
        ),
        nothing="",
        total=total,
        text=partial(render_plan, plan) if plan.changes else None,
        marker=Marker(
            MARKER,
            header.cluster.name,
            header.source.directory,
            len(plan.changes) if plan.changes or plan.is_applyable else None,
        ),
    )


_ChangedRows: TypeAlias = tuple[EntityChange, Sequence[tuple[Change, Effect]]]
"""An entity, with those of its rows that a table is about."""


def change_sections(changes: Iterable[EntityChange], results: Mapping[Entity, str] | None = None) -> Iterator[Section]:
    """Yield tables of what changes, a row for each value, apart by what becomes of the entities.

    A change that reverts drift is with the drift, but a deletion is always with the deletions. `results`: what became
    of the entities in an apply.
    """
    parts: dict[Action | ChangeOrigin, list[_ChangedRows]] = {each: [] for each in _TITLES}
    for change in changes:
        rows = list(zip(change.changes, change.effects, strict=True))
        is_deleted = change.action is Action.DELETE
        drift = [each for each in rows if not is_deleted and change.origin_of(each[0]) is ChangeOrigin.DRIFT]
        rest = [each for each in rows if each not in drift] if drift else rows
        for part, some in ((ChangeOrigin.DRIFT, drift), (change.action, rest)):
            if some:
                parts[part].append((change, some))
    for part, title in _TITLES.items():
        if entities := parts[part]:
            yield Section(_change_table(title, entities, results, part))


def _change_table(
    title: str, entities: Sequence[_ChangedRows], results: Mapping[Entity, str] | None, part: Action | ChangeOrigin
) -> Table:
    rows = []
    for change, changed in entities:
        for row, effect in changed:
            notes = [effect_text(row, effect)[1:-1]]
            if row.after is None and effect.shadowed_by(row.entity, None) is None:
                notes.insert(0, fallback_text(row.key, effect.after)[1:-1])
            origin = change.origin_of(row)
            if origin is ChangeOrigin.BOTH and change.base is not None:
                declared = cell_text(value_cell(row.key, change.base.get(row.key)))
                notes.append(f"conflict: the base declares {declared}")
            elif origin is ChangeOrigin.DRIFT and change.action is Action.DELETE:
                notes.append(f"drift: {drift_reason(change)}")
            direction = DIRECTIONS[effect.direction(row.key)]
            if effect.becomes_unlimited(row.key):
                direction += " to unlimited"
            rows.append((
                change.entity.address, change.action.value, spell_name(row.key), value_cell(row.key, row.before),
                value_cell(row.key, row.after), *([] if results is None else [results.get(change.entity, "-")]),
                value_bar(row), "; ".join(filter(None, notes)) or "-", direction, str(origin or "-"),
                inert(change.owner or "-"), inert(change.reason or "-"), str(change.location or "-"),
            ))  # fmt: skip
    return Table(
        f"{title}: {counted(len(entities), 'entity')}",
        _COLUMNS if results is None else (*_COLUMNS[:3], "before", "after", "result", *_COLUMNS[5:]),
        tuple(rows),
        is_folded=part is ChangeOrigin.DRIFT or results is not None,
        is_kept=part is Action.DELETE,
        counted="direction",
    )


def value_cell(key: str, value: float | None) -> Cell:
    """Return a value as it prints; one that is not set comes before all others."""
    return Number(value_text(key, value), -1.0 if value is None else value)


def value_bar(row: Change) -> Cell:
    """Return a value with the one before it as a mark; no bar where there is no limit."""
    known = QUOTA_KEYS.get(row.key)
    shown = [0.0 if each is None or is_unlimited(known, each) else each for each in (row.before, row.after)]
    scale = max(shown)
    if not 0 < scale < float("inf"):
        return "-"
    is_severe = row.action is Action.DELETE or is_unlimited(known, row.after)
    return Bar(value=shown[1], scale=scale * 1.05, mark=shown[0] or None, is_severe=is_severe)
