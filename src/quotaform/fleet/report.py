"""The report of a run over many clusters, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quotaform.fleet.fleet_report import COMMANDS, FleetReport
from quotaform.model.entity import spell_name
from quotaform.model.text import inert, listed, option_of
from quotaform.plan.blast_radius import LimitDirection, RadiusCounts
from quotaform.plan.digest import FleetRow, FleetStatus
from quotaform.plan.report import TITLE, affected_text, direction_text, source_text
from quotaform.report.report import Bar, Cell, Coloured, Column, ColumnKind, Number, Report, Section, Table
from quotaform.report.text import counted

_MOST_NAMES: Final = 10
"""How many clusters are named where several have something in common."""
_MOST_GROUPS: Final = 20
"""How many rules, and how many errors, are listed."""
_FEW_ROWS: Final = 20
"""In a table of no more clusters than this, those with the most differences are easy to see."""
_LONGEST_NAME: Final = 40
_LONGEST_ERROR: Final = 500
_HINT: Final = f"{option_of('report')} json=report.json writes all of them"

_WORDS: Final = {FleetStatus.CHANGE: "to change", FleetStatus.DRIFT: "with drift"}
_SEVERE: Final = frozenset(list(FleetStatus)[: list(FleetStatus).index(FleetStatus.CHANGE)])
_COLOURS: Final = {**dict.fromkeys(_SEVERE, "red"), **dict.fromkeys(_WORDS, "yellow")}


def fleet_report(report: FleetReport) -> Report:
    """Return what a report says: what blocks, errors, and a row for each cluster, the most severe status first."""
    blocked, errors = report.blocked[:_MOST_GROUPS], report.errors[:_MOST_GROUPS]
    name, is_large = Column("names", ColumnKind.NAME), len(report.rows) > _FEW_ROWS
    tables = (
        Table(
            "Blocked by",
            ("rule", "clusters", name),
            tuple((each.rule, *_clusters(each.clusters)) for each in blocked),
            total=len(report.blocked),
            hint=_HINT,
        ),
        Table(
            "Errors",
            (Column("error", ColumnKind.DETAIL), "clusters", name),
            tuple((inert(each.head)[:_LONGEST_ERROR], *_clusters(each.clusters)) for each in errors),
            total=len(report.errors),
            hint=_HINT,
        ),
        _radii(report),
        _rows(report, "Clusters with the most differences", report.by_size() if is_large else ()),
        _rows(report, "All clusters", report.by_severity()),
    )
    return Report(
        title=f"Kafka quota {report.command} for {counted(len(report.rows), 'cluster')}",
        state=_statuses(report),
        about=tuple(_about(report)),
        sections=tuple(Section(table) for table in tables if table.rows),
        nothing="No cluster was reached.",
    )


def _about(report: FleetReport) -> Iterator[str]:
    yield f"Report of quotaform {report.command}: {counted(len(report.rows), 'cluster')}"
    if report.is_interrupted:
        yield "The run was interrupted; this is what was known then."
    if report.error is not None:
        yield f"The run failed: {inert(report.error.head)}"
    yield f"Clusters: {_statuses(report)}"
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.totals.items())
    yield f"Entities: {counts}"
    if (oldest := report.oldest) is not None:
        yield f"Oldest snapshot: {inert(oldest.captured_at)} ({spell_name(oldest.cluster)})"
    if (radius := report.blast_radius) is not None:
        more = " Principals count once per cluster." if len(report.rows) > 1 else ""
        yield f"{TITLE}: {affected_text(radius, inert(source_text(radius)))}{more}"


def _statuses(report: FleetReport) -> str:
    """Return how many clusters have each status, without those that none has."""
    parts = [f"{count:,} {_word(status)}" for status, count in report.statuses.items() if count]
    return ", ".join(parts) or "none"


def _word(status: FleetStatus) -> str:
    return _WORDS.get(status, status.value.replace("-", " "))


def _clusters(clusters: Sequence[str]) -> tuple[Cell, Cell]:
    return _number(len(clusters)), listed(map(_short, clusters), _MOST_NAMES)


def _number(number: int) -> Number:
    return Number(f"{number:,}", number)


def _short(cluster: str) -> str:
    name = spell_name(cluster)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _radii(report: FleetReport) -> Table:
    """Return whose limits change, in the directions that any principal has."""
    total = report.blast_radius
    directions = [each for each in LimitDirection if total is not None and total.counts[each].principals]

    def cells(radius: RadiusCounts) -> Iterator[Number]:
        yield _number(radius.principals)
        yield _number(radius.affected)
        yield from (_number(radius.counts[each].principals) for each in directions)

    return Table(
        "Principals whose limits change",
        (Column("cluster", ColumnKind.NAME), "principals", "affected", *map(direction_text, directions)),
        tuple((spell_name(cluster), *cells(radius)) for cluster, radius in report.by_tightening()),
        hint=_HINT,
    )


def _rows(report: FleetReport, caption: str, rows: Sequence[FleetRow]) -> Table:
    counts = COMMANDS[report.command].counts
    most = max((row.differences for row in report.rows), default=0) or 1
    return Table(
        caption,
        (
            Column("cluster", ColumnKind.NAME),
            "status",
            Column("differences", ColumnKind.PAGE),
            "chart",
            *(name.replace("_", " ") for name in counts),
            Column("why", ColumnKind.PAGE),
        ),
        tuple(_row(row, counts, most) for row in rows),
        hint=_HINT,
    )


def _row(row: FleetRow, counts: Sequence[str], most: int) -> tuple[Cell, ...]:
    found = row.entities or {}
    why = ", ".join(row.rules) if row.error is None else inert(row.error.message)
    return (
        spell_name(row.cluster),
        Coloured(_word(row.status), _COLOURS.get(row.status)),
        _number(row.differences),
        Bar(value=row.differences, scale=most, is_severe=row.error is not None or bool(row.rules)),
        *(_number(found[name]) if name in found else Number("-", -1.0) for name in counts),
        why or "-",
    )
