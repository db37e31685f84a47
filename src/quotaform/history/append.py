"""Appends snapshots to a history, with who changed what, as receipts say."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.data_source import SNAPSHOTS, UnreadError, read_failure
from quotaform.fleet.table import make_table
from quotaform.history.history import AppendDocument, AppendedRecord, AppendStatus
from quotaform.history.spark import CHANGED_BY, READINGS, TAKEN, differs, snapshots_of
from quotaform.model.errors import HistoryError, QuotaformError
from quotaform.model.moment import read_moment
from quotaform.plan.receipt_file import load_receipt_file, receipts_by_name, time_in_name
from quotaform.resolve.spark import completed, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from quotaform.history.table import HistoryTable


CLAIMS: Final = struct(
    "cluster_id entity_key key string",
    "before after double",
    "started_at timestamp",
    READINGS["changed_by"],
)
"""What receipts say was changed, and when; null is no value."""


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


_MOST_PROBLEMS: Final = 100
_LONGEST_APPLY: Final = timedelta(days=1)
"""How much sooner than an apply ends its receipt may have got its name."""


class Receipts(Struct, frozen=True):
    """A folder of receipts."""

    folder: Path  # The folder; one that does not exist has none
    within: Path | None = None  # The folder that no receipt must lead out of

    def claims(self, new: Sequence[NewSnapshot]) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Return `CLAIMS` about new snapshots, and why receipts cannot be read.

        Those of applies are read that may have ended between a snapshot and the one before it.
        """
        starts = [begin for each in new for begin, _ in each.intervals()]
        rows: list[tuple[Any, ...]] = []
        problems: list[str] = []
        for path in receipts_by_name(self.folder) if starts else ():
            if read_moment(time_in_name(path)) < min(starts) - _LONGEST_APPLY:
                continue
            try:
                receipt = load_receipt_file(path, within=self.within)
                started_at, finished_at = read_moment(receipt.started_at), read_moment(receipt.finished_at)
            except (QuotaformError, ValueError) as error:
                problems.append(str(error))
                continue
            actor = receipt.run.actor if receipt.run and receipt.run.actor else receipt.applied_by
            made_by = actor, receipt.plan_id, receipt.source.commit, finished_at
            changed_by = dict(zip(CHANGED_BY.names, made_by, strict=True))
            rows += [
                (receipt.cluster.id, item.entity.address, row.key, row.before, row.after, started_at, changed_by)
                for item in receipt.results
                if item.result.may_have_written
                for row in item.rows
            ]
        return rows, sorted(set(problems))[:_MOST_PROBLEMS]


def attributed(rows: DataFrame, claims: Sequence[tuple[Any, ...]], new: Sequence[NewSnapshot]) -> DataFrame:
    """Return rows of `changes_of` with who set the value and who removed the one before it.

    A receipt says it of a value if its apply ran between the two snapshots and set that value of that key of the
    entity; of the one before if it says that it was there before. Of several the last one counts.
    """
    if not claims:
        return rows
    spark = rows.sparkSession
    receipts = make_table(spark, CLAIMS, claims)
    between = make_table(
        spark,
        struct("cluster cluster_id string", "after_at read_at timestamp"),
        ((each.cluster, each.cluster_id, *times) for each in new for times in each.intervals()),
    )
    is_between = (receipts["started_at"] <= between["read_at"]) & (
        receipts["changed_by.at"] + f.expr("INTERVAL 1 SECOND") > between["after_at"]
    )
    is_same_cluster = receipts["cluster_id"] == between["cluster_id"]
    told = receipts.join(f.broadcast(between), is_same_cluster & is_between)
    told = told.select(between["cluster"], between["read_at"], "entity_key", "key", "before", "after", "changed_by")
    of_row = ["cluster", "read_at", "entity_key", "key"]
    for claimed, value, name in (("after", "value", "changed_by"), ("before", "before", "ended_by")):
        made = told.where(f.col(claimed).isNotNull()).groupBy(*of_row, f.col(claimed).alias(value))
        last = made.agg(f.max_by("changed_by", "changed_by.at").alias(name))
        rows = rows.join(last, [*of_row, value], "left")
    return rows


