"""Appends snapshots to a history, with who changed what, as receipts say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from quotaform.fleet.bundle import inside
from quotaform.fleet.data_source import SNAPSHOTS, require_read
from quotaform.fleet.snapshot import FILES_PER_TASK
from quotaform.fleet.table import make_table, row_batch
from quotaform.history.history import Append, AppendedSnapshot, HistoryAppend
from quotaform.history.spark import (
    CHANGED_BY,
    READINGS,
    NewSnapshot,
    new_snapshots,
    small_table,
    snapshots_of,
)
from quotaform.model.errors import HistoryError, QuotaformError
from quotaform.model.moment import read_moment
from quotaform.plan.receipt_file import load_receipt_file, receipts_by_name, time_in_name
from quotaform.resolve.spark_quotas import DOUBLE, TEXT, TIME, completed, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

    from quotaform.history.table import HistoryTable

    Status = Mapping[tuple[str, datetime], Append]
    _Snapshot = tuple[str, str, datetime, str | None]


RECEIPTS: Final = struct(
    file=TEXT,
    cluster_id=TEXT,
    entity_key=TEXT,
    key=TEXT,
    before=DOUBLE,
    after=DOUBLE,
    started_at=TIME,
    changed_by=CHANGED_BY,
    problem=TEXT,
)
"""What receipts say was changed, and when; null is no value. One that cannot be read is a row with a `problem`."""


_PATHS: Final = StructType([RECEIPTS["file"]])
_LONGEST_APPLY: Final = timedelta(days=1)
"""How much sooner than an apply ends its receipt may have got its name."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """A folder of receipts."""

    folder: Path  # The folder; one that does not exist has none
    within: Path | None = None  # The folder that no receipt must lead out of

    def paths(self, new: Sequence[NewSnapshot]) -> list[str]:
        """Return the receipts of applies that may have ended between new snapshots and those before them."""
        starts = [each.previous_at for each in new if each.previous_at is not None]
        starts += [each.read_at for each in new if each.next_at is not None]
        if not starts:
            return []
        first = min(starts) - _LONGEST_APPLY
        return [str(path) for path in receipts_by_name(self.folder) if read_moment(time_in_name(path)) >= first]


def read_receipts(spark: SparkSession, receipts: Receipts, new: Sequence[NewSnapshot]) -> DataFrame | None:
    """Return `RECEIPTS`; `None` if no receipt can say anything about new snapshots."""
    paths = receipts.paths(new)
    if not paths:
        return None
    directory, within = str(Path.cwd()), receipts.within

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for path in batch.column("file").to_pylist():
                yield row_batch(RECEIPTS, _receipt_rows(path, directory, within))

    return make_table(spark, _PATHS, [paths]).repartition(ceil(len(paths) / FILES_PER_TASK)).mapInArrow(read, RECEIPTS)


def _receipt_rows(path: str, directory: str, within: Path | None) -> list[tuple[Any, ...]]:
    """Return the rows of one receipt; runs on an executor."""
    try:
        with inside(directory):
            receipt = load_receipt_file(Path(path), within=within)
        started_at, finished_at = read_moment(receipt.started_at), read_moment(receipt.finished_at)
    except (QuotaformError, ValueError) as error:
        return [(path, *[None] * (len(RECEIPTS) - 2), str(error))]
    actor = receipt.run.actor if receipt.run and receipt.run.actor else receipt.applied_by
    changed_by = (actor, receipt.plan_id, receipt.source.commit, finished_at)
    return [
        (path, receipt.cluster.id, item.entity.address, row.key, row.before, row.after, started_at, changed_by, None)
        for item in receipt.results
        if item.result.may_have_written
        for row in item.rows
    ]


def attributed(rows: DataFrame, receipts: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return rows of `changes_of` with who set the value and who removed the one before it.

    A receipt says it of a value if its apply ran between the two snapshots and set that value of that key of the
    entity; of the one before if it says that it was there before. Of several the last one counts.
    """
    between = small_table(
        rows.sparkSession,
        ["cluster", "cluster_id", "after_at", "read_at"],
        ((each.cluster, each.cluster_id, *times) for each in new for times in each.intervals()),
    )
    is_between = (receipts["started_at"] <= between["read_at"]) & (
        receipts["changed_by.at"] + f.expr("INTERVAL 1 SECOND") > between["after_at"]
    )
    is_same_cluster = receipts["cluster_id"] == between["cluster_id"]
    claims = receipts.where("problem IS NULL").join(f.broadcast(between), is_same_cluster & is_between)
    claims = claims.select(between["cluster"], between["read_at"], "entity_key", "key", "before", "after", "changed_by")
    of_row = ["cluster", "read_at", "entity_key", "key"]
    for claimed, value, name in (("after", "value", "changed_by"), ("before", "before", "ended_by")):
        made = claims.where(f.col(claimed).isNotNull()).groupBy(*of_row, f.col(claimed).alias(value))
        last = made.agg(f.max_by("changed_by", "changed_by.at").alias(name))
        rows = rows.join(last, [*of_row, value], "left")
    return rows


_MOST_PROBLEMS: Final = 100
_MOST_ATTEMPTS: Final = 3
"""How often an append begins again because another one was faster."""


def append(
    open_table: Callable[[], HistoryTable],
    quotas: DataFrame,
    receipts: Receipts | None = None,
    *,
    is_stable: bool = False,
) -> HistoryAppend:
    """Append snapshots to a history, all or none.

    `open_table`: opens the history; called again when another append was faster. `quotas`: `QUOTAS` or `SNAPSHOTS`; of
    several files with a snapshot of one cluster and time, the first by path counts. `receipts`: those that may say who
    changed what. `is_stable`: whether the quotas are the same each time they are read, and that takes little, as of a
    table in Parquet; if not, they are read once and kept until the end. Raises `HistoryError` if it cannot be written,
    or other appends were faster each time.
    """
    table = open_table()
    table.require_writable()
    given = _with_file(quotas)
    if not is_stable:
        given = given.localCheckpoint()
    snapshots = _snapshots(given)
    chosen = _first_of_each(snapshots)
    for _ in range(_MOST_ATTEMPTS):
        readings = table.readings()
        new = new_snapshots(snapshots_of(readings), (row[:3] for row in chosen))
        status = {(each.cluster, each.read_at): Append.LATE if each.is_late else Append.APPENDED for each in new}
        taken = [row for row in chosen if (row[0], row[2]) in status]
        claims = None if receipts is None else read_receipts(given.sparkSession, receipts, new)
        changes = changes_of(readings, _rows_of(given, taken), new)
        if claims is not None:
            claims = claims.localCheckpoint()
            changes = attributed(changes, claims, new)
        times = small_table(given.sparkSession, ["cluster", "cluster_id", "read_at"], (row[:3] for row in taken))
        if not new or table.add(completed(changes, READINGS).unionByName(completed(times, READINGS))):
            return HistoryAppend(table.name, tuple(_results(snapshots, status)), _problems(claims))
        table = open_table()
    raise HistoryError(table.name, "other appends were faster each time", "run this again")


def _with_file(quotas: DataFrame) -> DataFrame:
    if "file" not in quotas.columns:
        quotas = quotas.withColumn("file", f.lit(None).cast("string"))
    return quotas.select(*SNAPSHOTS.names)


def _snapshots(given: DataFrame) -> list[dict[str, Any]]:
    """Bring the snapshots that were read or failed to the driver, without what they hold."""
    rows = given.groupBy("cluster", "cluster_id", "read_at", "file", "failure").agg(f.count("key").alias("values"))
    return sorted(
        rows.toArrow().to_pylist(),
        key=lambda row: (row["failure"] is not None, row["cluster"] or "", str(row["read_at"]), row["file"] or ""),
    )


def _first_of_each(snapshots: Sequence[Mapping[str, Any]]) -> list[_Snapshot]:
    """Return the snapshots that count: of several of one cluster and time the first by path."""
    first: dict[tuple[str, datetime], _Snapshot] = {}
    for row in snapshots:
        if row["failure"] is None:
            cluster, read_at = row["cluster"], row["read_at"]
            first.setdefault((cluster, read_at), (cluster, row["cluster_id"], read_at, row["file"]))
    return list(first.values())


