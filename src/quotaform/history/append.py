"""Appends snapshots to a history, with who changed what, as receipts say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from quotaform.fleet.bundle import inside
from quotaform.fleet.data_source import SNAPSHOTS, require_read
from quotaform.fleet.table import make_table, row_batch
from quotaform.history.history import Append, AppendedSnapshot, HistoryAppend
from quotaform.history.spark import (
    CHANGED_BY,
    HISTORY,
    NewSnapshot,
    known_snapshots,
    new_snapshots,
    small_table,
    snapshot_rows,
)
from quotaform.history.table import Merged
from quotaform.model.errors import HistoryError, QuotaformError
from quotaform.model.moment import read_moment
from quotaform.plan.receipt_file import load_receipt_file, receipts_by_name, time_in_name
from quotaform.resolve.spark_quotas import DOUBLE, TEXT, TIME, completed, struct

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession


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

    return make_table(spark, _PATHS, [paths]).repartition(min(len(paths), 256)).mapInArrow(read, RECEIPTS)


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
    """Return `HISTORY` with who set and who removed values between a new snapshot and the one before it.

    A receipt says it of a value that the history shows as new if its apply ran between the two and set that value of
    that key of the entity; of one that the history shows as gone if it says that it was there before. Of several the
    last one counts.
    """
    between = small_table(
        rows.sparkSession,
        ["cluster", "cluster_id", "after_at", "moment"],
        (row for each in new for row in _between(each)),
    )
    is_between = (receipts["started_at"] <= between["moment"]) & (
        receipts["changed_by.at"] + f.expr("INTERVAL 1 SECOND") > between["after_at"]
    )
    is_same_cluster = receipts["cluster_id"] == between["cluster_id"]
    claims = receipts.where("problem IS NULL").join(f.broadcast(between), is_same_cluster & is_between)
    claims = claims.select(
        between["cluster"], "moment", receipts["entity_key"], receipts["key"], "before", "after", "changed_by"
    )
    set_by = _last(claims.where("after IS NOT NULL"), "after").withColumnRenamed("claim", "set_claim")
    ended_by = _last(claims.where("before IS NOT NULL"), "before").withColumnRenamed("claim", "end_claim")
    found = rows.alias("rows").join(set_by.alias("set"), _is_of("set", "valid_from"), "left")
    found = found.join(ended_by.alias("end"), _is_of("end", "valid_to"), "left")
    columns = {name: f.col(f"rows.{name}") for name in HISTORY.names}
    columns["changed_by"] = f.coalesce("rows.changed_by", "set_claim").alias("changed_by")
    columns["ended_by"] = f.coalesce("rows.ended_by", "end_claim").alias("ended_by")
    return found.select(*columns.values())


def _between(snapshot: NewSnapshot) -> Iterator[tuple[str, str, datetime, datetime]]:
    """Yield where values can begin or end because of a new snapshot: at its time, and at that of the next one."""
    if snapshot.previous_at is not None:
        yield snapshot.cluster, snapshot.cluster_id, snapshot.previous_at, snapshot.read_at
    if snapshot.next_at is not None:
        yield snapshot.cluster, snapshot.cluster_id, snapshot.read_at, snapshot.next_at


def _last(claims: DataFrame, value: str) -> DataFrame:
    """Return the last claim about each value."""
    last = f.max_by("changed_by", "changed_by.at").alias("claim")
    claimed = claims.withColumn("claimed", f.col(value))
    return claimed.groupBy("cluster", "moment", "entity_key", "key", "claimed").agg(last)


def _is_of(claims: str, moment: str) -> Column:
    same = [f.col(f"rows.{name}") == f.col(f"{claims}.{name}") for name in ("cluster", "entity_key", "key")]
    is_then = f.col(f"rows.{moment}") == f.col(f"{claims}.moment")
    return same[0] & same[1] & same[2] & is_then & f.col("rows.value").eqNullSafe(f.col(f"{claims}.claimed"))


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from quotaform.history.table import HistoryTable

    Status = Mapping[tuple[str, datetime], Append]
    _Snapshot = tuple[str, str, datetime, str | None]
    from pyspark.sql import Column

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
    """Append snapshots to a history, all in one version.

    `open_table`: Opens the history; called again when another append was faster. `quotas`: `QUOTAS` or
    `SNAPSHOTS`. Of several files with a snapshot of one cluster and time, the first by path counts; `receipts`:
    The receipts that may say who changed what. `is_stable`: Whether the quotas are the same each time they are read,
    and that takes little, as of a table in Parquet. If not, they are read once and kept until the end.
    Raises `HistoryError`: It cannot be written, or other appends were faster each time.
    """
    table = open_table()
    table.require_writable()
    given = _with_file(quotas)
    if not is_stable:
        given = given.localCheckpoint()
    snapshots = _snapshots(given)
    chosen = _first_of_each(snapshots)
    has_more = sum(row["failure"] is None for row in snapshots) > len(chosen)
    counted = _rows_of(given, chosen) if has_more else given
    for _ in range(_MOST_ATTEMPTS):
        new = new_snapshots(known_snapshots(table.snapshots()), (row[:3] for row in chosen))
        status = {(each.cluster, each.read_at): Append.LATE if each.is_late else Append.APPENDED for each in new}
        claims = None if receipts is None else read_receipts(given.sparkSession, receipts, new)
        if claims is not None:
            claims = claims.localCheckpoint()

        def merge(rows: DataFrame, new: Sequence[NewSnapshot] = new, claims: DataFrame | None = claims) -> Merged:
            merged = appended(rows, counted, new)
            if claims is None:
                return merged
            # Who changed rows that stay as they are is known already.
            return replace(merged, changed=attributed(merged.changed, claims, new))

        is_late = Append.LATE in status.values()
        if not new or table.replace(merge, snapshot_rows(given.sparkSession, new), is_late=is_late):
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


def appended(history: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> Merged:
    """Return what becomes of rows by new snapshots; see above.

    `history`: `HISTORY`: those rows of the clusters of the snapshots that may change, at least all that are
    still valid, and of clusters with a late one all that ended after the earliest; and rows of others; `quotas`:
    `QUOTAS`; rows of snapshots that are not new are left out.
    """
    held = history.where(f.col("entity_key").isNotNull())
    count = Counter(each.cluster for each in new)
    in_order = [each for each in new if count[each.cluster] == 1 and not each.is_late]
    others = [each for each in new if count[each.cluster] > 1 or each.is_late]
    if not others:
        return merged_in_order(held, quotas, in_order)
    clusters = small_table(held.sparkSession, ["cluster"], ((name,) for name in {each.cluster for each in others}))
    rest = held.join(f.broadcast(clusters), "cluster", "left_anti")
    if in_order:
        rest = merged_in_order(rest, quotas, in_order).rows()
    return Merged(rest.unionByName(merged_in_any_order(held, quotas, others)))


_KEY: Final = ["cluster", "entity_key", "key"]
_OWN: Final = ["cluster", "cluster_id", "entity_key", "entity", "key", "value"]


def merged_in_any_order(held: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return `HISTORY` of the clusters of new snapshots; see `quotaform.history.append.appended`.

    `held`: Rows with an entity: those of these clusters that may change, and rows of others.
    """
    return _joined(_cut(held, new).unionByName(_filling(quotas, new))).select(*HISTORY.names)


