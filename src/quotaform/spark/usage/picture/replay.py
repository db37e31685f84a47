"""What a plan would have done to some buckets over time, for pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from quotaform.core.usage.chart.chart import Bucket, ReplaySlot, Span
from quotaform.spark.job.kept_rows import repeatable_rows
from quotaform.spark.schemas import make_table
from quotaform.spark.usage.picture.curve import slot_seconds
from quotaform.spark.usage.replay.backtest import waits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES: Final = {"cluster": "of_cluster", "bucket_broker": "of_broker", "key": "of_key", "bucket": "of_bucket"}
_CHOSEN: Final = StructType(
    [StructField("number", IntegerType()), *(StructField(name, StringType()) for name in _NAMES.values())]
)
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


def replays(
    usage: DataFrame, found: DataFrame, chosen: Sequence[Bucket]
) -> tuple[dict[Bucket, tuple[ReplaySlot, ...]], float]:
    """Return what would have happened to some buckets over time, and how long a slot of time is, in seconds.

    Args:
        found: `quotaform.spark.usage.replay.demand.members`, persisted.
        chosen: The buckets; a handful. Each must have a limit.
    """
    if not chosen:
        return {}, 1.0
    rows = [(number, each.cluster, each.broker, each.key, each.address) for number, each in enumerate(chosen)]
    wanted = make_table(usage.sparkSession, _CHOSEN, list(zip(*rows, strict=True)))
    same: Column = f.lit(True)
    for name, other in _NAMES.items():
        same &= f.col(name).eqNullSafe(f.col(other))
    own = found.join(f.broadcast(wanted), same)
    numbers = own.groupBy("bucket_id", "number").agg(f.max("limit").alias("limit"))
    slots: dict[Bucket, list[ReplaySlot]] = {}
    with repeatable_rows(waits(usage, own)) as kept:
        step_s = slot_seconds(kept.select(f.timestamp_micros("at").alias("ts")))
        points = replay_slots(kept, step_s).join(f.broadcast(numbers), "bucket_id").orderBy("number", "at")
        for row in points.toArrow().to_pylist():
            slots.setdefault(chosen[row["number"]], []).append(_slot(row))
    return {bucket: tuple(each) for bucket, each in slots.items()}, step_s


def replay_slots(rows: DataFrame, step_s: float) -> DataFrame:
    """Return a row per bucket and slot: the highest ratio and throttle time, and from when to when requests waited.

    Args:
        rows: `schemas.WAITS`.
        step_s: How long a slot is, in whole seconds.
    """
    at, start = f.col("at"), f.col("at") - (f.col("step_s") * 1e6).cast("long")
    spans = []
    for name, wait in (("", "wait_s"), ("_high", "wait_s_high")):
        waited = f.col(wait) > 0
        spans += [f.min(f.when(waited, start)).alias(f"start{name}"), f.max(f.when(waited, at)).alias(f"end{name}")]
    slot = f.floor(at / (step_s * 1e6)).alias("slot")
    return (
        rows.groupBy("bucket_id", slot)
        .agg(f.max("at").alias("at"), f.max("ratio").alias("ratio"), f.max("throttle_ms").alias("throttle_ms"), *spans)
        .select("bucket_id", "at", "ratio", "throttle_ms", "start", "end", "start_high", "end_high")
    )


def _slot(row: Mapping[str, Any]) -> ReplaySlot:
    return ReplaySlot(
        at=_time(row["at"]),
        rate=(row["ratio"] or 0.0) * row["limit"],
        throttle_ms=row["throttle_ms"],
        waits=_span(row["start"], row["end"]),
        may_wait=_span(row["start_high"], row["end_high"]),
    )


def _span(start: int | None, end: int | None) -> Span | None:
    return None if start is None or end is None else Span(_time(start), _time(end))


def _time(micros: int) -> datetime:
    return _START + timedelta(microseconds=micros)
