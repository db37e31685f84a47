"""One batch of a stream: which records are new, and what they add to the table.

| moment of a kill | what the next run does |
| --- | --- |
| before the offsets of the batch are written | nothing was done; a batch begins at the same offset |
| while its rows are made | makes them again, from the same offsets; nobody reads the folder `_quotaform-…` |
| while files take their places | makes them again; each takes the place of the equal one that is there |
| before Spark notes the end of the batch | the same |
| after that | begins with the next batch |
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StructField,
)

from quotaform.fleet.table import located, located_exactly
from quotaform.model.errors import StreamError
from quotaform.system.files import sync_folder, sync_tree
from quotaform.usage.ingest.ingest import StreamCounts
from quotaform.usage.sample import DropReason
from quotaform.usage.stream.message import messages
from quotaform.usage.table.schema import QUARANTINE, USAGE, struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.usage.metric_name import Origin
    from quotaform.usage.stream.checkpoint import Checkpoint
    from quotaform.usage.stream.topic import Topic


# Which records of a batch were read before, and which are late.
#
# The watermark is the newest time of all batches before, less what a stream waits. Back to it, the ids of all records
# are known, so that one which comes again is found; whether an older one was there cannot be told, so it is late.
#
# Partitions of a backlog may cover different times, of which a batch has as many records as their sizes say. So while
# partitions have a backlog, the newest time is that of the one of them that is furthest behind.
#
# Any clock may be ahead: that of the samples, and by default that of the record as well, since its producer sets it.
# The time at which a batch is read bounds both, so that a wrong clock neither makes the records of others late nor has
# ids kept for as long as it is ahead.

LATE: Final = "late"
DUPLICATE: Final = "duplicate"

SEEN: Final = struct_type("id binary", "ts advance timestamp")
"""The records that were read and may come again.

| column | content |
| --- | --- |
| ts | how long it may come again: until the watermark is later than this |
| advance | how far it moves the watermark, which is what a stream waits before the latest of these |

Both are the time of its newest sample, or of the record if it has no samples. `advance` is at most the time of the
record, the time at which it was read and, once its batch has ended, the newest time that the watermark follows; `ts` is
at most what a stream waits after it was read.
"""

JUDGED: Final = struct_type(
    "partition int",
    "offset long",
    *SEEN,
    "samples long",
    StructField("dropped", ArrayType(LongType())),
    "rejected int",
    "status string",
)
"""What becomes of each record of a batch.

| column | content |
| --- | --- |
| samples, dropped | as in `MESSAGES` |
| rejected | how much of it could not be read |
| status | `late`, `duplicate`, or null for one that goes into the table |
"""


def judged(messages: DataFrame, seen: DataFrame, wait_s: int) -> DataFrame:
    """Return `JUDGED`; of equal records in a batch the first one counts.

    `messages`: `MESSAGES` of one batch. `seen`: `SEEN` of the batches before. `wait_s`: how many seconds the watermark
    is behind the newest time.
    """
    ts = f.coalesce("newest", "recorded_at")
    rows = messages.select(
        *("id", "partition", "offset", "samples", "dropped", "read_at"),
        ts.alias("ts"),
        f.least(ts, "recorded_at", "read_at").alias("advance"),
        f.size("rejected").alias("rejected"),
    )
    known = seen.select("id", f.lit(True).alias("is_known"))
    watermark = seen.select((f.max("advance") - _seconds(wait_s)).alias("watermark"))
    copy = f.row_number().over(Window.partitionBy("id").orderBy("partition", "offset"))
    rows = rows.withColumn("copy", copy).join(known, "id", "left").crossJoin(f.broadcast(watermark))
    is_copy = f.col("is_known").isNotNull() | (f.col("copy") > 1)
    status = f.when(f.col("ts") < f.col("watermark"), LATE).when(is_copy, DUPLICATE)
    # The clock of this machine may have been set back: what was believed before is not later than now.
    now = f.greatest("read_at", f.col("watermark") + _seconds(wait_s))
    ts = f.least("ts", now + _seconds(wait_s))
    return rows.withColumn("status", status).withColumn("ts", ts).select(*JUDGED.names)


def still_seen(judged: DataFrame, seen: DataFrame, wait_s: int, ends: Mapping[int, int] | None) -> DataFrame:
    """Return `SEEN` after a batch: without those that are late from now on.

    `judged`: `JUDGED` of the batch. `seen`: `SEEN` of the batches before. `wait_s`: as for `judged`. `ends`: the offset
    after the last record of partitions: those have a backlog of which the batch has less. `None` if that is not known,
    and each of them may have one.
    """
    accepted = judged.where(f.col("status").isNull())
    both = seen.unionByName(accepted.select(*SEEN.names))
    newest = (
        seen.agg(f.max("advance").alias("before"))
        .crossJoin(accepted.agg(f.max("advance").alias("accepted")))
        .crossJoin(_behind(judged, ends).agg(f.min("advance").alias("slowest")))
        # It never goes back: an id that was forgotten could come again.
        .select(
            f.greatest("before", f.when(f.col("accepted").isNotNull(), f.least("accepted", "slowest"))).alias("newest")
        )
    )
    kept = both.crossJoin(f.broadcast(newest)).where(f.col("ts") >= f.col("newest") - _seconds(wait_s))
    return kept.withColumn("advance", f.least("advance", "newest")).select(*SEEN.names)


def _behind(judged: DataFrame, ends: Mapping[int, int] | None) -> DataFrame:
    """Return the partitions of a batch that have a backlog, and the newest time of each in the batch.

    A partition with a backlog has at least one record in each batch, as Spark rounds its share up.
    """
    parts = judged.groupBy("partition").agg(f.max("advance").alias("advance"), f.max("offset").alias("last"))
    if ends is None:
        return parts
    known = f.create_map(*(f.lit(number) for place in ends.items() for number in place)) if ends else None
    if known is None:
        return parts.where(f.lit(False))
    return parts.where(f.try_element_at(known, f.col("partition")) > f.col("last") + 1)


def _seconds(count: int) -> Column:
    return f.make_dt_interval(secs=f.lit(count))


_ROWS_IN_FILE: Final = 2_000_000
_STAGING: Final = "_quotaform-"
_LATE_REASON: Final = "late: older than the watermark, so whether it was read before is not known"


class FinishedError(Exception):
    """A batch began when the stream was about to end; the next run begins with it."""


@dataclass(slots=True)
class BatchWriter:
    """Writes batches, one at a time."""

    checkpoint: Checkpoint
    input_format: str  # How records are written
    origin: Origin
    usage: Path  # The folder of the table
    quarantine: Path  # The folder of what could not be read
    wait_s: int  # How many seconds the watermark is behind the newest time
    described: Callable[[], Topic | None]  # Asks the cluster for the topic
    ends: Mapping[int, int] | None = None
    """The offset after the last record of each partition, as last known; `None` before it is."""
    counts: StreamCounts = StreamCounts()  # noqa: RUF009
    """The sums of all batches."""
    problem: Exception | None = None  # What a batch raised; Spark ends the stream and gives a text of it only
    last_batch: int = -1  # The number of the last batch that was written; -1 for none
    is_finished: bool = False  # Whether no further batch is written
    writing: Lock = field(default_factory=Lock)  # Held while a batch is written

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Write a batch, whether or not it was written before."""
        with self.writing:
            if self.is_finished:
                raise FinishedError
            try:
                self.counts += self._write(records, batch)
                self.last_batch = batch
            except Exception as error:
                self.problem = error
                raise

    def finish(self, seconds: float) -> None:
        """Let no further batch begin, and wait for the one that is written, for so many seconds at most."""
        self.is_finished = True
        # Not held any longer: who stops the stream waits for a batch that begins now, and which has to fail.
        if self.writing.acquire(timeout=seconds):
            self.writing.release()

    def _write(self, records: DataFrame, batch: int) -> StreamCounts:
        parsed = messages(records, self.input_format, self.origin).persist(StorageLevel.MEMORY_AND_DISK)
        seen = self._seen(records, batch)
        status = judged(parsed, seen, self.wait_s).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = _counts(status)
            # Not before: what was read by now is of the topic that is there now.
            self.checkpoint.require_topic(self.described())
            self.checkpoint.sync(batch)
            accepted = _with_status(parsed, status).where(f.col("status").isNull())
            files = ceil(found.written / _ROWS_IN_FILE)
            # By their places, so that a file holds the same rows when it is made again.
            spread = accepted.repartition(files, "partition", "offset") if files > 1 else accepted.coalesce(1)
            rows = spread.select(f.explode("rows").alias("row")).select(*(f"row.{name}" for name in USAGE.names))
            self._publish(rows, self.usage, batch, is_empty=not files)
            bad = self._bad(_with_status(parsed, status)).coalesce(1)
            self._publish(bad, self.quarantine, batch, is_empty=not found.quarantined + found.late_records)
            self._keep(still_seen(status, seen, self.wait_s, self.ends), batch)
        finally:
            status.unpersist()
            parsed.unpersist()
        return found

    def _seen(self, records: DataFrame, batch: int) -> DataFrame:
        """Return `SEEN` of the batches before."""
        if batch == 0:
            return records.sparkSession.createDataFrame([], SEEN)
        folder = self.checkpoint.seen(batch - 1)
        if not folder.is_dir():
            raise StreamError(self.checkpoint.shown, f"{folder} is missing", "restore it, or give another --checkpoint")
        return records.sparkSession.read.schema(SEEN).parquet(located_exactly(str(folder)))

    def _bad(self, rows: DataFrame) -> DataFrame:
        """Return `QUARANTINE`: what could not be read in records, and the records that are late."""
        late = f.struct(f.lit(_LATE_REASON).alias("reason"), f.col("head").alias("record"))
        each = f.when(f.col("status") == LATE, f.array(late)).when(f.col("status").isNull(), f.col("rejected"))
        bad = rows.select("partition", "offset", f.explode(each).alias("bad"))
        topic = self.checkpoint.topic
        return bad.select(
            f.concat(f.lit(f"kafka:{topic}/"), f.col("partition")).alias("file"),
            f.col("offset").alias("position"),
            f.concat(f.lit("offset "), f.col("offset"), f.lit(": "), f.col("bad.reason")).alias("reason"),
            f.col("bad.record").alias("record"),
            f.current_timestamp().alias("ingested_at"),
        ).select(*QUARANTINE.names)

    def _publish(self, rows: DataFrame, folder: Path, batch: int, *, is_empty: bool) -> None:
        """Let a folder have the rows of a batch, a file for each of their partitions.

        `rows`: the rows; a partition has the same ones each time. `is_empty`: whether there are no rows, and so no
        files.
        """
        staging = staging_of(folder, self.checkpoint)
        made: Sequence[Path] = ()
        if not is_empty:
            rows.write.mode("overwrite").parquet(located(str(staging)))
            sync_tree(staging)
            made = sorted(staging.glob("*.parquet"))
        name = f"{self.checkpoint.stream_id}-{batch:09d}"
        before = set(folder.glob(f"{name}-*.parquet")) if folder.is_dir() else set()
        for number, file in enumerate(made):
            place = folder / f"{name}-{number:03d}.parquet"
            file.replace(place)
            before.discard(place)
        # A batch that was made in part, by another version of quotaform.
        for place in before:
            place.unlink()
        if made:
            sync_folder(folder)
            shutil.rmtree(staging, ignore_errors=True)

    def _keep(self, seen: DataFrame, batch: int) -> None:
        staging = self.checkpoint.staging()
        seen.coalesce(1).write.mode("overwrite").parquet(located(str(staging)))
        self.checkpoint.keep_seen(staging, batch)


def staging_of(folder: Path, checkpoint: Checkpoint) -> Path:
    """Return the folder in a table in which a run makes the files of a batch; no reader of Parquet looks there."""
    return folder / f"{_STAGING}{checkpoint.stream_id}-{checkpoint.run_id}"


def remove_staging(folder: Path, checkpoint: Checkpoint) -> None:
    """Remove what earlier runs have left in a table."""
    for staging in folder.glob(f"{_STAGING}{checkpoint.stream_id}*"):
        shutil.rmtree(staging, ignore_errors=True)


def _with_status(parsed: DataFrame, status: DataFrame) -> DataFrame:
    place = ["partition", "offset"]
    return parsed.join(f.broadcast(status.select(*place, "status")), place)


def _counts(status: DataFrame) -> StreamCounts:
    """Return the counts of a batch from its `JUDGED`."""
    dropped = [f.col("dropped")[number] for number in range(len(DropReason))]
    whole = f.col("samples") + sum(dropped, f.lit(0)) + f.col("rejected")
    is_in, is_late, is_copy = f.col("status").isNull(), f.col("status") == LATE, f.col("status") == DUPLICATE

    def total(values: Column, condition: Column) -> Column:
        return f.coalesce(f.sum(f.when(condition, values)), f.lit(0))

    row = status.agg(
        f.count("*").alias("records"),
        total(whole, f.lit(True)).alias("samples"),
        total(f.col("samples"), is_in).alias("written"),
        total(f.col("rejected"), is_in).alias("quarantined"),
        total(f.lit(1), is_late).alias("late_records"),
        total(whole, is_late).alias("late"),
        total(f.lit(1), is_copy).alias("duplicate_records"),
        total(whole, is_copy).alias("duplicate"),
        f.array(*(total(each, is_in) for each in dropped)).alias("dropped"),
    ).collect()[0]
    reasons = dict(zip(DropReason, row["dropped"], strict=True))
    reasons[DropReason.LATE] += row["late"]
    reasons[DropReason.DUPLICATE] += row["duplicate"]
    found = StreamCounts(
        records=row["records"],
        samples=row["samples"],
        written=row["written"],
        dropped={reason: count for reason, count in reasons.items() if count},
        quarantined=row["quarantined"],
        late_records=row["late_records"],
        duplicate_records=row["duplicate_records"],
        batches=1,
    )
    found.require_sum()
    return found