def _filling(quotas: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return what the snapshots hold, each from its time to that of the next one."""
    window = small_table(
        quotas.sparkSession,
        ["cluster", "cluster_id", "read_at", "valid_to"],
        ((each.cluster, each.cluster_id, each.read_at, each.next_at) for each in new),
    )
    held = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    rows = held.join(f.broadcast(window), ["cluster", "cluster_id", "read_at"])
    return completed(rows.withColumnRenamed("read_at", "valid_from"), HISTORY)


def _cut(held: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return the rows of the clusters of new snapshots without the times that one of those tells about."""
    gaps = small_table(held.sparkSession, ["cluster", "gap_from", "gap_to"], _gaps(new))
    start, end = f.col("valid_from"), f.col("valid_to")
    gap_from, gap_to = f.col("gap_from"), f.col("gap_to")
    later, sooner = f.greatest(start, gap_from), f.least(end, gap_to)  # Both ignore null, which is no bound.
    is_in_gap = (gap_from.isNull() | end.isNull() | (gap_from < end)) & (gap_to.isNull() | (gap_to > start))
    return (
        held.join(f.broadcast(gaps), "cluster")
        .where(is_in_gap)
        .select(
            *_OWN,
            later.alias("valid_from"),
            sooner.alias("valid_to"),
            f.when(later == start, f.col("changed_by")).alias("changed_by"),
            f.when(sooner.eqNullSafe(end), f.col("ended_by")).alias("ended_by"),
        )
    )


def _gaps(new: Sequence[NewSnapshot]) -> Iterator[tuple[str, datetime | None, datetime | None]]:
    """Yield the times of clusters that no new snapshot tells about: cluster, start, end; `None` is no bound."""
    for cluster, readings in groupby(new, key=lambda snapshot: snapshot.cluster):
        start: datetime | None = None
        for snapshot in readings:
            if start is None or start < snapshot.read_at:
                yield cluster, start, snapshot.read_at
            start = snapshot.next_at
        if start is not None:
            yield cluster, start, None


def _joined(pieces: DataFrame) -> DataFrame:
    """Return pieces with those as one row that follow each other with the same value of the same cluster id."""
    in_order = Window.partitionBy(*_KEY).orderBy("valid_from")
    rest = in_order.rowsBetween(0, Window.unboundedFollowing)
    before = f.lag(f.struct("cluster_id", "value", "valid_to")).over(in_order)
    goes_on = (
        f.col("before.valid_to").eqNullSafe(f.col("valid_from"))
        & f.col("before.cluster_id").eqNullSafe(f.col("cluster_id"))
        & f.col("before.value").eqNullSafe(f.col("value"))
    )
    # The last piece of a row is the one before the next row, or the last of all.
    return (
        pieces.withColumn("before", before)
        .withColumn("last", f.last(f.struct("valid_to", "ended_by")).over(rest))
        .withColumn("end_before", f.lag(f.struct("valid_to", "ended_by")).over(in_order))
        .where(f.col("before").isNull() | ~goes_on)
        .withColumn("end", f.coalesce(f.lead("end_before").over(in_order), f.col("last")))
        .select(
            *_OWN,
            "valid_from",
            f.col("end.valid_to").alias("valid_to"),
            "changed_by",
            f.col("end.ended_by").alias("ended_by"),
        )
    )


_SORTED_BY: Final = ["hash", "key", "cluster", "entity_key"]
"""Numbers are compared faster than texts, and the rows of an entity stay together, which are alike."""
_MOST_CHANGES: Final = 1_000_000
"""How many hashes of changed values every executor gets; with more of them, all rows are joined."""


def merged_in_order(held: DataFrame, quotas: DataFrame, new: Sequence[NewSnapshot]) -> Merged:
    """Return what becomes of rows by one new snapshot of each cluster, later than all others: the usual case.

    A value of the snapshot continues the row that is still valid if it is the same value of the same cluster id. Else
    that row ends and a new one begins.

    From one snapshot to the next few values change. So a job looks for the values that change first, by hashes and
    numbers alone; then only those are joined as a whole, and all other rows stay as they are without being moved.

    `held`: Rows with an entity: of the clusters of new snapshots at least all that are still valid; rows that have
    ended, and rows of other clusters, stay as they are.
    """
    snapshots = f.broadcast(
        small_table(
            held.sparkSession,
            ["cluster", "cluster_id", "read_at"],
            ((each.cluster, each.cluster_id, each.read_at) for each in new),
        )
    )
    taken = quotas.where(f.col("failure").isNull() & f.col("entity_key").isNotNull())
    fresh = taken.join(snapshots, ["cluster", "cluster_id", "read_at"])
    is_open = f.col("valid_to").isNull()
    own = held.where(is_open).join(snapshots.drop("cluster_id", "read_at"), "cluster", "left_semi")
    changed = _changed(own, fresh) if any(each.previous_at is not None for each in new) else None
    if changed is None:
        ended = held.where(~is_open).join(snapshots, "cluster", "left_semi")
        others = held.join(snapshots, "cluster", "left_anti")
        return Merged(_next_rows(own, fresh, snapshots).unionByName(ended).unionByName(others))
    is_changed = f.xxhash64(*_KEY) == changed["hash"]
    rows = _next_rows(
        own.join(changed, is_changed, "left_semi"), fresh.join(changed, is_changed, "left_semi"), snapshots
    )
    # The name of the cluster is in the hash.
    return Merged(rows, held.join(changed, is_open & is_changed, "left_anti"))


def _changed(own: DataFrame, fresh: DataFrame) -> DataFrame | None:
    """Find which values differ between the rows that are valid and new snapshots.

    Returns the hashes of their keys: `hash`. A key that shares its hash with another one is among them. `None` if there
    are more than `_MOST_CHANGES`.
    """
    old, now = (
        rows.select(
            f.xxhash64(*_KEY).alias("hash"),
            f.xxhash64("key", "entity_key", "cluster", "cluster_id").alias("other_hash"),
            "value",
        )
        for rows in (own, fresh)
    )
    is_same = (old["other_hash"] == now["other_hash"]) & (old["value"] == now["value"])
    pairs = old.join(now, old["hash"] == now["hash"], "full_outer").where(~f.coalesce(is_same, f.lit(False)))
    found = pairs.select(f.coalesce(old["hash"], now["hash"]).alias("hash"))
    changed = found.limit(_MOST_CHANGES + 1).localCheckpoint()
    return f.broadcast(changed) if changed.count() <= _MOST_CHANGES else None


def _next_rows(own: DataFrame, fresh: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return what rows that are still valid become with what new snapshots of their clusters hold.

    `own`: Rows of `HISTORY`. `fresh`: Values, with the columns of `QUOTAS`.
    """
    hash_of = f.xxhash64("cluster", "entity_key").alias("hash")
    old = own.select(
        hash_of,
        *_KEY,
        *(f.col(name).alias(f"old_{name}") for name in ("cluster_id", "entity", "value")),
        "valid_from",
        "changed_by",
    )
    now = fresh.select(hash_of, *_KEY, f.col("entity").alias("new_entity"), f.col("value").alias("new_value"))
    return now.join(old, _SORTED_BY, "full_outer").join(snapshots, "cluster").select(f.inline(_succeeding_rows()))


def _succeeding_rows() -> Column:
    """Return the rows that an old value and a new one of the same key make: an array of one or two."""
    before, after = f.col("old_value"), f.col("new_value")
    is_same = f.col("old_cluster_id").eqNullSafe(f.col("cluster_id")) & before.eqNullSafe(after)
    old = _row(
        cluster_id=f.col("old_cluster_id"),
        entity=f.col("old_entity"),
        value=before,
        valid_from=f.col("valid_from"),
        valid_to=f.when(~is_same, f.col("read_at")),
        changed_by=f.col("changed_by"),
    )
    new = _row(cluster_id=f.col("cluster_id"), entity=f.col("new_entity"), value=after, valid_from=f.col("read_at"))
    one = f.when(is_same | after.isNull(), f.array(old)).when(before.isNull(), f.array(new))
    return one.otherwise(f.array(old, new))


def _row(**columns: Column) -> Column:
    """Return a row of `HISTORY`; columns that are not given are those of the key, or null."""
    columns |= {name: f.col(name) for name in _KEY}
    null = f.lit(None)
    return f.struct(*(columns.get(each.name, null).cast(each.dataType).alias(each.name) for each in HISTORY))
