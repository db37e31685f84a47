"""Who changed what, as receipts say: read on the executors, and joined to the rows whose changes they explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from quotaform.app.apply.receipt_file import load_receipt_file
from quotaform.app.apply.receipt_name import receipts_by_name, time_in_name
from quotaform.errors import QuotaformError
from quotaform.model.moment import read_moment
from quotaform.spark.history.new_snapshot import NewSnapshot, small_table
from quotaform.spark.job.driver_context import inside
from quotaform.spark.schemas import HISTORY, RECEIPTS, make_table, row_batch

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

_PATHS: Final = StructType([RECEIPTS["file"]])
_LONGEST_APPLY: Final = timedelta(days=1)
"""How much sooner than an apply ends its receipt may have got its name."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """A folder of receipts.

    Attributes:
        folder: The folder; one that does not exist has none.
        within: The folder that no receipt must lead out of.
    """

    folder: Path
    within: Path | None = None

    def paths(self, new: Sequence[NewSnapshot]) -> list[str]:
        """Return the receipts of applies that may have ended between new snapshots and those before them."""
        starts = [each.previous_at for each in new if each.previous_at is not None]
        starts += [each.read_at for each in new if each.next_at is not None]
        if not starts:
            return []
        first = min(starts) - _LONGEST_APPLY
        return [str(path) for path in receipts_by_name(self.folder) if read_moment(time_in_name(path)) >= first]


def read_receipts(spark: SparkSession, receipts: Receipts, new: Sequence[NewSnapshot]) -> DataFrame | None:
    """Return `schemas.RECEIPTS`; `None` if no receipt can say anything about new snapshots."""
    paths = receipts.paths(new)
    if not paths:
        return None
    directory, within = str(Path.cwd()), receipts.within

    def read(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for path in batch.column("file").to_pylist():
                yield row_batch(RECEIPTS, _rows(path, directory, within))

    return make_table(spark, _PATHS, [paths]).repartition(min(len(paths), 256)).mapInArrow(read, RECEIPTS)


def _rows(path: str, directory: str, within: Path | None) -> list[tuple[Any, ...]]:
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
        (path, receipt.cluster_id, item.entity.address, row.key, row.before, row.after, started_at, changed_by, None)
        for item in receipt.results
        if item.result.may_have_written
        for row in item.rows
    ]


def attributed(rows: DataFrame, receipts: DataFrame, new: Sequence[NewSnapshot]) -> DataFrame:
    """Return `schemas.HISTORY` with who set and who removed values between a new snapshot and the one before it.

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
