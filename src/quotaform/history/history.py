"""What becomes of snapshots that are appended to a history, and what a history says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.model.records.record import Digest, Moment, Record, about


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


class Changer(Record):
    """Who changed a value, as a receipt says."""

    actor: Annotated[str, about("The user of the CI system, or of the operating system.")]
    plan_id: Annotated[Digest, about("The id of the plan.")]
    commit: Annotated[str | None, about("The git commit of the files, or null.")]
    at: Annotated[Moment, about("When the apply was finished, as ISO 8601 in UTC.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One value and when it was there."""

    cluster: str  # What the cluster is called
    cluster_id: str
    entity: Entity
    key: str
    value: float
    valid_from: datetime  # The first snapshot with it
    valid_to: datetime | None = None  # The first one without it; `None` if the last one has it
    changed_by: Changer | None = None  # Who set it
    ended_by: Changer | None = None  # Who replaced or removed it


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """One value that differs between two moments; `None` is no value."""

    cluster: str
    entity: Entity
    key: str
    before: float | None
    after: float | None
    changed_at: datetime | None
    changed_by: Changer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityHistory:
    """What entities had and when."""

    table: str  # The history, as it was given
    entities: tuple[str, ...]  # The addresses that were asked for; all entities if there are none
    rows: tuple[HistoryRow, ...]  # The first rows, by cluster, entity, key and time
    total: int  # How many there are
    since: datetime | None  # When history begins, of the clusters that were asked for; `None` if it knows none
    until: datetime | None  # When it ends


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which snapshots of a cluster a history compares."""

    cluster: str
    first_at: datetime  # The time of its first snapshot
    before_at: datetime | None  # That of the last one at or before the earlier moment; `None` if there is none
    after_at: datetime | None  # That of the last one at or before the later moment; `None` if there is none

    @property
    def is_compared(self) -> bool:
        """Whether there is something to compare with: without a snapshot, it is not known what the cluster held."""
        return self.before_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDifference:
    """What changed between two moments."""

    table: str  # The history, as it was given
    since: datetime  # The earlier moment
    until: datetime  # The later one
    clusters: tuple[Coverage, ...]  # Which snapshots were compared
    rows: tuple[HistoryChange, ...]  # The first changes of the clusters that were compared, by cluster, entity and key
    created: int  # How many values were set that were not
    updated: int  # How many have another value
    deleted: int  # How many are not set any more
    entities: int  # Of how many entities

    @property
    def total(self) -> int:
        """How many values differ."""
        return self.created + self.updated + self.deleted
