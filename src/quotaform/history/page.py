"""The limits of entities over time, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from quotaform.history.history import Changer, EntityHistory, HistoryRow
from quotaform.model.entity import Entity, spell_name
from quotaform.model.text import inert
from quotaform.report.html import render_html
from quotaform.report.report import Curve, Level, Number, Plot, Report, Section, Table
from quotaform.report.text import minute_text, short_limit_text

MOST_PARTS: Final = 20
"""How many limits are drawn, each of one entity and key."""

LimitOf: TypeAlias = tuple[str, Entity, str]
"""Whose limit it is: cluster, entity and quota key."""


def drawn_limits(found: EntityHistory) -> list[LimitOf]:
    """Return the limits that are drawn: the first ones."""
    return list(dict.fromkeys((row.cluster, row.entity, row.key) for row in found.rows))[:MOST_PARTS]


def render_history_html(
    found: EntityHistory, usage: str | None = None, curves: Mapping[LimitOf, Curve] | None = None
) -> Iterator[str]:
    """Yield the values of entities over time as a page, with a section for each entity and key.

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
    report = Report(
        title="Limits over time",
        about=(_about(found), *(() if usage is None else (f"Usage: {inert(usage)}, the highest rate of all brokers",))),
        sections=tuple(sections),
        nothing=f"No snapshot has {' or '.join(found.entities) or 'any quotas'}.",
        notes=tuple(_notes(found, len(drawn), None if usage is None else len(drawn) - len(curves))),
    )
    return render_html(report)


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
    levels = tuple(Level("limit", row.value, row.valid_from, row.valid_to) for row in rows)
    return Section(
        table, (Plot(caption=caption, key=key, curve=used, levels=levels, start=min(times), end=max(times)),)
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
