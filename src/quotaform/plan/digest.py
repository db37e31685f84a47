"""What is kept of the result of each cluster where many are planned, compared or applied: a row, and a few numbers.

Nothing of it grows with the entities of a cluster, so that a run over thousands of clusters stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Struct

from quotaform.model.errors import ExitCode, QuotaformError
from quotaform.model.records.record import ClusterName, Count, Record, about, written
from quotaform.plan.blast_radius import RadiusCounts


class FleetStatus(StrEnum):
    """What became of one cluster, the most severe first."""

    FAILED = "failed"  # An error, and no result
    NOT_REACHED = "not-reached"  # The run was interrupted before
    UNKNOWN = "unknown"  # Drift: it is not the cluster that the files are for
    INCOMPLETE = "incomplete"  # Apply: not all changes are in effect
    BLOCKED = "blocked"  # Plan, apply: findings block the plan
    CHANGE = "change"  # Plan: there is something to apply
    APPLIED = "applied"  # Apply: all changes are in effect
    DRIFT = "drift"  # Drift: entities differ
    UNCHANGED = "unchanged"  # Plan, apply: there is nothing to apply
    IN_SYNC = "in-sync"  # Drift: no entity differs


RuleName = Annotated[str, about("The rule.", "delete")]
Entities = Annotated[Mapping[str, Count], about("The number of entities of each kind that the command counts.")]
Differences = Annotated[Count, about("The number of entities to change, or that differ, or that were to be changed.")]


class ErrorRecord(Record):
    """An error."""

    type: Annotated[str, about("The kind of error.", "ConnectError")]
    exit_code: Annotated[int, about("The exit code of this error alone.")]
    message: Annotated[str, about("The error and its remedy.")]

    @classmethod
    def of(cls, error: QuotaformError) -> ErrorRecord:
        """Return the record. An error of the files as a whole is that of every cluster, and so it is cut."""
        return cls(type=type(error).__name__, exit_code=int(error.exit_code), message=str(error)[:2_000])

    @property
    def head(self) -> str:
        """Its first line."""
        return self.message.partition("\n")[0]


class FleetRow(Record, omit_defaults=True):
    """What became of one cluster."""

    cluster: ClusterName
    cluster_id: Annotated[str | None, about("The id that it gave itself; null after an error.")] = written(
        default=None, name="id"
    )
    status: Annotated[
        FleetStatus,
        about(
            "What became of it. failed, not-reached: no result. unknown: not the cluster that the files are for. "
            "incomplete: not all changes are in effect. blocked: findings block the plan. change, drift: entities "
            "differ. applied, unchanged, in-sync: nothing is left to do."
        ),
    ]
    read_at: Annotated[str | None, about("When it or its snapshot was read; null after an error, and of an apply.")] = (
        written(default=None)
    )
    is_snapshot: Annotated[bool, about("Whether a snapshot was read in its place.")] = written(
        default=False, name="snapshot"
    )
    entities: Annotated[Entities | None, about("The number of entities; null after an error.")] = written(default=None)
    differences: Differences = written(default=0)
    rules: Annotated[tuple[RuleName, ...], about("The rules that block it.")] = written(default=(), name="blocked_by")
    blast_radius: Annotated[
        RadiusCounts | None, about("That of its plan. Omitted if not asked for, or without a plan.")
    ] = None
    error: Annotated[ErrorRecord | None, about("Why there is no result; null if there is one.")] = written(default=None)


_EXIT_CODES: Final = {
    FleetStatus.UNKNOWN: ExitCode.ERROR,
    FleetStatus.BLOCKED: ExitCode.BLOCKED,
    FleetStatus.CHANGE: ExitCode.DIFFERENCES,
    FleetStatus.DRIFT: ExitCode.DIFFERENCES,
}


class ClusterDigest(Struct, frozen=True, kw_only=True):
    """What is kept of a plan, a drift or a receipt: its row of a fleet report, and what else a run counts."""

    row: FleetRow
    counts: Mapping[str, int]  # Its numbers, as a step of GitHub Actions has them
    plan_id: str = ""  # Of a plan, or that was applied
    fingerprint: str = ""  # Of a drift
    has_entities: bool = True  # Whether anything was compared
    is_partial: bool = False  # Of a drift, whether a selection may have left something out
    tally: Mapping[Any, int] = {}  # Of an apply, how many entities have each `Result`
    wrote_anything: bool = False  # Whether an apply changed something, or may have
    interrupted_by: str | None = None  # The signal that cut an apply short

    @property
    def cluster_id(self) -> str:
        """The id that the cluster gave itself."""
        return self.row.cluster_id or ""

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run that makes only this."""
        codes = {_EXIT_CODES.get(self.row.status, ExitCode.DONE)}
        if self.row.status is FleetStatus.INCOMPLETE:
            codes.add(ExitCode.PARTIAL if self.wrote_anything else ExitCode.ERROR)
        if self.interrupted_by is not None:
            codes.add(ExitCode.INTERRUPTED if self.interrupted_by == "SIGINT" else ExitCode.TERMINATED)
        return ExitCode.most_severe(codes)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that block a plan, as a `BlockedError` has them."""
        return self.row.rules if self.row.status is FleetStatus.BLOCKED else ()
