"""Appends snapshots to a history, with who changed what, as receipts say."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame

    from quotaform.history.table import HistoryTable


CLAIMS: Final = struct(
    "cluster_id entity_key key string",
    "before after double",
    "started_at timestamp",
    READINGS["changed_by"],
)
"""What receipts say was changed, and when; null is no value."""


STEPS: Final = struct("cluster cluster_id string", "old_at now_at timestamp", "old_is_new now_is_new is_late boolean")
"""Two snapshots of a cluster that follow each other, of which a history does not know one; `old_at` is null before the
first one. `cluster_id` is that of the second, which is late if the history knows one after it."""


class Step(NamedTuple):
    """A row of `STEPS`."""

    cluster: str
    cluster_id: str
    old_at: datetime | None
    now_at: datetime
    old_is_new: bool
    now_is_new: bool
    is_late: bool


def new_steps(known: DataFrame, given: Iterable[tuple[str, str, datetime]]) -> list[Step]:
    """Return what snapshots (cluster, id and time, each once) add to those that a history knows, in order."""
    taken = make_table(known.sparkSession, TAKEN, given)
    old = known.join(f.broadcast(taken.select("cluster").distinct()), "cluster", "left_semi")
    moments = (
        old.withColumn("now_is_new", f.lit(False))
        .unionByName(taken.withColumn("now_is_new", f.lit(True)))
        .groupBy("cluster", f.col("read_at").alias("now_at"))
        .agg(f.min("cluster_id").alias("cluster_id"), f.bool_and("now_is_new").alias("now_is_new"))
    )
    in_order = Window.partitionBy("cluster").orderBy("now_at")
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    rows = moments.select(
        *("cluster", "cluster_id", "now_at", "now_is_new"),
        f.lag("now_at").over(in_order).alias("old_at"),
        f.lag("now_is_new", 1, False).over(in_order).alias("old_is_new"),
        f.coalesce(f.bool_or(~f.col("now_is_new")).over(later), f.lit(False)).alias("is_late"),
    )
    found = (Step(**row) for row in rows.where("old_is_new OR now_is_new").toArrow().to_pylist())
    return sorted(found, key=lambda step: (step.cluster, step.now_at))


_MOST_PROBLEMS: Final = 100
_LONGEST_APPLY: Final = timedelta(days=1)
"""How much sooner than an apply ends its receipt may have got its name."""


class Receipts(Struct, frozen=True):
    """A folder of receipts."""

    folder: Path  # The folder; one that does not exist has none
    within: Path | None = None  # The folder that no receipt must lead out of

    def claims(self, steps: Iterable[Step]) -> tuple[list[tuple[Any, ...]], list[str]]:
        """Return `CLAIMS` about steps, and why receipts cannot be read; of applies that may have ended in a step."""
        starts = [each.old_at for each in steps if each.old_at is not None]
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


def attributed(rows: DataFrame, claims: Sequence[tuple[Any, ...]], steps: DataFrame) -> DataFrame:
    """Return rows of `changes_of` with who set the value and who removed the one before it.

    A receipt says it of a value if its apply ran between the two snapshots and set that value of that key of the
    entity; of the one before if it says that it was there before. Of several the last one counts.
    """
    if not claims:
        return rows
    receipts = make_table(rows.sparkSession, CLAIMS, claims)
    is_between = (receipts["started_at"] <= steps["now_at"]) & (
        receipts["changed_by.at"] + f.expr("INTERVAL 1 SECOND") > steps["old_at"]
    )
    is_same_cluster = receipts["cluster_id"] == steps["cluster_id"]
    told = receipts.join(f.broadcast(steps), is_same_cluster & is_between).withColumnRenamed("now_at", "read_at")
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
        found = new_steps(snapshots_of(readings), (row[:3] for row in chosen.values()))
        new = [each for each in found if each.now_is_new]
        steps = make_table(given.sparkSession, STEPS, found)
        own = (chosen[each.cluster, each.now_at] for each in new)
        taken = make_table(given.sparkSession, struct(TAKEN, "file string"), own)
        is_taken = [given[name].eqNullSafe(taken[name]) for name in taken.columns]
        claims, problems = ([], []) if receipts is None else receipts.claims(found)
        changes = changes_of(readings, given.join(f.broadcast(taken), is_taken, "left_semi"), steps)
        rows = completed(attributed(changes, claims, steps), READINGS).unionByName(completed(taken, READINGS))
        if not new or table.add(rows):
            break
        table = open_table()
    else:
        raise HistoryError(table.name, "other appends were faster each time", "run this again")
    status: dict[tuple[str, datetime], AppendStatus] = {
        (each.cluster, each.now_at): "late" if each.is_late else "appended" for each in new
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


def changes_of(readings: DataFrame, quotas: DataFrame, steps: DataFrame) -> DataFrame:
    """Return what new snapshots add to a history: rows of `READINGS` that have an entity, and the value `before`.

    `readings`: `READINGS` that are known. `quotas`: `QUOTAS` of the new snapshots. `steps`: `STEPS`, in each of which
    the second snapshot is compared with the first.
    """
    columns: list[Column | str]
    columns = ["cluster", f.col("read_at").alias("at"), "entity_key", "key"]
    columns.append(f.struct("cluster_id", "entity", "value").alias("held"))
    compared = steps.select("cluster", "old_at", "now_at", "old_is_new", "now_is_new")
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
