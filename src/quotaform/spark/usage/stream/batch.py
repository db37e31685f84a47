"""One batch of a stream: what it adds to the table, in files that take their places at once.

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
from pyspark.sql import functions as f

from quotaform.atomic_file import sync_folder, sync_tree
from quotaform.core.usage.sample.sample import DropReason
from quotaform.core.usage.stream import StreamCounts
from quotaform.errors import StreamError
from quotaform.spark.table.path import located, located_exactly
from quotaform.spark.usage.schemas import QUARANTINE, USAGE
from quotaform.spark.usage.stream.message import messages
from quotaform.spark.usage.stream.seen import DUPLICATE, LATE, SEEN, judged, still_seen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from quotaform.cluster.topic import Topic
    from quotaform.core.usage.metric.origin import Origin
    from quotaform.spark.usage.stream.checkpoint import Checkpoint

_ROWS_IN_FILE: Final = 2_000_000
_STAGING: Final = "_quotaform-"
_LATE_REASON: Final = "late: older than the watermark, so whether it was read before is not known"


class FinishedError(Exception):
    """A batch began when the stream was about to end; the next run begins with it."""


@dataclass(slots=True)
class BatchWriter:
    """Writes batches, one at a time.

    Attributes:
        input_format: How records are written.
        usage: The folder of the table.
        quarantine: The folder of what could not be read.
        wait_s: How many seconds the watermark is behind the newest time.
        described: Asks the cluster for the topic.
        ends: The offset after the last record of each partition, as last known; `None` before it is.
        counts: The sums of all batches.
        problem: What a batch raised; Spark ends the stream and gives a text of it only.
        last_batch: The number of the last batch that was written; -1 for none.
        is_finished: Whether no further batch is written.
        writing: Held while a batch is written.
    """

    checkpoint: Checkpoint
    input_format: str
    origin: Origin
    usage: Path
    quarantine: Path
    wait_s: int
    described: Callable[[], Topic | None]
    ends: Mapping[int, int] | None = None
    counts: StreamCounts = StreamCounts()  # noqa: RUF009
    problem: Exception | None = None
    last_batch: int = -1
    is_finished: bool = False
    writing: Lock = field(default_factory=Lock)

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

        Args:
            rows: The rows; a partition has the same ones each time.
            is_empty: Whether there are no rows, and so no files.
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
