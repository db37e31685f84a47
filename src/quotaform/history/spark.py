"""What a history says: its snapshots, what clusters held at a moment, and what changed between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from quotaform.fleet.table import make_table
from quotaform.history.history import (
    Coverage,
    DifferenceSummary,
    EntityHistory,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.model.entity import Entity
from quotaform.model.errors import ArgumentError, HistoryError
from quotaform.model.moment import spell_moment
from quotaform.model.records.record import Record, made_of
from quotaform.model.text import quote
from quotaform.resolve.spark_quotas import ENTITY, QUOTAS, completed, struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.history.table import HistoryTable


R = TypeVar("R", bound=Record)

CHANGED_BY: Final = struct("actor plan_id commit string", "at timestamp")
"""Who changed a value, by which plan of which commit, and when that apply was finished; as a receipt says."""
_BY: Final = (StructField("changed_by", CHANGED_BY), StructField("ended_by", CHANGED_BY))

HISTORY: Final = struct(
    "cluster cluster_id entity_key string", ENTITY, "key string", "value double", "valid_from valid_to timestamp", *_BY
)
"""What clusters held and when, by the snapshots that are known.

| row | meaning |
| --- | --- |
| with an entity | the value was in all snapshots from `valid_from` on and before `valid_to`; null: in the last one |
| without an entity | a snapshot was taken at `valid_from`, which is also `valid_to` |

So a value that changed between two snapshots changes in the table at the second one. `changed_by` is who set the value,
`ended_by` who replaced or removed it; both are null when no receipt says so.
"""

READINGS: Final = struct(
    "cluster cluster_id string", "read_at timestamp", "entity_key string", ENTITY, "key string", "value double", *_BY
)
"""What is stored: what each snapshot showed that the one before it of its cluster did not.

| row | meaning |
| --- | --- |
| with an entity | the snapshot of `read_at` had this value; null: it had none |
| without an entity | the snapshot was taken |

A row is a fact about one snapshot, so none is ever changed: a snapshot that becomes known late adds rows of its own and
of the snapshot after it. A row that says what the one before it says, or that is there twice, changes nothing.
`changed_by` is who set the value, `ended_by` who replaced or removed the one before it.
"""

HISTORY_CHANGES: Final = struct(
    "cluster entity_key string",
    ENTITY,
    "key string",
    "before after double",
    "changed_at timestamp",
    HISTORY["changed_by"],
)
"""What differs between two moments; null is no value. `changed_at` is the snapshot that showed the last change."""


TAKEN: Final = struct("cluster cluster_id string", "read_at timestamp")
"""Which snapshots were taken."""


def history_of(readings: DataFrame) -> DataFrame:
    """Return `HISTORY` of `READINGS`: a value is valid until the next row of its key that says another one."""
    of_key = ["cluster", "entity_key", "key"]
    in_order = Window.partitionBy(*of_key).orderBy("read_at")
    found = (
        readings.where(f.col("entity_key").isNotNull())
        .groupBy(*of_key, "read_at")
        .agg(
            *(f.first(name).alias(name) for name in ("cluster_id", "entity", "value")),
            *(f.max_by(name, f"{name}.at").alias(name) for name in ("changed_by", "ended_by")),
        )
        .withColumn("before", f.lag(f.struct("cluster_id", "value")).over(in_order))
    )
    values = (
        found.where(differs(f.col("before"), f.struct("cluster_id", "value")))
        .withColumn("valid_to", f.lead("read_at").over(in_order))
        .withColumn("ended_by", f.lead("ended_by").over(in_order))
        .where(f.col("value").isNotNull())
        .withColumnRenamed("read_at", "valid_from")
    )
    taken = snapshots_of(readings)
    taken = taken.withColumns({"valid_from": f.col("read_at"), "valid_to": f.col("read_at")})
    return values.select(*HISTORY.names).unionByName(completed(taken, HISTORY))


def differs(before: Column, after: Column) -> Column:
    """Whether two snapshots differ in a key, of which each has a `value` and its `cluster_id`; null is no value."""
    is_same_cluster = after["value"].isNull() | before["cluster_id"].eqNullSafe(after["cluster_id"])
    return ~(before["value"].eqNullSafe(after["value"]) & is_same_cluster)


def snapshots_of(readings: DataFrame) -> DataFrame:
    """Return which snapshots `READINGS` know, as `TAKEN`."""
    return readings.where(f.col("entity_key").isNull()).select(*TAKEN.names).distinct()


def known_snapshots(history: DataFrame) -> DataFrame:
    """Return which snapshots a history knows, as `TAKEN`."""
    return history.where(f.col("entity_key").isNull()).withColumn("read_at", f.col("valid_from")).select(*TAKEN.names)


class NewSnapshot(Struct, frozen=True, kw_only=True):
    """A snapshot that a history does not know yet."""

    cluster: str
    cluster_id: str
    read_at: datetime
    previous_at: datetime | None
    """The time of the snapshot of the cluster before it, known or new; `None` if there is none."""
    next_at: datetime | None  # The time of the one after it
    is_late: bool

    def intervals(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield the times of snapshots that follow each other now: the one before and this, this and the one after."""
        if self.previous_at is not None:
            yield self.previous_at, self.read_at
        if self.next_at is not None:
            yield self.read_at, self.next_at


