"""What a history says: its snapshots, what clusters held at a moment, and what changed between two."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.history.history import (
    MOST_ROWS,
    Changer,
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
from quotaform.resolve.spark import ENTITY, QUOTAS, columns_of, completed, struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.history.table import HistoryTable


R = TypeVar("R", bound=Record)

CHANGED_BY: Final = columns_of(Changer)
"""Who changed a value, by which plan of which commit, and when that apply was finished; a column that is stored."""

HISTORY: Final = columns_of(HistoryRow)
"""What clusters held and when, by the snapshots that are known.

A row with an entity is a value of all snapshots from `valid_from` on and before `valid_to`, or to the last one if that
is null; a row without says that a snapshot was taken at `valid_from`, which is also `valid_to`. `changed_by` is who set
the value, `ended_by` who replaced or removed it; both are null when no receipt says so.
"""

READINGS: Final = struct(
    *("cluster cluster_id string", "read_at timestamp", "entity_key string", ENTITY, "key string", "value double"),
    *(HISTORY["changed_by"], HISTORY["ended_by"]),
)
"""What is stored: what each snapshot showed that the one before it of its cluster did not; see docs/history.md.

A row is a fact about one snapshot, so none is ever changed: a snapshot that becomes known late adds rows of its own and
of the snapshot after it. A row that says what the one before it says, or that is there twice, changes nothing.
"""

HISTORY_CHANGES: Final = columns_of(HistoryChange)
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


def as_of(history: DataFrame, at: datetime) -> DataFrame:
    """Return `QUOTAS` of the last snapshot of each cluster at or before a moment.

    A cluster that held nothing then is a row without an entity; one without a snapshot by then has no row.
    """
    held = history.where(f.col("entity_key").isNotNull() & _holds(at))
    held = held.select("cluster", "entity_key", "entity", "key", "value")
    return completed(last_snapshots(history, at).join(held, "cluster", "left"), QUOTAS)


def last_snapshots(history: DataFrame, at: datetime) -> DataFrame:
    """Return the last snapshot of each cluster at or before a moment, as `TAKEN`."""
    taken = known_snapshots(history).where(f.col("read_at") <= f.lit(at)).groupBy("cluster")
    return taken.agg(f.max_by("cluster_id", "read_at").alias("cluster_id"), f.max("read_at").alias("read_at"))


def _holds(at: datetime) -> Column:
    until = f.col("valid_to")
    return (f.col("valid_from") <= f.lit(at)) & (until.isNull() | (until > f.lit(at)))


def history_changes(history: DataFrame, since: datetime, until: datetime) -> DataFrame:
    """Return `HISTORY_CHANGES`: the values that differ between two moments.

    A cluster without a snapshot at or before the earlier moment has no rows: it is not known what it held then.
    """
    is_before, is_after = (_holds(at) for at in (since, until))
    set_at = f.when(is_after, f.col("valid_from"))
    ended_at = f.when((f.col("valid_to") > f.lit(since)) & (f.col("valid_to") <= f.lit(until)), f.col("valid_to"))
    set_by, ended_by = f.max_by("changed_by", set_at), f.max_by("ended_by", ended_at)
    found = (
        history.where(f.col("entity_key").isNotNull())
        .join(last_snapshots(history, since), "cluster", "left_semi")
        .groupBy("cluster", "entity_key", "key")
        .agg(
            f.first("entity").alias("entity"),
            f.max(f.when(is_before, f.col("value"))).alias("before"),
            f.max(f.when(is_after, f.col("value"))).alias("after"),
            f.coalesce(f.max(set_at), f.max(ended_at)).alias("changed_at"),
            f.when(f.max(set_at).isNotNull(), set_by).otherwise(ended_by).alias("changed_by"),
        )
    )
    return found.where(~f.col("before").eqNullSafe(f.col("after"))).select(*HISTORY_CHANGES.names)


def of_clusters(table: HistoryTable, patterns: Sequence[str]) -> DataFrame:
    """Return the rows of clusters; all for no pattern. Raises `UsageError` or `HistoryError`."""
    known = snapshots_of(table.readings()).select("cluster").distinct().toArrow().column("cluster").to_pylist()
    if not known:
        raise _empty(table)
    rows, names = history_of(table.readings()), set[str]()
    for pattern in patterns:
        if not (matching := {name for name in known if fnmatchcase(name, pattern)}):
            raise ArgumentError("{cluster} {}: {} has no snapshot of such a cluster", quote(pattern), table.name)
        names |= matching
    return rows.where(f.col("cluster").isin(sorted(names))) if patterns else rows


def _empty(table: HistoryTable) -> HistoryError:
    return HistoryError(table.name, "it is empty", "append snapshots with quotaform history append")


def entity_history(table: HistoryTable, rows: DataFrame, entities: Sequence[Entity]) -> tuple[EntityHistory, DataFrame]:
    """Return what entities had and when, of all if none is given, and all of it as `HISTORY`."""
    held = rows.where(f.col("entity_key").isNotNull())
    if entities:
        held = held.where(f.col("entity_key").isin([entity.address for entity in entities]))
    in_order = held.orderBy("cluster", "entity_key", "key", "valid_from")
    shown = _records(in_order, HistoryRow)
    span = known_snapshots(rows).agg(f.min("read_at").alias("since"), f.max("read_at").alias("until"))
    [times] = span.toArrow().to_pylist()
    total = len(shown) if len(shown) < MOST_ROWS else held.count()
    asked = tuple(entity.address for entity in entities)
    return EntityHistory(table=table.name, entities=asked, rows=tuple(shown), total=total, **times), in_order


def difference(
    table: HistoryTable, rows: DataFrame, since: datetime, until: datetime
) -> tuple[HistoryDifference, DataFrame]:
    """Return what differs between two moments, and all of it as `HISTORY_CHANGES`.

    Raises `HistoryError` if the history has no snapshot of these clusters at or before the later moment.
    """
    taken = f.col("read_at")
    snapshots = (
        known_snapshots(rows)
        .groupBy("cluster")
        .agg(
            f.min(taken).alias("first_at"),
            f.max(f.when(taken <= f.lit(since), taken)).alias("before_at"),
            f.max(f.when(taken <= f.lit(until), taken)).alias("after_at"),
        )
    )
    coverage = tuple(Coverage(**row) for row in snapshots.orderBy("cluster").toArrow().to_pylist())
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
    summary = DifferenceSummary(**counts.toArrow().to_pylist()[0])
    in_order = changes.orderBy("cluster", "entity_key", "key")
    shown = tuple(_records(in_order, HistoryChange))
    found = HistoryDifference(
        table=table.name, since=since, until=until, clusters=coverage, rows=shown, summary=summary
    )
    return found, in_order


def require_known(table: HistoryTable, rows: DataFrame, at: datetime) -> None:
    """Raise `HistoryError`, with the time of its first snapshot, unless a history has one at or before a moment."""
    (first,) = known_snapshots(rows).agg(f.min("read_at").alias("first")).toArrow().column("first").to_pylist()
    if first is None:
        raise _empty(table)
    if first > at:
        problem = f"it has no snapshot at or before {spell_moment(at)}"
        raise HistoryError(table.name, problem, f"its first one is of {spell_moment(first)}")


def _records(rows: DataFrame, kind: type[R]) -> list[R]:
    """Bring rows to the driver as records; the first ones, if there are many."""
    return [made_of(row | {"entity": dict(row["entity"])}, kind) for row in rows.limit(MOST_ROWS).toArrow().to_pylist()]
