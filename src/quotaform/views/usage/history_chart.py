"""The limits of entities over time as a chart."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from quotaform.core.history import Changer, EntityHistory, HistoryRow
from quotaform.core.usage.chart.chart import Chart, Curve, CurveKey, Limit, LimitPart
from quotaform.core.usage.chart.label import minute_text
from quotaform.model.text import inert

MOST_PARTS: Final = 20
"""How many limits are drawn, each of one entity and key."""


def drawn_limits(found: EntityHistory) -> list[CurveKey]:
    """Return the limits that are drawn: the first ones."""
    return list(dict.fromkeys((row.cluster, row.entity, row.key) for row in found.rows))[:MOST_PARTS]


def history_chart(
    found: EntityHistory, usage: str | None = None, curves: Mapping[CurveKey, Curve] | None = None
) -> Chart:
    """Return a chart with a part for each entity and key.

    `found` is what entities had and when. `usage` is the table of what they used, if one was given.
    """
    curves = curves or {}
    drawn = set(drawn_limits(found))
    parts = []
    for key, rows in groupby(found.rows, lambda row: (row.cluster, row.entity, row.key)):
        if key in drawn and found.until is not None:
            cluster, entity, name = key
            parts.append(
                LimitPart(
                    cluster=cluster,
                    address=entity.address,
                    key=name,
                    limits=tuple(map(_limit, rows)),
                    until=found.until,
                    usage=curves.get(key, Curve()),
                )
            )
    return Chart(
        title="Limits over time",
        about=(_about(found), *(() if usage is None else (f"Usage: {inert(usage)}, the highest rate of all brokers",))),
        parts=tuple(parts),
        nothing=f"No snapshot has {' or '.join(found.entities) or 'any quotas'}.",
        notes=tuple(_notes(found, len(drawn), None if usage is None else len(drawn) - len(curves))),
    )


def _limit(row: HistoryRow) -> Limit:
    return Limit(row.valid_from, row.valid_to, row.value, _changer(row.changed_by))


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
            f"No usage is known of {without_usage:,} of them; that of a default entity, of many buckets, is not drawn."
        )
    return notes
