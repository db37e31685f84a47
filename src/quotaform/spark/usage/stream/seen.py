"""Which records of a batch were read before, and which are late.

The watermark is the newest time of all batches before, less what a stream waits. Back to it, the ids of all records are
known, so that one which comes again is found; whether an older one was there cannot be told, so it is late.

Partitions of a backlog may cover different times, of which a batch has as many records as their sizes say. So while
partitions have a backlog, the newest time is that of the one of them that is furthest behind.

Any clock may be ahead: that of the samples, and by default that of the record as well, since its producer sets it. The
time at which a batch is read bounds both, so that a wrong clock neither makes the records of others late nor has ids
kept for as long as it is ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LATE: Final = "late"
DUPLICATE: Final = "duplicate"

SEEN: Final = StructType(
    [
        StructField("id", BinaryType()),
        StructField("ts", TimestampType()),
        StructField("advance", TimestampType()),
    ]
)
"""The records that were read and may come again.

| column | content |
| --- | --- |
| ts | how long it may come again: until the watermark is later than this |
| advance | how far it moves the watermark, which is what a stream waits before the latest of these |

Both are the time of its newest sample, or of the record if it has no samples. `advance` is at most the time of the
record, the time at which it was read and, once its batch has ended, the newest time that the watermark follows; `ts` is
at most what a stream waits after it was read.
"""

JUDGED: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        *SEEN,
        StructField("samples", LongType()),
        StructField("dropped", ArrayType(LongType())),
        StructField("rejected", IntegerType()),
        StructField("status", StringType()),
    ]
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

    Args:
        messages: `MESSAGES` of one batch.
        seen: `SEEN` of the batches before.
        wait_s: How many seconds the watermark is behind the newest time.
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

    Args:
        judged: `JUDGED` of the batch.
        seen: `SEEN` of the batches before.
        wait_s: As for `judged`.
        ends: The offset after the last record of partitions: those have a backlog of which the batch has less. `None`
            if that is not known, and each of them may have one.
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
