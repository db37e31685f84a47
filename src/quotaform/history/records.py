"""The JSON documents of histories."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec import convert, field

from quotaform.history.history import (
    Append,
    AppendedSnapshot,
    Changer,
    EntityHistory,
    HistoryAppend,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.model.records.document import HISTORY, HISTORY_APPEND, HISTORY_DIFF, indented
from quotaform.model.records.field import Address, Names, QuotaKeyName
from quotaform.model.records.record import Count, Moment, Record, Value, about, builtins

ClusterName = Annotated[str, about("The name of the cluster.")]
TableName = Annotated[str, about("The history, as given.")]


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
    return indented(builtins(record))


class HistoryRowRecord(Record):
    """A value and when it was there."""

    cluster: ClusterName
    cluster_id: Annotated[str, about("The id of the cluster then.")]
    address: Address
    entity: Names
    key: QuotaKeyName
    value: Value
    valid_from: Annotated[Moment, about("The time of the first snapshot with it, as ISO 8601 in UTC.")]
    valid_to: Annotated[Moment | None, about("The time of the first snapshot without it; null if the last one has it.")]
    changed_by: Annotated[Changer | None, about("Who set it, or null if no receipt says so.")]
    ended_by: Annotated[Changer | None, about("Who replaced or removed it, or null.")]

    @classmethod
    def of(cls, row: HistoryRow) -> Self:
        """Return the record."""
        return cls(
            cluster=row.cluster,
            cluster_id=row.cluster_id,
            address=row.entity.address,
            entity=row.entity.names,
            key=row.key,
            value=row.value,
            valid_from=row.valid_from,
            valid_to=row.valid_to,
            changed_by=row.changed_by,
            ended_by=row.ended_by,
        )


class HistoryDocument(Record, document=HISTORY):
    """The result of quotaform history show."""

    table: TableName
    since: Annotated[Moment | None, about("The time of the first snapshot of the clusters, or null.")]
    until: Annotated[Moment | None, about("The time of the last one, or null.")]
    entities: Annotated[list[Address], about("The entities that were asked for; empty for all.")]
    total: Annotated[Count, about("The number of rows, of which at most 1000 are listed.")]
    rows: Annotated[list[HistoryRowRecord], about("The first rows, by cluster, entity, key and time.")]


def dump_entity_history(found: EntityHistory) -> str:
    """Return what entities had and when as JSON."""
    record = HistoryDocument(
        table=found.table,
        since=found.since,
        until=found.until,
        entities=list(found.entities),
        total=found.total,
        rows=list(map(HistoryRowRecord.of, found.rows)),
    )
    return indented(builtins(record))


class HistoryChangeRecord(Record):
    """A value that differs."""

    cluster: ClusterName
    address: Address
    entity: Names
    key: QuotaKeyName
    before: Annotated[Value | None, about("The value before, or null.")]
    after: Annotated[Value | None, about("The value after, or null.")]
    changed_at: Annotated[Moment | None, about("The time of the snapshot that showed the last change, or null.")]
    changed_by: Annotated[Changer | None, about("Who made it, or null if no receipt says so.")]

    @classmethod
    def of(cls, row: HistoryChange) -> Self:
        """Return the record."""
        return cls(
            cluster=row.cluster,
            address=row.entity.address,
            entity=row.entity.names,
            key=row.key,
            before=row.before,
            after=row.after,
            changed_at=row.changed_at,
            changed_by=row.changed_by,
        )


class CoverageRecord(Record):
    """The last snapshots of a cluster at or before the two times."""

    cluster: ClusterName
    is_compared: Annotated[
        bool, about("False if it has no snapshot at or before the earlier time: then no changes.")
    ] = field(name="compared")
    first_at: Annotated[Moment, about("The time of its first snapshot, as ISO 8601 in UTC.")]
    before_at: Annotated[Moment | None, about("That of the earlier time; null if there is none.")]
    after_at: Annotated[Moment | None, about("That of the later time; null if there is none.")]


class DifferenceSummary(Record):
    """Numbers of values, and of their entities."""

    created: Annotated[Count, about("Values that were set.")]
    updated: Annotated[Count, about("Values that are others.")]
    deleted: Annotated[Count, about("Values that were removed.")]
    entities: Annotated[Count, about("The entities that they belong to.")]


class DifferenceDocument(Record, document=HISTORY_DIFF):
    """The result of quotaform history diff."""

    table: TableName
    since: Annotated[Moment, about("The earlier time, as ISO 8601 in UTC.")]
    until: Annotated[Moment, about("The later time, as ISO 8601 in UTC.")]
    clusters: Annotated[list[CoverageRecord], about("Which snapshots were compared.")]
    summary: DifferenceSummary
    changes: Annotated[list[HistoryChangeRecord], about("The first 1000 changes, by cluster, entity and key.")]


def dump_history_difference(found: HistoryDifference) -> str:
    """Return what changed between two moments as JSON."""
    record = DifferenceDocument(
        table=found.table,
        since=found.since,
        until=found.until,
        clusters=convert(found.clusters, list[CoverageRecord], from_attributes=True),
        summary=convert(found, DifferenceSummary, from_attributes=True),
        changes=list(map(HistoryChangeRecord.of, found.rows)),
    )
    return indented(builtins(record))
