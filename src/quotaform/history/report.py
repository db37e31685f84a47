"""The report of a history: as text, and limits over time as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from quotaform.history.history import (
    AppendDocument,
    Changer,
    Coverage,
    DifferenceSummary,
    EntityHistory,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.model.entity import Entity, spell_name
from quotaform.model.moment import spell_second
from quotaform.model.records.record import builtins
from quotaform.model.text import inert, option_of
from quotaform.report.report import Curve, Number, Plot, PlotLimit, Report, Section, Table
from quotaform.report.text import PLAIN, Style, aligned, counted, minute_text, short_limit_text
from quotaform.resolve.effect import value_text

_MOST_SNAPSHOTS = 50
_MOST_UNKNOWN = 10
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


_APPENDED: Final = {"late": "inserted before a later snapshot", "known": "known already"}


def render_append(result: AppendDocument, style: Style = PLAIN) -> str:
    """Return what became of an append as text; snapshots that failed are reported elsewhere."""
    return "\n".join(_append_lines(result, style)) + "\n"


def _append_lines(result: AppendDocument, style: Style) -> Iterator[str]:
    yield f"History  {style.paint(inert(result.table), 'bold')}"
    read = [each for each in result.snapshots if each.status != "failed"]
    rows = []
    for each in read[:_MOST_SNAPSHOTS]:
        at = "" if each.read_at is None else spell_second(each.read_at)
        told = f"{at}  {counted(each.values, 'value')}  {_APPENDED.get(each.status, each.status)}"
        rows.append((spell_name(each.cluster or ""), told))
    yield from (f"  {line}" for line in aligned(rows))
    if len(read) > _MOST_SNAPSHOTS:
        yield f"  ... and {len(read) - _MOST_SNAPSHOTS:,} more (all: {option_of('format')} json)"
    yield ""
    counts = ", ".join(f"{count:,} {status}" for status, count in builtins(result.summary).items())
    yield style.paint(f"Snapshots: {counts}.", "bold")


def render_entity_history(found: EntityHistory, style: Style = PLAIN) -> str:
    """Return what entities had and when as text."""
    return "\n".join(_history_lines(found, style)) + "\n"


def _history_lines(found: EntityHistory, style: Style) -> Iterator[str]:
    span = "no snapshots"
    if found.since is not None and found.until is not None:
        span = f"snapshots from {spell_second(found.since)} to {spell_second(found.until)}"
    yield f"History  {style.paint(inert(found.table), 'bold')}   {span}"
    for (cluster, address), rows in groupby(found.rows, lambda row: (row.cluster, row.entity.address)):
        yield ""
        yield f"{spell_name(cluster)}  {style.paint(address, 'bold')}"
        for key, of_key in groupby(rows, lambda row: row.key):
            yield f"  {spell_name(key)}"
            yield from (f"    {_row_text(row)}" for row in of_key)
    if not found.rows:
        yield ""
        yield f"No snapshot has {' or '.join(found.entities) or 'any quotas'}."
    elif found.total > len(found.rows):
        yield ""
        yield f"The first {len(found.rows):,} of {found.total:,} rows (all: {option_of('out')} parquet=DIR)."


def _row_text(row: HistoryRow) -> str:
    end = "now" if row.valid_to is None else spell_second(row.valid_to)
    text = f"{value_text(row.key, row.value)}   {spell_second(row.valid_from)} to {end}"
    about = [f"set {_by(row.changed_by)}"] if row.changed_by else []
    about += [f"ended {_by(row.ended_by)}"] if row.ended_by else []
    return f"{text}   ({'; '.join(about)})" if about else text


def _by(changer: Changer) -> str:
    commit = f", commit {inert(changer.commit)[:7]}" if changer.commit else ""
    plan = inert(changer.plan_id).removeprefix("sha256:")[:8]
    return f"by {inert(changer.actor)} at {spell_second(changer.at)}, plan {plan}{commit}"


def render_history_difference(found: HistoryDifference, style: Style = PLAIN) -> str:
    """Return what changed between two moments as text, ending with one line that says how much."""
    return "\n".join(_difference_lines(found, style)) + "\n"


def _difference_lines(found: HistoryDifference, style: Style) -> Iterator[str]:
    times = f"{spell_second(found.since)} to {spell_second(found.until)}"
    yield f"History  {style.paint(inert(found.table), 'bold')}   {times}"
    covered = {each.cluster: each for each in found.clusters}
    for cluster, rows in groupby(found.rows, lambda row: row.cluster):
        yield ""
        yield f"{style.paint(spell_name(cluster), 'bold')}   {_coverage_text(covered[cluster])}"
        yield from (f"  {_change_text(row, style)}" for row in rows)
    unknown = [each for each in found.clusters if not each.is_compared]
    if unknown:
        yield ""
        yield f"Not compared, since there is no snapshot at or before {spell_second(found.since)}:"
        shown = unknown[:_MOST_UNKNOWN]
        first = [(spell_name(each.cluster), f"first snapshot of {spell_second(each.first_at)}") for each in shown]
        yield from (f"  {line}" for line in aligned(first))
        if len(unknown) > _MOST_UNKNOWN:
            yield f"  ... and {len(unknown) - _MOST_UNKNOWN:,} more (all: {option_of('format')} json)"
    yield ""
    if found.summary.total > len(found.rows):
        yield f"The first {len(found.rows):,} of {found.summary.total:,} changes (all: {option_of('out')} parquet=DIR)."
    left_out = f"; {counted(len(unknown), 'cluster')} not compared" if unknown else ""
    yield style.paint(f"{_difference_total(found.summary)}{left_out}.", "bold")


def _difference_total(found: DifferenceSummary) -> str:
    if not found.total:
        return "No changes between the two"
    return (
        f"Changes: {found.created:,} set, {found.updated:,} changed, {found.deleted:,} removed, of "
        f"{counted(found.entities, 'entity', 'entities')}"
    )


def _coverage_text(each: Coverage) -> str:
    # Both are there where something differs.
    times = [spell_second(at) for at in (each.before_at, each.after_at) if at is not None]
    return f"snapshots of {' and '.join(times)}"


def _change_text(row: HistoryChange, style: Style) -> str:
    sign = "+" if row.before is None else "-" if row.after is None else "~"
    values = " -> ".join(value_text(row.key, value) for value in (row.before, row.after) if value is not None)
    about = "" if row.changed_at is None else f"   (seen {spell_second(row.changed_at)})"
    if row.changed_by is not None:
        about = f"   ({_by(row.changed_by)})"
    return f"{style.paint(sign, _COLOURS[sign])} {row.entity.address}  {spell_name(row.key)} : {values}{about}"


MOST_PARTS: Final = 20
"""How many limits are drawn, each of one entity and key."""

LimitOf: TypeAlias = tuple[str, Entity, str]
"""Whose limit it is: cluster, entity and quota key."""


def drawn_limits(found: EntityHistory) -> list[LimitOf]:
    """Return the limits that are drawn: the first ones."""
    return list(dict.fromkeys((row.cluster, row.entity, row.key) for row in found.rows))[:MOST_PARTS]


def limits_report(
    found: EntityHistory, usage: str | None = None, curves: Mapping[LimitOf, Curve] | None = None
) -> Report:
    """Return the values of entities over time, with a section for each entity and key.

    `found` is what entities had and when. `usage` is the table of what they used, if one was given, and `curves` what
    it says of `drawn_limits`.
    """
    curves = curves or {}
    drawn = set(drawn_limits(found))
    sections = [
        _section(key, tuple(rows), found, curves.get(key, Curve()))
        for key, rows in groupby(found.rows, lambda row: (row.cluster, row.entity, row.key))
        if key in drawn
    ]
    return Report(
        title="Limits over time",
        about=(_about(found), *(() if usage is None else (f"Usage: {inert(usage)}, the highest rate of all brokers",))),
        sections=tuple(sections),
        nothing=f"No snapshot has {' or '.join(found.entities) or 'any quotas'}.",
        notes=tuple(_notes(found, len(drawn), None if usage is None else len(drawn) - len(curves))),
    )


def _section(of: LimitOf, rows: Sequence[HistoryRow], found: EntityHistory, used: Curve) -> Section:
    cluster, entity, key = of
    caption = f"{entity.address}, {inert(key)}, cluster {spell_name(cluster)}"
    table = Table(
        caption,
        ("entity", "limit", "from", "to", "set by"),
        tuple(
            (
                entity.address,
                Number(short_limit_text(key, row.value), row.value),
                minute_text(row.valid_from),
                "now" if row.valid_to is None else minute_text(row.valid_to),
                inert(_changer(row.changed_by) or "-"),
            )
            for row in rows
        ),
    )
    until = found.until or rows[-1].valid_from
    times = [row.valid_from for row in rows] + [until, *used.times]
    limits = tuple(PlotLimit("limit", row.value, row.valid_from, row.valid_to) for row in rows)
    return Section(
        table, (Plot(caption=caption, key=key, curve=used, limits=limits, start=min(times), end=max(times)),)
    )


def _changer(changer: Changer | None) -> str | None:
    return None if changer is None else f"{changer.actor}, plan {changer.plan_id.removeprefix('sha256:')[:8]}"


def _about(found: EntityHistory) -> str:
    if found.since is None:
        return f"History {inert(found.table)}: no snapshots"
    return f"History {inert(found.table)}: snapshots from {minute_text(found.since)} to {minute_text(found.until)} UTC"


def _notes(found: EntityHistory, drawn: int, without_usage: int | None) -> list[str]:
    """Return what is not drawn, in sentences."""
    notes = []
    total = len({(row.cluster, row.entity, row.key) for row in found.rows})
    if found.total > len(found.rows):
        notes.append(f"Only the first {len(found.rows):,} of {found.total:,} values were looked at; name an entity.")
    if total > drawn:
        notes.append(f"The first {drawn:,} of {total:,} limits are drawn; name an entity to see others.")
    if without_usage:
        notes.append(
            f"No usage is known of {without_usage:,} of them; usage of default entities, which have many buckets, is "
            "not drawn."
        )
    return notes
