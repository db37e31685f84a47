"""The blast radius of one plan or of many in words: how many principals get another limit, the largest changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.core.blast_radius import BlastRadius, RadiusCounts
from quotaform.core.fleet_report import FleetReport
from quotaform.core.limit_change import LimitChange, LimitDirection
from quotaform.core.resolve.entry import Effective
from quotaform.model.entity import spell_name
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import UNLIMITED, is_unlimited
from quotaform.views.plan.effect_text import ratio_text, value_text
from quotaform.views.style import PLAIN, Style, counted

TITLE: Final = "Blast radius"
LIST_OPTION: Final = "--principals-out"
"""What writes all changes to a file."""


def blast_radius_lines(radius: BlastRadius | None, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a plan about its blast radius, and an empty one; none if nobody asked for it."""
    if radius is None:
        return
    yield f"{style.paint(f'{TITLE}:', 'bold')} {affected_text(radius, inert(source_text(radius)))}"
    for change in radius.largest:
        yield (
            f"    {change.principal.address} {spell_name(change.key)} = {limit_text(change.key, change.before)} -> "
            f"{limit_text(change.key, change.after)}   ({change_text(change)})"
        )
    if radius.file is not None:
        yield f"    all changes of limits ({all_changes(radius):,}): {inert(radius.file)}"
    elif left := all_changes(radius) - len(radius.largest):
        yield f"    and {counted(left, 'more change')} (list: {LIST_OPTION} FILE)"
    yield ""


def source_text(radius: RadiusCounts) -> str:
    """Return where the list of principals comes from."""
    return "users with SCRAM credentials" if radius.source == "scram" else radius.source


def affected_text(radius: RadiusCounts, source: str) -> str:
    """Return how many principals get another limit, in a sentence.

    `source` is where the list of principals comes from, as it is to be shown.
    """
    principals = f"{counted(radius.principals, 'principal')} ({source})"
    if not radius.affected:
        return f"none of {principals} gets another limit."
    verb = "gets another limit" if radius.affected == 1 else "get other limits"
    return f"{radius.affected:,} of {principals} {verb}: {directions_text(radius)}."


def directions_text(radius: RadiusCounts) -> str:
    """Return how many principals have limits that change in each direction; one may be in several."""
    counts = ((direction, radius.counts[direction].principals) for direction in LimitDirection)
    return ", ".join(f"{number:,} {direction_text(direction)}" for direction, number in counts if number)


def direction_text(direction: LimitDirection) -> str:
    """Return a direction in words."""
    return "in another bucket" if direction is LimitDirection.OTHER_BUCKET else direction.words


def limit_text(key: str, limit: Effective) -> str:
    """Return a limit and where it comes from."""
    source = "" if limit.source is None else f" from {limit.source.address}"
    return f"{limit_value_text(key, limit)}{source}"


def limit_value_text(key: str, limit: Effective) -> str:
    """Return a limit as it prints."""
    value = limit.value
    return UNLIMITED if value is None or is_unlimited(QUOTA_KEYS.get(key), value) else value_text(key, value)


def change_text(change: LimitChange) -> str:
    """Return which way a limit goes, and by how much; of the same limit, who shares it."""
    direction, before, after = change.direction, change.before, change.after
    if direction is None:
        return ""
    if direction is LimitDirection.OTHER_BUCKET and before.level and after.level:
        return f"per {' and '.join(before.level.bucket)} -> per {' and '.join(after.level.bucket)}"
    ratio = ratio_text(before.value, after.value) if change.factor and before.value and after.value else ""
    return f"{ratio}, {direction.words}" if ratio else direction.words


def all_changes(radius: RadiusCounts) -> int:
    """Return how many effective limits change."""
    return sum(count.limits for count in radius.counts.values())


MOST_RADII: Final = 20
"""How many clusters are listed for people."""


def radius_words(radius: RadiusCounts, source: str, clusters: int) -> str:
    """Return how many principals of all clusters get another limit, in a sentence.

    Args:
        radius: The counts of all clusters together.
        source: Where the list of principals comes from, as it is to be shown.
        clusters: How many clusters there are.
    """
    note = " Principals count once per cluster." if clusters > 1 else ""
    return f"{affected_text(radius, source)}{note}"


def radius_header(report: FleetReport) -> tuple[str, ...]:
    """Return the columns: those directions that any principal has."""
    return ("cluster", "principals", "affected", *map(direction_text, _directions(report)))


def radius_cells(report: FleetReport, radius: RadiusCounts) -> Iterator[str]:
    """Yield the cells of a cluster, without its name."""
    yield f"{radius.principals:,}"
    yield f"{radius.affected:,}"
    yield from (f"{radius.counts[each].principals:,}" for each in _directions(report))


def _directions(report: FleetReport) -> list[LimitDirection]:
    total = report.blast_radius
    return [each for each in LimitDirection if total is not None and total.counts[each].principals]
