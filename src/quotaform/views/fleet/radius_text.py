"""The blast radius of the plans of many clusters, as a sentence and as the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quotaform.core.blast_radius import RadiusCounts
from quotaform.core.fleet_report import FleetReport
from quotaform.core.limit_change import LimitDirection
from quotaform.views.plan.blast_radius_text import affected_text, direction_text

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
