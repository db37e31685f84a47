"""What becomes of snapshots that are appended to a history, and what a history says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

import msgspec

from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.records.document import HISTORY, HISTORY_APPEND, HISTORY_DIFF
from quotaform.model.records.field import Address, QuotaKeyName
from quotaform.model.records.record import Count, Digest, Double, Moment, Record, about, derived, dump_record

ClusterName: TypeAlias = Annotated[str, about("The name of the cluster.")]
TableName: TypeAlias = Annotated[str, about("The history, as given.")]


class Append(StrEnum):
    """What became of a snapshot that could be read.

    | status | the history |
    | --- | --- |
    | appended | knows it now, as the last one of its cluster |
    | late | knows it now, and knew a later one of its cluster |
    | known | knew one of the same cluster and time already; nothing changed |
    """

    APPENDED = "appended"
    LATE = "late"
    KNOWN = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedSnapshot:
    """What became of one snapshot."""

    cluster: str | None  # What the cluster is called; `None` of a file that could not be read
    file: str | None = None  # The file it was read from; `None` for a running cluster
    status: Append | None = None  # What became of it; `None` if it could not be read
    cluster_id: str | None = None
    read_at: datetime | None = None  # When the cluster was read
    values: int = 0  # How many values it holds
    error: QuotaformError | None = None  # Why it could not be read


@dataclass(frozen=True, slots=True)
class HistoryAppend:
    """What became of an append."""

    table: str  # The history, as it was given
    snapshots: tuple[AppendedSnapshot, ...]
    """What became of each snapshot, by cluster and time; those that failed come last."""
    problems: tuple[str, ...] = ()  # Receipts that could not be read, and why

    def count(self, status: Append) -> int:
        """How many snapshots became this."""
        return sum(each.status is status for each in self.snapshots)

    @property
    def failed(self) -> tuple[AppendedSnapshot, ...]:
        """The snapshots that could not be read."""
        return tuple(each for each in self.snapshots if each.error is not None)


class AppendedRecord(Record):
    """A snapshot and what became of it."""

    cluster: Annotated[str | None, about("The name of the cluster; null of a file that could not be read.")]
    cluster_id: Annotated[str | None, about("The id of the cluster; null if it could not be read.")]
    file: Annotated[str | None, about("The file, as given; null for a running cluster.")]
    read_at: Annotated[Moment | None, about("When the cluster was read, or null.")]
    status: Annotated[
        Literal["appended", "late", "known", "failed"],
        about(
            "appended: it is the last one of its cluster; late: a later one was known; known: one of the same cluster "
            "and time was known, and nothing changed; failed: it could not be read."
        ),
    ]
    values: Annotated[Count, about("The number of its values.")]
    error: Annotated[str | None, about("Why it could not be read, or null.")]

    @classmethod
    def of(cls, each: AppendedSnapshot) -> Self:
        """Return the record."""
        return cls(
            cluster=each.cluster,
            cluster_id=each.cluster_id,
            file=each.file,
            read_at=each.read_at,
            status="failed" if each.status is None else each.status.value,
            values=each.values,
            error=None if each.error is None else str(each.error),
        )


class AppendSummary(Record):
    """Snapshots by what became of them."""

    appended: Annotated[Count, about("Snapshots that are appended.")]
    late: Annotated[Count, about("Snapshots that are late.")]
    known: Annotated[Count, about("Snapshots that are known.")]
    failed: Annotated[Count, about("Failed ones.")]


class AppendDocument(Record, document=HISTORY_APPEND):
    """The result of quotaform history append."""

    table: TableName
    summary: AppendSummary
    snapshots: Annotated[
        list[AppendedRecord], about("The snapshots, by cluster and time; those that failed come last.")
    ]
    receipt_problems: Annotated[list[str], about("Why receipts could not be read.")]


def dump_append(result: HistoryAppend) -> str:
    """Return what became of an append as JSON."""
    record = AppendDocument(
        table=result.table,
        summary=AppendSummary(**{each.value: result.count(each) for each in Append}, failed=len(result.failed)),
        snapshots=list(map(AppendedRecord.of, result.snapshots)),
        receipt_problems=list(result.problems),
    )
    return dump_record(record)


class Changer(Record):
    """Who changed a value, as a receipt says."""

    actor: Annotated[str, about("The user of the CI system, or of the operating system.")]
    plan_id: Annotated[Digest, about("The id of the plan.")]
    commit: Annotated[str | None, about("The git commit of the files, or null.")]
    at: Annotated[Moment, about("When the apply was finished, as ISO 8601 in UTC.")]


class HistoryRow(Record):
    """A value and when it was there."""

    cluster: ClusterName
    cluster_id: Annotated[str, about("The id of the cluster then.")]
    address: Address = derived(lambda row: row.entity.address)
    entity: Entity
    key: QuotaKeyName
    value: Double
    valid_from: Annotated[Moment, about("The time of the first snapshot with it, as ISO 8601 in UTC.")]
    valid_to: Annotated[
        Moment | None, about("The time of the first snapshot without it; null if the last one has it.")
    ] = None
    changed_by: Annotated[Changer | None, about("Who set it, or null if no receipt says so.")] = None
    ended_by: Annotated[Changer | None, about("Who replaced or removed it, or null.")] = None


class EntityHistory(Record, document=HISTORY):
    """The result of quotaform history show."""

    table: TableName
    since: Annotated[Moment | None, about("The time of the first snapshot of the clusters, or null.")]
    until: Annotated[Moment | None, about("The time of the last one, or null.")]
    entities: Annotated[tuple[Address, ...], about("The entities that were asked for; empty for all.")]
    total: Annotated[Count, about("The number of rows, of which at most 1000 are listed.")]
    rows: Annotated[tuple[HistoryRow, ...], about("The first rows, by cluster, entity, key and time.")]


class HistoryChange(Record):
    """A value that differs."""

    cluster: ClusterName
    address: Address = derived(lambda row: row.entity.address)
    entity: Entity
    key: QuotaKeyName
    before: Annotated[Double | None, about("The value before, or null.")]
    after: Annotated[Double | None, about("The value after, or null.")]
    changed_at: Annotated[Moment | None, about("The time of the snapshot that showed the last change, or null.")]
    changed_by: Annotated[Changer | None, about("Who made it, or null if no receipt says so.")] = None


class Coverage(Record):
    """The last snapshots of a cluster at or before the two times."""

    cluster: ClusterName
    is_compared: Annotated[
        bool, about("False if it has no snapshot at or before the earlier time: then no changes.")
    ] = derived(lambda each: each.before_at is not None, name="compared")
    first_at: Annotated[Moment, about("The time of its first snapshot, as ISO 8601 in UTC.")]
    before_at: Annotated[Moment | None, about("That of the earlier time; null if there is none.")]
    after_at: Annotated[Moment | None, about("That of the later time; null if there is none.")]


class DifferenceSummary(Record):
    """Numbers of values, and of their entities."""

    created: Annotated[Count, about("Values that were set.")]
    updated: Annotated[Count, about("Values that are others.")]
    deleted: Annotated[Count, about("Values that were removed.")]
    entities: Annotated[Count, about("The entities that they belong to.")]

    @property
    def total(self) -> int:
        """How many values differ."""
        return self.created + self.updated + self.deleted


class HistoryDifference(Record, document=HISTORY_DIFF):
    """The result of quotaform history diff."""

    table: TableName
    since: Annotated[Moment, about("The earlier time, as ISO 8601 in UTC.")]
    until: Annotated[Moment, about("The later time, as ISO 8601 in UTC.")]
    clusters: Annotated[tuple[Coverage, ...], about("Which snapshots were compared.")]
    summary: DifferenceSummary
    rows: Annotated[tuple[HistoryChange, ...], about("The first 1000 changes, by cluster, entity and key.")] = (
        msgspec.field(name="changes")
    )