def new_snapshots(known: DataFrame, given: Iterable[tuple[str, str, datetime]]) -> list[NewSnapshot]:
    """Bring to the driver which snapshots a history does not know, by cluster and time.

    `given`: Cluster, id and time of snapshots; at most one of a cluster and time.
    """
    taken = make_table(known.sparkSession, TAKEN, given)
    given_rows = taken.withColumn("is_new", f.lit(True))
    old = known.join(f.broadcast(taken.select("cluster").distinct()), "cluster", "left_semi")
    moments = (
        old.withColumn("is_new", f.lit(False))
        .unionByName(given_rows)
        .groupBy("cluster", "read_at")
        .agg(f.min("cluster_id").alias("cluster_id"), f.bool_and("is_new").alias("is_new"))
    )
    in_order = Window.partitionBy("cluster").orderBy("read_at")
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    rows = (
        moments.withColumn("next_at", f.lead("read_at").over(in_order))
        .withColumn("previous_at", f.lag("read_at").over(in_order))
        .withColumn("is_late", f.coalesce(f.bool_or(~f.col("is_new")).over(later), f.lit(False)))
        .where("is_new")
        .drop("is_new")
    )
    found = (NewSnapshot(**row) for row in rows.toArrow().to_pylist())
    return sorted(found, key=lambda snapshot: (snapshot.cluster, snapshot.read_at))


def as_of(history: DataFrame, at: datetime) -> DataFrame:
    """Return `QUOTAS` of the last snapshot of each cluster at or before a moment.

    A cluster that held nothing then is a row without an entity; one without a snapshot by then has no row.
    """
    held = held_at(history, at).select("cluster", "entity_key", "entity", "key", "value")
    rows = last_snapshots(history, at).join(held, "cluster", "left")
    return completed(rows, QUOTAS)


def last_snapshots(history: DataFrame, at: datetime) -> DataFrame:
    """Return the last snapshot of each cluster at or before a moment, as `TAKEN`."""
    taken = known_snapshots(history).where(f.col("read_at") <= f.lit(at)).groupBy("cluster")
    last = taken.agg(f.max("read_at").alias("read_at"), f.max_by("cluster_id", "read_at").alias("cluster_id"))
    return last.select(*TAKEN.names)


def held_at(history: DataFrame, at: datetime) -> DataFrame:
    """Return the rows of `HISTORY` that hold at a moment."""
    return history.where(f.col("entity_key").isNotNull() & _holds(at)).select(*history.columns)


def _holds(at: datetime) -> Column:
    moment = f.lit(at)
    return (f.col("valid_from") <= moment) & (f.col("valid_to").isNull() | (f.col("valid_to") > moment))