def _rows_of(given: DataFrame, chosen: Sequence[_Snapshot]) -> DataFrame:
    """Return the rows of some snapshots."""
    names = ["cluster", "cluster_id", "read_at", "file"]
    rows = small_table(given.sparkSession, names, chosen)
    is_same = [given[name].eqNullSafe(rows[name]) for name in names]
    return given.join(f.broadcast(rows), is_same, "left_semi")


def _results(snapshots: Sequence[Mapping[str, Any]], status: Status) -> list[AppendedSnapshot]:
    left = dict(status)
    return [
        AppendedSnapshot(
            cluster=row["cluster"],
            file=row["file"],
            cluster_id=row["cluster_id"],
            read_at=row["read_at"],
            values=row["values"],
            status=None if row["failure"] else left.pop((row["cluster"], row["read_at"]), Append.KNOWN),
            error=_error(row["failure"]),
        )
        for row in snapshots
    ]


def _problems(claims: DataFrame | None) -> tuple[str, ...]:
    """Return why receipts could not be read."""
    if claims is None:
        return ()
    rows = claims.where(f.col("problem").isNotNull()).select("problem").distinct().orderBy("problem")
    return tuple(rows.limit(_MOST_PROBLEMS).toArrow().column("problem").to_pylist())


def _error(failure: Mapping[str, Any] | None) -> QuotaformError | None:
    try:
        require_read(failure)
    except QuotaformError as error:
        return error
    return None


def changes_of(readings: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return what new snapshots add to a history: rows of `READINGS` that have an entity, and the value `before`.

    What a new snapshot holds is compared with the one before it, and the one after it with what it holds.

    `readings`: `READINGS` that are known. `quotas`: `QUOTAS` of the new snapshots.
    """
    fresh = {(each.cluster, each.read_at) for each in new}
    pairs: set[tuple[str, datetime | None, datetime]]
    pairs = {(each.cluster, *times) for each in new for times in each.intervals()}
    pairs |= {(each.cluster, None, each.read_at) for each in new if each.previous_at is None}
    names = ["cluster_id", "entity", "value"]
    known = readings.where(f.col("entity_key").isNotNull()).withColumn("is_new", f.lit(False))
    shown = quotas.where(f.col("entity_key").isNotNull())
    columns: list[Column | str]
    columns = ["cluster", f.col("read_at").alias("at"), "entity_key", "key", f.struct(*names).alias("held"), "is_new"]
    rows = known.select(*columns).unionByName(shown.withColumn("is_new", f.lit(True)).select(*columns))
    compared = small_table(
        readings.sparkSession,
        ["cluster", "read_at", "old_new", "old_known", "now_new", "now_known"],
        (
            (cluster, now, *_by_kind(fresh, cluster, before), *_by_kind(fresh, cluster, now))
            for cluster, before, now in pairs
        ),
    )
    at, is_new = f.col("at"), f.col("is_new")
    sides = {
        side: (is_new & (at == f.col(f"{side}_new"))) | (~is_new & (at <= f.col(f"{side}_known")))
        for side in ("old", "now")
    }
    # Of several rows of a key the last one says what it was.
    last = [f.max_by(f.when(is_in, f.col("held")), f.when(is_in, at)).alias(side) for side, is_in in sides.items()]
    # Brought together before they are sorted, else Spark sorts them before and after.
    rows = rows.repartition("cluster", "entity_key", "key")
    found = rows.join(f.broadcast(compared), "cluster").where(sides["old"] | sides["now"])
    found = found.groupBy("cluster", "entity_key", "key", "read_at").agg(*last)
    now, old = f.col("now.value"), f.col("old.value")
    is_same = now.eqNullSafe(old) & (now.isNull() | (f.col("now.cluster_id") == f.col("old.cluster_id")))
    return found.where(~is_same).select(
        *("cluster", "read_at", "entity_key", "key"),
        *(f.coalesce(f"now.{name}", f"old.{name}").alias(name) for name in ("cluster_id", "entity")),
        now.alias("value"),
        old.alias("before"),
    )


def _by_kind(
    fresh: Container[tuple[str, datetime]], cluster: str, at: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return the time of a new snapshot, and that of a known one: one of them is `None`."""
    return (None, at) if at is None or (cluster, at) not in fresh else (at, None)
