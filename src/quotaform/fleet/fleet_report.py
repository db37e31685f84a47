"""What a run over many clusters amounts to, made of the digests of its results and nothing of the size of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from heapq import nsmallest
from re import compile as regex
from re import escape
from typing import Any, Final

from quotaform.drift.drift import DriftDigest
from quotaform.model import rule
from quotaform.model.errors import ClusterIdError, NotReadError, PlanBlockedError, QuotaformError
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.quotas import Action
from quotaform.plan.blast_radius import LimitDirection, RadiusCounts
from quotaform.plan.plan import PlanDigest
from quotaform.plan.receipt import ReceiptDigest, Result

MOST_LARGEST: Final = 10
"""How many of the clusters with the most differences are listed."""

_SERVER: Final = regex(r"\S+:\d+")
_NUMBER: Final = regex(r"\d+(?:\.\d+)?")


class FleetStatus(StrEnum):
    """What became of one cluster, the most severe first.

    | status | of | |
    | --- | --- | --- |
    | failed | all | an error, and no result |
    | not-reached | all | the run was interrupted before |
    | unknown | drift | it is not the cluster that the files are for |
    | incomplete | apply | not all changes are in effect |
    | blocked | plan, apply | findings block the plan |
    | change | plan | there is something to apply |
    | applied | apply | all changes are in effect |
    | drift | drift | entities differ |
    | unchanged | plan, apply | there is nothing to apply |
    | in-sync | drift | no entity differs |
    """

    FAILED = "failed"
    NOT_REACHED = "not-reached"
    UNKNOWN = "unknown"
    INCOMPLETE = "incomplete"
    BLOCKED = "blocked"
    CHANGE = "change"
    APPLIED = "applied"
    DRIFT = "drift"
    UNCHANGED = "unchanged"
    IN_SYNC = "in-sync"


_ORDER: Final = {status: place for place, status in enumerate(FleetStatus)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """What became of one cluster."""

    cluster: str
    status: FleetStatus
    cluster_id: str | None = None  # The id that it gave itself; `None` after an error
    read_at: str | None = None  # When it or its snapshot was read; `None` after an error, and of an apply
    is_snapshot: bool = False  # Whether a snapshot was read in its place
    counts: Mapping[str, int]  # How many entities there are of each kind that the command counts; empty after an error
    differences: int = 0  # How many entities differ, or were to be changed
    rules: tuple[str, ...] = ()  # The rules that block it
    is_interrupted: bool = False  # Whether an interrupt cut it short or left it out
    blast_radius: RadiusCounts | None = None
    """How many limits of those who really connect change; `None` if nobody asked, and after an error."""
    error: QuotaformError | None = None


@dataclass(frozen=True, slots=True)
class RuleBlocks:
    """A rule and the clusters that it blocks."""

    rule: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errors that differ in nothing but the names of clusters and servers, and in numbers."""

    error: QuotaformError  # That of the first cluster
    clusters: tuple[str, ...]  # The clusters that have such an error


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """What a run over clusters amounts to."""

    command: str  # One of `COMMANDS`
    rows: tuple[FleetRow, ...]  # One per cluster, in the order of the run
    statuses: Mapping[FleetStatus, int]  # How many clusters have each status that the command knows
    totals: Mapping[str, int]  # The counts of all clusters together
    blocked: tuple[RuleBlocks, ...] = ()  # What blocks clusters, the rule with the most clusters first
    errors: tuple[ErrorGroup, ...] = ()  # Why clusters have no result, what is true of the most clusters first
    oldest: FleetRow | None = None  # The cluster whose snapshot is the oldest, of those whose time is known
    largest: tuple[FleetRow, ...] = ()  # The clusters with the most differences, at most `MOST_LARGEST`
    blast_radius: RadiusCounts | None = None  # The counts of all clusters together; `None` if nobody asked
    error: QuotaformError | None = None  # What ended the run as a whole

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt cut the run short."""
        return any(row.is_interrupted for row in self.rows)

    def by_severity(self) -> Sequence[FleetRow]:
        """Return the rows, the most severe status first, then those with the most differences."""
        return sorted(self.rows, key=lambda row: (_ORDER[row.status], -row.differences, row.cluster))

    def by_tightening(self) -> Sequence[tuple[str, RadiusCounts]]:
        """Return the clusters whose principals get other limits: those with the most tighter ones first."""
        found = [(row.cluster, row.blast_radius) for row in self.rows if row.blast_radius and row.blast_radius.affected]
        return sorted(found, key=lambda each: (-_tightened(each[1]), -each[1].affected, each[0]))


def _tightened(radius: RadiusCounts) -> int:
    return sum(radius.counts[each].principals for each in (LimitDirection.NEWLY_LIMITED, LimitDirection.LOWER))


def make_fleet_report(
    command: str,
    outcomes: Iterable[ClusterOutcome[Any]],
    *,
    error: QuotaformError | None = None,
) -> FleetReport:
    """Return what a run amounts to.

    `error`: What ended the run as a whole.
    """
    known = COMMANDS[command]
    rows = tuple(_row(outcome, known.read) for outcome in outcomes)
    tally = Counter(row.status for row in rows)
    snapshots = [row for row in rows if row.is_snapshot and _moment(row) is not None]
    changed = (row for row in rows if row.differences)
    radii = [row.blast_radius for row in rows if row.blast_radius is not None]
    return FleetReport(
        command=command,
        rows=rows,
        statuses={status: tally[status] for status in FleetStatus if status in known.statuses},
        totals={name: sum(row.counts.get(name, 0) for row in rows) for name in known.counts},
        blocked=_blocked(rows),
        errors=_errors(rows),
        oldest=min(snapshots, key=lambda row: (_moment(row), row.cluster), default=None),
        largest=tuple(nsmallest(MOST_LARGEST, changed, key=lambda row: (-row.differences, row.cluster))),
        blast_radius=RadiusCounts.sum(radii) if radii else None,
        error=error,
    )


def _row(outcome: ClusterOutcome[Any], read: Callable[[str, Any], FleetRow]) -> FleetRow:
    error = outcome.error
    if error is None:
        return read(outcome.cluster, outcome.require())
    rules = _rules(error)
    status = FleetStatus.BLOCKED if rules else FleetStatus.FAILED
    is_left_out = isinstance(error, NotReadError)
    return FleetRow(
        cluster=outcome.cluster,
        status=FleetStatus.NOT_REACHED if is_left_out else status,
        counts={},
        rules=rules,
        is_interrupted=is_left_out,
        error=error,
    )


def _rules(error: QuotaformError) -> tuple[str, ...]:
    """Return the rules that an error is about; none, if it is not that something is blocked."""
    if isinstance(error, PlanBlockedError):
        return tuple(sorted({finding.rule for finding in error.findings if finding.blocking}))
    return (error.finding.rule,) if isinstance(error, ClusterIdError) else ()


def _planned(cluster: str, plan: PlanDigest) -> FleetRow:
    status = FleetStatus.CHANGE if plan.changes else FleetStatus.UNCHANGED
    return FleetRow(
        cluster=cluster,
        status=status if plan.is_applyable else FleetStatus.BLOCKED,
        cluster_id=plan.cluster_id,
        read_at=plan.read_at,
        is_snapshot=plan.is_snapshot,
        counts={
            **{name: plan.summary[name] for name in ("create", "update", "delete")},
            "unchanged": plan.summary["no_op"],
            "undeclared": plan.undeclared,
        },
        differences=plan.changes,
        rules=plan.blocking,
        blast_radius=plan.blast_radius,
    )


def _compared(cluster: str, drift: DriftDigest) -> FleetRow:
    if not drift.is_known:
        return FleetRow(
            cluster=cluster,
            status=FleetStatus.UNKNOWN,
            cluster_id=drift.cluster_id,
            read_at=drift.read_at,
            is_snapshot=drift.is_snapshot,
            counts={},
            rules=(rule.CLUSTER_ID.id,),
        )
    return FleetRow(
        cluster=cluster,
        status=FleetStatus.DRIFT if drift.entities else FleetStatus.IN_SYNC,
        cluster_id=drift.cluster_id,
        read_at=drift.read_at,
        is_snapshot=drift.is_snapshot,
        counts={**drift.summary, "pending": drift.pending, "ignored": drift.ignored, "in_sync": drift.in_sync},
        differences=drift.entities,
    )


def _applied(cluster: str, receipt: ReceiptDigest) -> FleetRow:
    if not receipt.is_complete:
        status = FleetStatus.INCOMPLETE
    else:
        status = FleetStatus.APPLIED if receipt.entities else FleetStatus.UNCHANGED
    already = receipt.tally.get(Result.ALREADY_APPLIED, 0)
    return FleetRow(
        cluster=cluster,
        status=status,
        cluster_id=receipt.cluster_id,
        counts={
            **{action.value: receipt.applied[action] for action in (Action.CREATE, Action.UPDATE, Action.DELETE)},
            "already_applied": already,
            "not_in_effect": receipt.entities - already - sum(receipt.applied.values()),
        },
        differences=receipt.entities,
        is_interrupted=receipt.interrupted_by is not None,
    )


@dataclass(frozen=True, slots=True)
class Command:
    """A command whose runs are reported. `read` returns the row of a cluster and its digest."""

    read: Callable[[str, Any], FleetRow]
    statuses: frozenset[FleetStatus]
    counts: tuple[str, ...]


_ALWAYS: Final = frozenset({FleetStatus.FAILED, FleetStatus.NOT_REACHED, FleetStatus.BLOCKED})

COMMANDS: Final[Mapping[str, Command]] = {
    "plan": Command(
        _planned,
        _ALWAYS | {FleetStatus.CHANGE, FleetStatus.UNCHANGED},
        ("create", "update", "delete", "unchanged", "undeclared"),
    ),
    "drift": Command(
        _compared,
        _ALWAYS | {FleetStatus.UNKNOWN, FleetStatus.DRIFT, FleetStatus.IN_SYNC},
        ("modified", "missing", "unexpected", "pending", "ignored", "in_sync"),
    ),
    "apply": Command(
        _applied,
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
    blocks = (RuleBlocks(name, tuple(clusters)) for name, clusters in found.items())
    return tuple(sorted(blocks, key=lambda each: (-len(each.clusters), each.rule)))


def _errors(rows: Iterable[FleetRow]) -> tuple[ErrorGroup, ...]:
    found: dict[tuple[str, str], tuple[QuotaformError, list[str]]] = {}
    for row in rows:
        if row.error is not None and row.status is FleetStatus.FAILED:
            kind = type(row.error).__name__, _likeness(row.error, row.cluster)
            found.setdefault(kind, (row.error, []))[1].append(row.cluster)
    groups = (ErrorGroup(error, tuple(clusters)) for error, clusters in found.values())
    return tuple(sorted(groups, key=lambda each: -len(each.clusters)))


def error_head(error: QuotaformError) -> str:
    """Return the first line of an error."""
    return str(error).partition("\n")[0]


def _likeness(error: QuotaformError, cluster: str) -> str:
    """Return what errors of the same kind have in common: the first line without cluster, servers and numbers."""
    unnamed = regex(rf"(?<![\w-]){escape(cluster)}(?![\w-])").sub("", error_head(error))
    return _NUMBER.sub("", _SERVER.sub("", unnamed))


def _moment(row: FleetRow) -> datetime | None:
    """Return when a snapshot was captured, if what it says is a time with a zone."""
    try:
        moment = datetime.fromisoformat(row.read_at or "")
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment
