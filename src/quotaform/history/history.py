"""The result of appending snapshots to a history, and what a history says."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import field

from quotaform.model.entity import Entity
from quotaform.model.records.document import HISTORY, HISTORY_APPEND, HISTORY_DIFF
from quotaform.model.records.field import Address, QuotaKeyName
from quotaform.model.records.record import Count, Digest, Double, Moment, Record, about, derived

ClusterName: TypeAlias = Annotated[str, about("The name of the cluster.")]
TableName: TypeAlias = Annotated[str, about("The history, as given.")]


AppendStatus: TypeAlias = Literal["appended", "late", "known", "failed"]
"""What became of a snapshot; see `AppendedRecord.status`."""


class AppendedRecord(Record):
    """A snapshot and what became of it."""

    cluster: Annotated[str | None, about("The name of the cluster; null of a file that could not be read.")]
    cluster_id: Annotated[str | None, about("The id of the cluster; null if it could not be read.")]
    file: Annotated[str | None, about("The file, as given; null for a running cluster.")]
    read_at: Annotated[Moment | None, about("When the cluster was read, or null.")]
    status: Annotated[
        AppendStatus,
        about(
            "appended: it is the last one of its cluster; late: a later one was known; known: one of the same cluster "
            "and time was known, and nothing changed; failed: it could not be read."
        ),
    ]
    values: Annotated[Count, about("The number of its values.")]
    error: Annotated[str | None, about("Why it could not be read, or null.")]


class AppendSummary(Record):
    """Snapshots by what became of them."""

    appended: Annotated[Count, about("Snapshots that are appended.")]
    late: Annotated[Count, about("Snapshots that are late.")]
    known: Annotated[Count, about("Snapshots that are known.")]
    failed: Annotated[Count, about("Failed ones.")]


class AppendDocument(Record, document=HISTORY_APPEND):
    """The result of quotaform history append."""

    table: TableName
    summary: AppendSummary = derived(
        lambda result: AppendSummary(
            **{name: sum(each.status == name for each in result.snapshots) for name in get_args(AppendStatus)}
        )
    )
    snapshots: Annotated[
        tuple[AppendedRecord, ...], about("The snapshots, by cluster and time; those that failed come last.")
    ]
    receipt_problems: Annotated[tuple[str, ...], about("Why receipts could not be read.")]


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
    rows: Annotated[tuple[HistoryChange, ...], about("The first 1000 changes, by cluster, entity and key.")] = field(
        name="changes"
    )