def append(
    open_table: Callable[[], HistoryTable], quotas: DataFrame, receipts: Receipts | None = None
) -> tuple[AppendDocument, list[tuple[str | None, UnreadError]]]:
    """Append snapshots to a history, all or none; return what became of them, and the errors of those that failed.

    `open_table`: opens the history; called again when another append was faster. `quotas`: `QUOTAS` or `SNAPSHOTS`; of
    several files with a snapshot of one cluster and time, the first by path counts. `receipts`: those that may say who
    changed what. Raises `HistoryError` if it cannot be written, or other appends were faster each time.
    """
    table = open_table()
    table.require_writable()
    if "file" not in quotas.columns:
        quotas = quotas.withColumn("file", f.lit(None).cast("string"))
    given = quotas.select(*SNAPSHOTS.names).localCheckpoint()
    # The snapshots that were read or failed, without what they hold.
    counted = given.groupBy("cluster", "cluster_id", "read_at", "file", "failure").agg(f.count("key").alias("values"))
    snapshots = sorted(
        counted.toArrow().to_pylist(),
        key=lambda row: (row["failure"] is not None, row["cluster"] or "", str(row["read_at"]), row["file"] or ""),
    )
    chosen: dict[tuple[str, datetime], tuple[str, str, datetime, str | None]] = {}
    for row in snapshots:
        if row["failure"] is None:
            place = row["cluster"], row["read_at"]
            chosen.setdefault(place, (row["cluster"], row["cluster_id"], row["read_at"], row["file"]))
    for _ in range(3):
        readings = table.readings()
        new = new_snapshots(snapshots_of(readings), (row[:3] for row in chosen.values()))
        taken = make_table(
            given.sparkSession, struct(TAKEN, "file string"), (chosen[each.cluster, each.read_at] for each in new)
        )
        is_taken = [given[name].eqNullSafe(taken[name]) for name in taken.columns]
        claims, problems = ([], []) if receipts is None else receipts.claims(new)
        changes = changes_of(readings, given.join(f.broadcast(taken), is_taken, "left_semi"), new)
        rows = completed(attributed(changes, claims, new), READINGS).unionByName(completed(taken, READINGS))
        if not new or table.add(rows):
            break
        table = open_table()
    else:
        raise HistoryError(table.name, "other appends were faster each time", "run this again")
    status: dict[tuple[str, datetime], AppendStatus] = {
        (each.cluster, each.read_at): "late" if each.is_late else "appended" for each in new
    }
    failed = [(row["cluster"], read_failure(row["failure"])) for row in snapshots if row["failure"]]
    records = tuple(
        AppendedRecord(
            **{name: row[name] for name in ("cluster", "cluster_id", "file", "read_at", "values")},
            # Only one of each cluster and time has a status.
            status="failed" if row["failure"] else status.pop((row["cluster"], row["read_at"]), "known"),
            error=row["failure"] and row["failure"]["message"],
        )
        for row in snapshots
    )
    return AppendDocument(table=table.name, snapshots=records, receipt_problems=tuple(problems)), failed


_COMPARED: Final = struct("cluster string", "old_at now_at timestamp", "old_is_new now_is_new boolean")
"""Two snapshots of a cluster that follow each other, and which of them are new."""


def changes_of(readings: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return what new snapshots add to a history: rows of `READINGS` that have an entity, and the value `before`.

    What a new snapshot holds is compared with the one before it, and the one after it with what it holds.

    `readings`: `READINGS` that are known. `quotas`: `QUOTAS` of the new snapshots.
    """
    fresh = {(each.cluster, each.read_at) for each in new}
    pairs: set[tuple[str, datetime | None, datetime]]
    pairs = {(each.cluster, *times) for each in new for times in each.intervals()}
    pairs |= {(each.cluster, None, each.read_at) for each in new if each.previous_at is None}
    compared = make_table(
        readings.sparkSession,
        _COMPARED,
        ((cluster, old, now, (cluster, old) in fresh, (cluster, now) in fresh) for cluster, old, now in pairs),
    )
    columns: list[Column | str]
    columns = ["cluster", f.col("read_at").alias("at"), "entity_key", "key"]
    columns.append(f.struct("cluster_id", "entity", "value").alias("held"))
    parts = [
        rows.where(f.col("entity_key").isNotNull()).select(*columns, f.lit(is_new).alias("is_new"))
        for rows, is_new in ((readings, False), (quotas, True))
    ]
    at, is_new = f.col("at"), f.col("is_new")
    # A new snapshot has all that was there then; of what is known the last row of a key says what it was.
    sides = {
        side: (is_new == f.col(f"{side}_is_new"))
        & f.when(is_new, at == f.col(f"{side}_at")).otherwise(at <= f.col(f"{side}_at"))
        for side in ("old", "now")
    }
    last = [f.max_by(f.when(is_in, f.col("held")), f.when(is_in, at)).alias(side) for side, is_in in sides.items()]
    # Brought together before they are sorted, else Spark sorts them before and after.
    rows = parts[0].unionByName(parts[1]).repartition("cluster", "entity_key", "key")
    found = rows.join(f.broadcast(compared), "cluster").where(sides["old"] | sides["now"])
    found = found.groupBy("cluster", "entity_key", "key", f.col("now_at").alias("read_at")).agg(*last)
    now, old = f.col("now"), f.col("old")
    return found.where(differs(old, now)).select(
        *("cluster", "read_at", "entity_key", "key"),
        *(f.coalesce(now[name], old[name]).alias(name) for name in ("cluster_id", "entity")),
        now["value"].alias("value"),
        old["value"].alias("before"),
    )
