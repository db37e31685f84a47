"""The report of a run over many clusters: made of the digests of its results, as JSON and as text.

Nothing of it has the size of entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import nsmallest
from re import compile as regex
from re import escape
from typing import Annotated, Final, Literal

from msgspec import field
from msgspec.structs import asdict, replace

from quotaform.model.entity import spell_name
from quotaform.model.errors import BlockedError, NotReadError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.records.document import document_lines
from quotaform.model.records.record import ClusterName, Count, Record, about, builtins, written
from quotaform.model.text import inert, listed, option_of
from quotaform.plan.blast_radius import LimitDirection, RadiusCounts
from quotaform.plan.digest import (
    ClusterDigest,
    Differences,
    Entities,
    ErrorRecord,
    FleetRow,
    FleetStatus,
    RuleName,
)
from quotaform.plan.report import affected_text
from quotaform.report.report import Bar, Cell, Coloured, Column, ColumnKind, Columns, Number, Report, Table, sections_of
from quotaform.report.text import counted

MOST_LARGEST: Final = 10
"""How many of the clusters with the most differences are listed."""

ClusterNames = Annotated[tuple[str, ...], about("The names of the clusters.", min_length=1)]


class ErrorGroup(ErrorRecord):
    """Errors that differ in nothing but the names of clusters and servers, and in numbers; that of the first one."""

    clusters: ClusterNames


class RuleBlocks(Record):
    """A rule and the clusters that it blocks."""

    rule: RuleName
    clusters: ClusterNames


class OldestSnapshot(Record):
    """The oldest snapshot that was read."""

    cluster: ClusterName
    captured_at: Annotated[str, about("When it was captured.", "2026-11-20T09:12:44Z")]


class LargestCluster(Record):
    """A cluster with many differences."""

    cluster: ClusterName
    differences: Differences


class FleetReport(Record, document="fleet-report", omit_defaults=True):
    """The report of a run over clusters, as plan, drift and apply write it with --report."""

    command: Annotated[Literal["plan", "drift", "apply"], about("The command.")]
    is_interrupted: Annotated[bool, about("Whether the run was interrupted; the report is what was known then.")] = (
        field(name="interrupted")
    )
    error: Annotated[ErrorRecord | None, about("What ended the run as a whole; null if nothing did.")] = written(
        default=None
    )
    clusters: Annotated[
        Mapping[str, Count], about("The number of clusters: in total, and per status (with _ for -).", {"total": 12})
    ]
    totals: Annotated[Entities, about("The number of entities on all clusters together.")] = field(name="entities")
    oldest: Annotated[
        OldestSnapshot | None,
        about("Null if no snapshot was read in the place of a cluster, or none says when it was captured."),
    ] = written(default=None, name="oldest_snapshot")
    blocked: Annotated[
        tuple[RuleBlocks, ...], about("What blocks clusters, the rule with the most clusters first.")
    ] = written(default=())
    errors: Annotated[
        tuple[ErrorGroup, ...],
        about("Errors that differ only in names of clusters and servers and in numbers, the most frequent first."),
    ] = written(default=())
    largest: Annotated[
        tuple[LargestCluster, ...],
        about(f"The clusters with the most differences; at most {MOST_LARGEST}.", max_length=MOST_LARGEST),
    ] = written(default=())
    blast_radius: Annotated[
        RadiusCounts | None,
        about("That of all clusters together: a principal counts on each. Omitted if not asked for."),
    ] = None
    rows: Annotated[tuple[FleetRow, ...], about("One item per cluster, in the order of the run.")] = written(default=())


_COMMON: Final = {FleetStatus.FAILED, FleetStatus.NOT_REACHED, FleetStatus.BLOCKED}
_STATUSES: Final[Mapping[str, set[FleetStatus]]] = {
    "plan": _COMMON | {FleetStatus.CHANGE, FleetStatus.UNCHANGED},
    "drift": _COMMON | {FleetStatus.UNKNOWN, FleetStatus.DRIFT, FleetStatus.IN_SYNC},
    "apply": _COMMON | {FleetStatus.INCOMPLETE, FleetStatus.APPLIED, FleetStatus.UNCHANGED},
}
"""The statuses that the clusters of a command may have."""
_COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": ("create", "update", "delete", "unchanged", "undeclared"),
    "drift": ("modified", "missing", "unexpected", "pending", "ignored", "in_sync"),
    "apply": ("create", "update", "delete", "already_applied", "not_in_effect"),
}
"""The entities that a command counts."""


def fleet_report_lines(report: FleetReport) -> Iterator[str]:
    """Yield a report as JSON, with one line per cluster."""
    return document_lines(builtins(report).items(), frozenset({"blocked", "errors", "largest", "rows"}))


def make_fleet_report(
    command: Literal["plan", "drift", "apply"],
    outcomes: Iterable[ClusterOutcome[ClusterDigest]],
    *,
    error: QuotaformError | None = None,
) -> FleetReport:
    """Return the report of a run, made of outcomes with digests. `error`: what ended the run as a whole."""
    found = list(outcomes)
    rows = tuple(map(_row_of, found))
    tally = Counter(row.status for row in rows)
    snapshots = []
    for row in rows:
        with suppress(ValueError):
            # Of one without a time zone, it is not known.
            if row.is_snapshot and row.read_at and (captured := datetime.fromisoformat(row.read_at)).tzinfo:
                snapshots.append((captured, row.cluster, row.read_at))
    oldest = min(snapshots, default=None)
    changed = (row for row in rows if row.differences)
    largest = nsmallest(MOST_LARGEST, changed, key=lambda row: (-row.differences, row.cluster))
    statuses = {each.value.replace("-", "_"): tally[each] for each in FleetStatus if each in _STATUSES[command]}
    blocked: dict[str, list[str]] = {}
    for row in rows:
        for name in row.rules:
            blocked.setdefault(name, []).append(row.cluster)
    blocks = (RuleBlocks(rule=name, clusters=tuple(clusters)) for name, clusters in blocked.items())
    radii = [radius for row in rows if (radius := row.blast_radius) is not None]
    return FleetReport(
        command=command,
        is_interrupted=any(
            isinstance(each.error, NotReadError) or (each.value is not None and each.value.interrupted_by is not None)
            for each in found
        ),
        error=None if error is None else ErrorRecord.of(error),
        clusters={"total": len(rows), **statuses},
        totals={name: sum((row.entities or {}).get(name, 0) for row in rows) for name in _COUNTS[command]},
        oldest=None if oldest is None else OldestSnapshot(cluster=oldest[1], captured_at=oldest[2]),
        blocked=tuple(sorted(blocks, key=lambda each: (-len(each.clusters), each.rule))),
        errors=_errors(rows),
        largest=tuple(LargestCluster(cluster=row.cluster, differences=row.differences) for row in largest),
        blast_radius=RadiusCounts.sum(radii) if radii else None,
        rows=rows,
    )


def _row_of(outcome: ClusterOutcome[ClusterDigest]) -> FleetRow:
    error = outcome.error
    if error is None:
        # Saved plans and the command line may call a cluster differently.
        return replace(outcome.require().row, cluster=outcome.cluster)
    rules = error.rules if isinstance(error, BlockedError) else ()
    status = FleetStatus.BLOCKED if rules else FleetStatus.FAILED
    status = FleetStatus.NOT_REACHED if isinstance(error, NotReadError) else status
    return FleetRow(cluster=outcome.cluster, status=status, rules=rules, error=ErrorRecord.of(error))


_NUMBER: Final = regex(r"\S+:\d+|\d+(?:\.\d+)?")
"""A server, or a number."""


def _errors(rows: Iterable[FleetRow]) -> tuple[ErrorGroup, ...]:
    found: dict[tuple[str, str], tuple[ErrorRecord, list[str]]] = {}
    for row in rows:
        if row.error is not None and row.status is FleetStatus.FAILED:
            # What they have in common is the first line without cluster, servers and numbers.
            unnamed = regex(rf"(?<![\w-]){escape(row.cluster)}(?![\w-])").sub("", row.error.head)
            kind = row.error.type, _NUMBER.sub("", unnamed)
            found.setdefault(kind, (row.error, []))[1].append(row.cluster)
    groups = (ErrorGroup(**asdict(error), clusters=tuple(clusters)) for error, clusters in found.values())
    return tuple(sorted(groups, key=lambda each: -len(each.clusters)))


_MOST_NAMES: Final = 10
"""How many clusters are named where several have something in common."""
_MOST_GROUPS: Final = 20
"""How many rules, and how many errors, are listed."""
_LONGEST_NAME: Final = 40
_LONGEST_ERROR: Final = 500
_HINT: Final = f"{option_of('report')} json=report.json writes all of them"

_ORDER: Final = list(FleetStatus)
_WORDS: Final = {FleetStatus.CHANGE: "to change", FleetStatus.DRIFT: "with drift"}
_COLOURS: Final = {
    **dict.fromkeys(_ORDER[: _ORDER.index(FleetStatus.CHANGE)], "red"),
    **dict.fromkeys(_WORDS, "yellow"),
}


def fleet_report(report: FleetReport) -> Report:
    """Return what a report says: what blocks, errors, and a row for each cluster, the most severe status first."""
    rows = {row.cluster: row for row in report.rows}
    # In the order of severity, and then by differences.
    ordered = sorted(report.rows, key=lambda row: (_ORDER.index(row.status), -row.differences, row.cluster))
    # In a table of a few clusters, those with the most differences are easy to see.
    largest = [rows[each.cluster] for each in report.largest] if len(rows) > 20 else []
    errors = [(inert(each.head)[:_LONGEST_ERROR], each.clusters) for each in report.errors]
    tables = (
        _groups("Blocked by", "rule", [(each.rule, each.clusters) for each in report.blocked]),
        _groups("Errors", Column("error", ColumnKind.DETAIL), errors),
        _radii(report),
        _rows(report, "Clusters with the most differences", largest),
        _rows(report, "All clusters", ordered),
    )
    return Report(
        title=f"Kafka quota {report.command} for {counted(len(report.rows), 'cluster')}",
        state=_statuses(report),
        about=tuple(_about(report)),
        sections=sections_of(*tables),
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
        yield f"{affected_text(radius)}{more}"


def _statuses(report: FleetReport) -> str:
    known = ((status, report.clusters.get(status.value.replace("-", "_"))) for status in FleetStatus)
    return ", ".join(f"{count:,} {_word(status)}" for status, count in known if count) or "none"


def _word(status: FleetStatus) -> str:
    return _WORDS.get(status, status.value.replace("-", " "))


def _groups(caption: str, column: str | Column, found: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """Return what several clusters have in common, and which they are."""
    rows = []
    for text, clusters in found[:_MOST_GROUPS]:
        spelled = map(spell_name, clusters)
        names = (name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in spelled)
        rows.append((text, _number(len(clusters)), listed(names, _MOST_NAMES)))
    columns = (column, "clusters", Column("names", ColumnKind.NAME))
    return Table(caption, columns, tuple(rows), total=len(found), hint=_HINT)


def _number(number: int) -> Number:
    return Number(f"{number:,}", number)


def _radii(report: FleetReport) -> Table:
    """Return whose limits change, in the directions that any principal has: those with the most tighter ones first."""
    total = report.blast_radius
    directions = [each for each in LimitDirection if total is not None and total.counts[each].principals]
    found = []
    for row in report.rows:
        if (radius := row.blast_radius) is not None and radius.affected:
            by_direction = {each: radius.counts[each].principals for each in LimitDirection}
            tighter = by_direction[LimitDirection.NEWLY_LIMITED] + by_direction[LimitDirection.LOWER]
            numbers = (radius.principals, radius.affected, *(by_direction[each] for each in directions))
            found.append((-tighter, -radius.affected, row.cluster, numbers))
    return Table(
        "Principals whose limits change",
        (Column("cluster", ColumnKind.NAME), "principals", "affected", *(each.words for each in directions)),
        tuple((spell_name(cluster), *map(_number, numbers)) for _, _, cluster, numbers in sorted(found)),
        hint=_HINT,
    )


def _rows(report: FleetReport, caption: str, rows: Iterable[FleetRow]) -> Table:
    counts = _COUNTS[report.command]
    most = max((row.differences for row in report.rows), default=0) or 1
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        found = row.entities or {}
        why = ", ".join(row.rules) if row.error is None else inert(row.error.message)
        status = Coloured(_word(row.status), _COLOURS.get(row.status))
        bar = Bar(value=row.differences, scale=most, is_severe=row.error is not None or bool(row.rules))
        entities = (_number(found[name]) if name in found else Number("-", -1.0) for name in counts)
        cells.append((spell_name(row.cluster), status, _number(row.differences), bar, *entities, why or "-"))
    differences, reason = (Column(name, ColumnKind.PAGE) for name in ("differences", "why"))
    numbers = (name.replace("_", " ") for name in counts)
    columns: Columns = (Column("cluster", ColumnKind.NAME), "status", differences, "chart", *numbers, reason)
    return Table(caption, columns, tuple(cells), hint=_HINT)