def history_changes(history: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """Return `HISTORY_CHANGES`: the values that differ between two moments, and who set or removed them last.

    A cluster without a snapshot at or before the earlier moment has no rows: it is not known what it held then.
    """
    same = ["cluster", "entity_key", "key"]
    old = held_at(history, since).select(*same, f.col("entity").alias("entity_before"), f.col("value").alias("before"))
    known = last_snapshots(history, since).select("cluster")
    held_later = held_at(history, until).join(known, "cluster", "left_semi")
    new = held_later.select(
        *same,
        f.col("entity").alias("entity_after"),
        f.col("value").alias("after"),
        f.col("valid_from").alias("set_at"),
        f.col("changed_by").alias("set_by"),
    )
    gone = (
        history.where(f.col("entity_key").isNotNull() & (f.col("valid_to") > f.lit(since)))
        .where(f.col("valid_to") <= f.lit(until))
        .groupBy(*same)
        .agg(f.max("valid_to").alias("removed_at"), f.max_by("ended_by", "valid_to").alias("removed_by"))
    )
    is_set = f.col("after").isNotNull()
    return (
        old.join(new, same, "full_outer")
        .where(~f.col("before").eqNullSafe(f.col("after")))
        .join(gone, same, "left")
        .withColumn("entity", f.coalesce("entity_after", "entity_before"))
        .withColumn("changed_at", f.when(is_set, f.col("set_at")).otherwise(f.col("removed_at")))
        .withColumn("changed_by", f.when(is_set, f.col("set_by")).otherwise(f.col("removed_by")))
        .select(*HISTORY_CHANGES.names)
    )


MOST_ROWS: Final = 1000
"""How many rows of a result are brought to the driver; all of them are in what `--out parquet=DIR` writes."""


def of_clusters(table: HistoryTable, patterns: Sequence[str]) -> DataFrame:
    """Return the rows of clusters.

    Raises `UsageError` or `HistoryError`.
    """
    known = snapshots_of(table.readings()).select("cluster").distinct().toArrow().column("cluster").to_pylist()
    if not known:
        raise HistoryError(table.name, "it is empty", "append snapshots with quotaform history append")
    rows = history_of(table.readings())
    if not patterns:
        return rows
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            problem = "{cluster} {}: {} has no snapshot of such a cluster"
            raise ArgumentError(problem, quote(pattern), table.name)
    names = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    return rows.where(f.col("cluster").isin(names))


def rows_of_entities(rows: DataFrame, entities: Sequence[Entity]) -> DataFrame:
    """Return the rows of entities, by cluster, entity, key and time; of all if none is given."""
    held = rows.where(f.col("entity_key").isNotNull())
    if entities:
        held = held.where(f.col("entity_key").isin([entity.address for entity in entities]))
    return held.orderBy("cluster", "entity_key", "key", "valid_from")


def entity_history(table: HistoryTable, rows: DataFrame, entities: Sequence[Entity]) -> EntityHistory:
    """Return what entities had and when."""
    found = rows_of_entities(rows, entities)
    shown = _records(found, HistoryRow)
    span = known_snapshots(rows).agg(f.min("read_at").alias("since"), f.max("read_at").alias("until"))
    ((since, until),) = [tuple(row.values()) for row in span.toArrow().to_pylist()]
    return EntityHistory(
        table=table.name,
        entities=tuple(entity.address for entity in entities),
        rows=tuple(shown),
        total=len(shown) if len(shown) < MOST_ROWS else found.count(),
        since=since,
        until=until,
    )


def difference(
    table: HistoryTable, rows: DataFrame, since: datetime, until: datetime
) -> tuple[HistoryDifference, DataFrame]:
    """Return what differs between two moments, and all of it as `HISTORY_CHANGES`.

    Raises `HistoryError` if it has no snapshot at or before the later moment, of any of the clusters.
    """
    coverage = tuple(_coverage(rows, since, until))
    if all(each.after_at is None for each in coverage):
        require_known(table, rows, until)
    changes = history_changes(rows, since, until).localCheckpoint()
    before, after = f.col("before"), f.col("after")
    counts = changes.agg(
        f.count_if(before.isNull()).alias("created"),
        f.count_if(before.isNotNull() & after.isNotNull()).alias("updated"),
        f.count_if(after.isNull()).alias("deleted"),
        f.countDistinct("cluster", "entity_key").alias("entities"),
    )
    in_order = changes.orderBy("cluster", "entity_key", "key")
    found = HistoryDifference(
        table=table.name,
        since=since,
        until=until,
        clusters=coverage,
        rows=tuple(_records(in_order, HistoryChange)),
        summary=DifferenceSummary(**counts.toArrow().to_pylist()[0]),
    )
    return found, in_order


def require_known(table: HistoryTable, rows: DataFrame, at: datetime) -> None:
    """Make sure that a history has a snapshot at or before a moment.

    Raises `HistoryError`, with the time of its first one, if it has none.
    """
    (first,) = known_snapshots(rows).agg(f.min("read_at").alias("first")).toArrow().column("first").to_pylist()
    if first is None:
        raise HistoryError(table.name, "it is empty", "append snapshots with quotaform history append")
    if first > at:
        raise HistoryError(
            table.name,
            f"it has no snapshot at or before {spell_moment(at)}",
            f"its first one is of {spell_moment(first)}",
        )


def _coverage(rows: DataFrame, since: datetime, until: datetime) -> list[Coverage]:
    taken = f.col("read_at")
    found = (
        known_snapshots(rows)
        .groupBy("cluster")
        .agg(
            f.min(taken).alias("first_at"),
            f.max(f.when(taken <= f.lit(since), taken)).alias("before_at"),
            f.max(f.when(taken <= f.lit(until), taken)).alias("after_at"),
        )
    )
    return [Coverage(**row) for row in found.orderBy("cluster").toArrow().to_pylist()]


def _records(rows: DataFrame, kind: type[R]) -> list[R]:
    """Bring rows to the driver as records; the first ones, if there are many."""
    return [made_of(row | {"entity": dict(row["entity"])}, kind) for row in rows.limit(MOST_ROWS).toArrow().to_pylist()]
