"""What a history says of entities and of times, as far as it is printed; all of it goes to files from the executors."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.core.history import (
    Changer,
    Coverage,
    EntityHistory,
    HistoryChange,
    HistoryDifference,
    HistoryRow,
)
from quotaform.errors import HistoryError, UsageError
from quotaform.model.entity import Entity
from quotaform.model.moment import spell_moment
from quotaform.model.text import quote
from quotaform.spark.history.as_of import history_changes
from quotaform.spark.history.new_snapshot import known_snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from quotaform.spark.history.table import HistoryTable

MOST_ROWS: Final = 1000
"""How many rows of a result are brought to the driver; all of them are in what `--out parquet=DIR` writes."""


def of_clusters(table: HistoryTable, patterns: Sequence[str]) -> DataFrame:
    """Return the rows of clusters.

    Args:
        patterns: Names and globs; all clusters if there are none.

    Raises:
        UsageError: One of them fits no cluster.
        HistoryError: It cannot be read, or is empty.
    """
    known = known_snapshots(table.snapshots()).select("cluster").distinct().toArrow().column("cluster").to_pylist()
    if not known:
        raise HistoryError(table.name, "it is empty", "append snapshots with quotaform history append")
    if not patterns:
        return table.rows()
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"--cluster {quote(pattern)}: {table.name} has no snapshot of such a cluster")
    names = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    return table.rows().where(f.col("cluster").isin(names))


def rows_of_entities(rows: DataFrame, entities: Sequence[Entity]) -> DataFrame:
    """Return the rows of entities, by cluster, entity, key and time; of all if none is given."""
    held = rows.where(f.col("entity_key").isNotNull())
    if entities:
        held = held.where(f.col("entity_key").isin([entity.address for entity in entities]))
    return held.orderBy("cluster", "entity_key", "key", "valid_from")


def entity_history(table: HistoryTable, rows: DataFrame, entities: Sequence[Entity]) -> EntityHistory:
    """Return what entities had and when.

    Args:
        entities: The entities; all if there are none.
    """
    found = rows_of_entities(rows, entities)
    shown = [_row(row) for row in found.limit(MOST_ROWS).toArrow().to_pylist()]
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
    """Return what differs between two moments, and all of it as `schemas.HISTORY_CHANGES`.

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
        rows=tuple(_change(row) for row in in_order.limit(MOST_ROWS).toArrow().to_pylist()),
        **counts.toArrow().to_pylist()[0],
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


def _row(row: Mapping[str, Any]) -> HistoryRow:
    names = ("cluster", "cluster_id", "key", "value", "valid_from", "valid_to")
    return HistoryRow(
        entity=Entity.of(row["entity"]),
        changed_by=_changer(row["changed_by"]),
        ended_by=_changer(row["ended_by"]),
        **{name: row[name] for name in names},
    )


def _change(row: Mapping[str, Any]) -> HistoryChange:
    return HistoryChange(
        entity=Entity.of(row["entity"]),
        changed_by=_changer(row["changed_by"]),
        **{name: row[name] for name in ("cluster", "key", "before", "after", "changed_at")},
    )


def _changer(row: Mapping[str, Any] | None) -> Changer | None:
    return None if row is None else Changer(**row)
