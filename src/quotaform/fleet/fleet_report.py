"""The report of a run over many clusters, made of the digests of its results and nothing of the size of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from re import compile as regex
from re import escape
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import field
from msgspec.structs import replace

from quotaform.model.errors import ClusterIdError, NotReadError, PlanBlockedError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.records.document import FLEET_REPORT, document_lines
from quotaform.model.records.record import Count, Record, about, builtins, written
from quotaform.plan.blast_radius import LimitDirection, RadiusCounts
from quotaform.plan.digest import (
    ClusterDigest,
    ClusterName,
    Differences,
    Entities,
    ErrorRecord,
    FleetRow,
    FleetStatus,
    RuleName,
)

MOST_LARGEST: Final = 10
"""How many of the clusters with the most differences are listed."""

_SERVER: Final = regex(r"\S+:\d+")
_NUMBER: Final = regex(r"\d+(?:\.\d+)?")
_ORDER: Final = {status: place for place, status in enumerate(FleetStatus)}

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


class FleetReport(Record, document=FLEET_REPORT, omit_defaults=True):
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

    @property
    def statuses(self) -> Mapping[FleetStatus, int]:
        """How many clusters have each status that the command knows."""
        known = ((status, status.value.replace("-", "_")) for status in FleetStatus)
        return {status: self.clusters[name] for status, name in known if name in self.clusters}

    def by_severity(self) -> Sequence[FleetRow]:
        """Return the rows, the most severe status first, then those with the most differences."""
        return sorted(self.rows, key=lambda row: (_ORDER[row.status], -row.differences, row.cluster))

    def by_size(self) -> Sequence[FleetRow]:
        """Return the rows of the clusters with the most differences."""
        rows = {row.cluster: row for row in self.rows}
        return [rows[each.cluster] for each in self.largest]

    def by_tightening(self) -> Sequence[tuple[str, RadiusCounts]]:
        """Return the clusters whose principals get other limits: those with the most tighter ones first."""
        radii = [(row.cluster, row.blast_radius) for row in self.rows]
        found = [(cluster, radius) for cluster, radius in radii if radius is not None and radius.affected]
        return sorted(found, key=lambda each: (-_tightened(each[1]), -each[1].affected, each[0]))


_LISTS: Final = frozenset({"blocked", "errors", "largest", "rows"})


def fleet_report_lines(report: FleetReport) -> Iterator[str]:
    """Yield a report as JSON, with one line per cluster."""
    return document_lines(builtins(report).items(), _LISTS)


def _tightened(radius: RadiusCounts) -> int:
    return sum(radius.counts[each].principals for each in (LimitDirection.NEWLY_LIMITED, LimitDirection.LOWER))


def make_fleet_report(
    command: Literal["plan", "drift", "apply"],
    outcomes: Iterable[ClusterOutcome[ClusterDigest]],
    *,
    error: QuotaformError | None = None,
) -> FleetReport:
    """Return the report of a run, made of outcomes with digests.

    `error`: What ended the run as a whole.
    """
    known, found = COMMANDS[command], list(outcomes)
    rows = tuple(map(_row, found))
    tally = Counter(row.status for row in rows)
    snapshots = [row for row in rows if row.is_snapshot and _moment(row) is not None]
    oldest = min(snapshots, key=lambda row: (_moment(row), row.cluster), default=None)
    changed = (row for row in rows if row.differences)
    largest = nsmallest(MOST_LARGEST, changed, key=lambda row: (-row.differences, row.cluster))
    radii = [radius for row in rows if (radius := row.blast_radius) is not None]
    return FleetReport(
        command=command,
        is_interrupted=any(
            isinstance(each.error, NotReadError) or (each.value is not None and each.value.interrupted_by is not None)
            for each in found
        ),
        error=None if error is None else ErrorRecord.of(error),
        clusters={
            "total": len(rows),
            **{each.value.replace("-", "_"): tally[each] for each in FleetStatus if each in known.statuses},
        },
        totals={name: sum((row.entities or {}).get(name, 0) for row in rows) for name in known.counts},
        oldest=None if oldest is None else OldestSnapshot(cluster=oldest.cluster, captured_at=oldest.read_at or ""),
        blocked=_blocked(rows),
        errors=_errors(rows),
        largest=tuple(LargestCluster(cluster=row.cluster, differences=row.differences) for row in largest),
        blast_radius=RadiusCounts.sum(radii) if radii else None,
        rows=rows,
    )


def _row(outcome: ClusterOutcome[ClusterDigest]) -> FleetRow:
    error = outcome.error
    if error is None:
        # Saved plans and the command line may call a cluster differently.
        return replace(outcome.require().row, cluster=outcome.cluster)
    rules = _rules(error)
    status = FleetStatus.BLOCKED if rules else FleetStatus.FAILED
    return FleetRow(
        cluster=outcome.cluster,
        status=FleetStatus.NOT_REACHED if isinstance(error, NotReadError) else status,
        rules=rules,
        error=ErrorRecord.of(error),
    )


def _rules(error: QuotaformError) -> tuple[str, ...]:
    """Return the rules that an error is about; none, if it is not that something is blocked."""
    if isinstance(error, PlanBlockedError):
        return tuple(sorted({finding.rule for finding in error.findings if finding.blocking}))
    return (error.finding.rule,) if isinstance(error, ClusterIdError) else ()


class Command(NamedTuple):
    """What a command counts: clusters with each status, and entities."""

    statuses: frozenset[FleetStatus]
    counts: tuple[str, ...]


_ALWAYS: Final = frozenset({FleetStatus.FAILED, FleetStatus.NOT_REACHED, FleetStatus.BLOCKED})

COMMANDS: Final[Mapping[str, Command]] = {
    "plan": Command(
        _ALWAYS | {FleetStatus.CHANGE, FleetStatus.UNCHANGED},
        ("create", "update", "delete", "unchanged", "undeclared"),
    ),
    "drift": Command(
        _ALWAYS | {FleetStatus.UNKNOWN, FleetStatus.DRIFT, FleetStatus.IN_SYNC},
        ("modified", "missing", "unexpected", "pending", "ignored", "in_sync"),
    ),
    "apply": Command(
        _ALWAYS | {FleetStatus.INCOMPLETE, FleetStatus.APPLIED, FleetStatus.UNCHANGED},
        ("create", "update", "delete", "already_applied", "not_in_effect"),
    ),
}
"""The commands that have a report."""


def _blocked(rows: Iterable[FleetRow]) -> tuple[RuleBlocks, ...]:
    found: dict[str, list[str]] = {}
    for row in rows:
        for name in row.rules:
            found.setdefault(name, []).append(row.cluster)
    blocks = (RuleBlocks(rule=name, clusters=tuple(clusters)) for name, clusters in found.items())
    return tuple(sorted(blocks, key=lambda each: (-len(each.clusters), each.rule)))


def _errors(rows: Iterable[FleetRow]) -> tuple[ErrorGroup, ...]:
    found: dict[tuple[str, str], tuple[ErrorRecord, list[str]]] = {}
    for row in rows:
        if row.error is not None and row.status is FleetStatus.FAILED:
            kind = row.error.type, _likeness(row.error, row.cluster)
            found.setdefault(kind, (row.error, []))[1].append(row.cluster)
    groups = (
        ErrorGroup(type=error.type, exit_code=error.exit_code, message=error.message, clusters=tuple(clusters))
        for error, clusters in found.values()
    )
    return tuple(sorted(groups, key=lambda each: -len(each.clusters)))


def _likeness(error: ErrorRecord, cluster: str) -> str:
    """Return what errors of the same kind have in common: the first line without cluster, servers and numbers."""
    unnamed = regex(rf"(?<![\w-]){escape(cluster)}(?![\w-])").sub("", error.head)
    return _NUMBER.sub("", _SERVER.sub("", unnamed))


def _moment(row: FleetRow) -> datetime | None:
    """Return when a snapshot was captured, if what it says is a time with a zone."""
    try:
        moment = datetime.fromisoformat(row.read_at or "")
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment
