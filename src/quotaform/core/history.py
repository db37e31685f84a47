"""What becomes of snapshots that are appended to a history, and what a history says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity


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
    """What became of one snapshot.

    Attributes:
        cluster: What the cluster is called; `None` of a file that could not be read.
        file: The file it was read from; `None` for a running cluster.
        status: What became of it; `None` if it could not be read.
        read_at: When the cluster was read.
        values: How many values it holds.
        error: Why it could not be read.
    """

    cluster: str | None
    file: str | None = None
    status: Append | None = None
    cluster_id: str | None = None
    read_at: datetime | None = None
    values: int = 0
    error: QuotaformError | None = None


@dataclass(frozen=True, slots=True)
class HistoryAppend:
    """What became of an append.

    Attributes:
        table: The history, as it was given.
        snapshots: What became of each snapshot, by cluster and time; those that failed come last.
        problems: Receipts that could not be read, and why.
    """

    table: str
    snapshots: tuple[AppendedSnapshot, ...]
    problems: tuple[str, ...] = ()

    def count(self, status: Append) -> int:
        """How many snapshots became this."""
        return sum(each.status is status for each in self.snapshots)

    @property
    def failed(self) -> tuple[AppendedSnapshot, ...]:
        """The snapshots that could not be read."""
        return tuple(each for each in self.snapshots if each.error is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changer:
    """Who changed a value, as a receipt says.

    Attributes:
        actor: The user of the CI system, or of the operating system.
        commit: The commit of the files, if it is known.
        at: When the apply was finished.
    """

    actor: str
    plan_id: str
    commit: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One value and when it was there.

    Attributes:
        cluster: What the cluster is called.
        valid_from: The first snapshot with it.
        valid_to: The first one without it; `None` if the last one has it.
        changed_by: Who set it.
        ended_by: Who replaced or removed it.
    """

    cluster: str
    cluster_id: str
    entity: Entity
    key: str
    value: float
    valid_from: datetime
    valid_to: datetime | None = None
    changed_by: Changer | None = None
    ended_by: Changer | None = None


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
    """What entities had and when.

    Attributes:
        table: The history, as it was given.
        entities: The addresses that were asked for; all entities if there are none.
        rows: The first rows, by cluster, entity, key and time.
        total: How many there are.
        since: When history begins, of the clusters that were asked for; `None` if it knows none.
        until: When it ends.
    """

    table: str
    entities: tuple[str, ...]
    rows: tuple[HistoryRow, ...]
    total: int
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which snapshots of a cluster a history compares.

    Attributes:
        first_at: The time of its first snapshot.
        before_at: That of the last one at or before the earlier moment; `None` if there is none.
        after_at: That of the last one at or before the later moment; `None` if there is none.
    """

    cluster: str
    first_at: datetime
    before_at: datetime | None
    after_at: datetime | None

    @property
    def is_compared(self) -> bool:
        """Whether there is something to compare with: without a snapshot, it is not known what the cluster held."""
        return self.before_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDifference:
    """What changed between two moments.

    Attributes:
        table: The history, as it was given.
        since: The earlier moment.
        until: The later one.
        clusters: Which snapshots were compared.
        rows: The first changes of the clusters that were compared, by cluster, entity and key.
        created: How many values were set that were not.
        updated: How many have another value.
        deleted: How many are not set any more.
        entities: Of how many entities.
    """

    table: str
    since: datetime
    until: datetime
    clusters: tuple[Coverage, ...]
    rows: tuple[HistoryChange, ...]
    created: int
    updated: int
    deleted: int
    entities: int

    @property
    def total(self) -> int:
        """How many values differ."""
        return self.created + self.updated + self.deleted
