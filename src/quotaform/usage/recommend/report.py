"""The report of recommendations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.model.entity import spell_name
from quotaform.model.moment import spell_second
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert, option_of
from quotaform.model.units import is_decimal, is_unlimited, render_value
from quotaform.plan.backtest import note_lines, total_text
from quotaform.report.report import Bar, Cell, Coloured, Column, ColumnKind, Columns, Number, Report, Section, Table
from quotaform.report.text import counted
from quotaform.usage.cells import ALL_ROWS, rate_cell
from quotaform.usage.recommend.recommendation import Advice, Recommendation, Recommendations
from quotaform.usage.replay.report import backtest_table

_NAMES: Final = tuple(Column(name, ColumnKind.NAME) for name in ("entity", "cluster", "key"))
_COLUMNS: Final[Columns] = (
    *_NAMES, "action", "now", "proposed", "chart", Column("rate", ColumnKind.PAGE),
    *(Column(name, ColumnKind.DETAIL) for name in ("why", "measured", "note")), Column("days", ColumnKind.PAGE),
)  # fmt: skip
_OTHERS: Final[Columns] = (*_NAMES, "action", "now", Column("rate", ColumnKind.PAGE), "why")
_COLOURS: Final = {Advice.CREATE: "green", Advice.UPDATE: "yellow", Advice.DELETE: "red"}
_MOST_UNWRITTEN: Final = 30


def recommend_report(report: Recommendations) -> Report:
    """Return what is proposed, what is not and why."""
    counts, edit = report.summary, report.edit
    about = [f"Usage {inert(report.usage)}"]
    for each in report.clusters:
        recorded = "nothing recorded"
        if each.first is not None and each.last is not None:
            recorded = f"recorded from {spell_second(each.first)} to {spell_second(each.last)}"
        about.append(f"{spell_name(each.cluster)}: {recorded}")
    sections = []
    if report.proposals:
        sections.append(
            Section(
                Table("Proposals", _COLUMNS, tuple(map(_row, report.proposals)), total=counts.proposed, hint=ALL_ROWS)
            )
        )
    if report.others:
        rest = counts.keep + counts.none
        rows = tuple(
            (*_names(each), rate_cell(each.key, each.basis, each.before), each.reason) for each in report.others
        )
        sections.append(Section(Table("Kept, or undecided", _OTHERS, rows, total=rest, hint=ALL_ROWS, is_folded=True)))
    sections += [
        Section(
            backtest_table(
                each.cluster, f"Backtest of the proposals for {spell_name(each.cluster)}", each.changed, is_folded=True
            )
        )
        for each in (() if report.backtest is None else report.backtest.clusters)
        if each.changed.rows
    ]
    files = () if edit is None or not edit.is_written else tuple(map(inert, edit.files))
    return Report(
        title="Recommended quotas",
        about=tuple(about),
        sections=tuple(sections),
        nothing="No value was sized.",
        notes=(*backtest_lines(report), *unwritten_lines(report), *(f"File changed: {name}" for name in files)),
        total=(
            f"Recommended: {counts.create:,} to add, {counts.update:,} to change, "
            f"{counts.delete:,} to remove; {counts.keep:,} kept, {counts.none:,} undecided."
        ),
    )


def value_of(each: Recommendation, value: float | None) -> Number:
    """Return a value of a proposal, in the units of the value now."""
    if value is None:
        return Number("none", -1.0)
    key = QUOTA_KEYS.get(each.key)
    return Number(
        render_value(key, value, decimal=is_decimal(key, value if each.before is None else each.before)), value
    )


def _names(each: Recommendation) -> tuple[Cell, ...]:
    action = Coloured(each.action.value, _COLOURS.get(each.action))
    return inert(each.entity.address), spell_name(each.cluster), inert(each.key), action, value_of(each, each.before)


def _row(each: Recommendation) -> tuple[Cell, ...]:
    before, after, basis = (value or 0.0 for value in (each.before, each.after, each.basis))
    is_drawn = not is_unlimited(QUOTA_KEYS.get(each.key), max(before, after)) and max(before, after, basis) > 0
    scale = 1.05 * max(before, after, basis)
    where = "" if each.broker is None else f" on broker {inert(each.broker)}"
    return (
        *_names(each),
        value_of(each, each.after),
        Bar(value=basis, scale=scale, low=0.0, high=after, mark=before) if is_drawn else "-",
        rate_cell(each.key, each.basis, each.before),
        each.reason,
        "" if each.bucket is None else f"of {inert(each.bucket)}{where}, {counted(each.samples, 'sample')}",
        each.note or "",
        Number(f"{each.days:.1f}", each.days),
    )


def backtest_lines(report: Recommendations) -> Iterator[str]:
    """Yield what the proposals would have throttled, and what is not in that; nothing if it was not tested."""
    found = report.backtest
    if found is None:
        return
    if not found.clusters:
        yield "No backtest: no proposal is in the files."
    for each in found.clusters:
        cluster = spell_name(each.cluster)
        yield from (f"Backtest of {cluster}: {text}" for text in (total_text(each), *note_lines(each)))
    if found.unwritten:
        place = f" (list: {option_of('diff')})" if report.edit is None else ""
        yield f"Not in the backtest: {counted(found.unwritten, 'proposal')} not written into the files{place}."
    if found.others and found.clusters:
        others = counted(found.others, "other entity", "other entities")
        yield f"Not in the backtest: {others} that the files change without a proposal (list: quotaform plan)."


def unwritten_lines(report: Recommendations) -> Iterator[str]:
    """Yield the proposals that the files do not follow, and why."""
    unwritten = () if report.edit is None else report.edit.unwritten
    for each in unwritten[:_MOST_UNWRITTEN]:
        cluster = f"{spell_name(each.cluster)} " if len(report.clusters) > 1 else ""
        yield f"Not written into the files: {cluster}{inert(each.entity.address)} {inert(each.key)}: {each.reason}"
    if (left := len(unwritten) - _MOST_UNWRITTEN) > 0:
        yield f"And {left:,} more not written into the files (all: {option_of('format')} json)"
