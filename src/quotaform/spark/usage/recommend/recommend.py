"""Sizes quotas by usage: what buckets used per day and broker, and what `core.usage.sizing.right_size` makes of it.

usage -> `bucket_days` (one shuffle of the samples) -> `bucket_demands` -> `recommendations` (a task per cluster).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quotaform.core.usage.sizing.busiest_day import BusiestDay
from quotaform.core.usage.sizing.demand import BrokerDemand, BrokerRecorded, BucketDemand, Recorded
from quotaform.core.usage.sizing.recommendation import Action, OwnValue, Recommendation, RecommendSettings
from quotaform.core.usage.sizing.right_size import recommend
from quotaform.model.entity import Entity
from quotaform.spark.schemas import row_batch
from quotaform.spark.usage.schemas import RECOMMENDATIONS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame


def recommendations(
    demands: DataFrame,
    record: DataFrame,
    quotas: DataFrame,
    settings: RecommendSettings,
    now: datetime,
    tasks: int,
) -> DataFrame:
    """Return `schemas.RECOMMENDATIONS`: what is proposed for each value of the clusters.

    Args:
        demands: `bucket_demands`, of buckets under these quotas.
        record: `recorded_keys`.
        quotas: `quotaform.spark.schemas.QUOTAS`.
        settings: How quotas are sized.
        tasks: In how many tasks; as many as clusters, at most.
    """
    held = quotas.where(f.col("key").isNotNull() & f.col("value").isNotNull()).select(
        "cluster", "entity_key", "entity", "key", "value", "brokers"
    )
    # A key that is recorded has a bucket, so what is known of keys comes with the buckets.
    used = demands.join(f.broadcast(record), ["cluster", "key"])

    def sized(values: pyarrow.Table, buckets: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        own, measured = values.to_pylist(), buckets.to_pylist()
        cluster = next(row["cluster"] for row in (*own, *measured))
        rows = recommend(
            cluster,
            [OwnValue(entity=Entity.of(row["entity"]), key=row["key"], value=row["value"]) for row in own],
            [_bucket_demand(row) for row in measured],
            {row["key"]: _recorded(row) for row in measured},
            settings,
            now,
            next((row["brokers"] for row in own), None),
        )
        return pyarrow.Table.from_batches([row_batch(RECOMMENDATIONS, [_row(each) for each in rows])])

    return (
        held.repartition(tasks, "cluster")
        .groupBy("cluster")
        .cogroup(used.repartition(tasks, "cluster").groupBy("cluster"))
        .applyInArrow(sized, RECOMMENDATIONS)
        .select(*RECOMMENDATIONS.names)
    )


def _bucket_demand(row: dict[str, Any]) -> BucketDemand:
    return BucketDemand(
        bucket=row["bucket"],
        key=row["key"],
        entity_key=row["entity_key"],
        limit=row["limit"],
        brokers=tuple(_broker_demand(broker) for broker in row["brokers"]),
        first=row["first"],
        begin=row["begin"],
        last_used=row["last_used"],
        hours=row["hours"],
        is_coarse=bool(row["is_coarse"]),
    )


def _broker_demand(row: dict[str, Any]) -> BrokerDemand:
    busiest = row["busiest"]
    return BrokerDemand(**{**row, "busiest": None if busiest is None else BusiestDay(**busiest)})


def _recorded(row: dict[str, Any]) -> Recorded:
    brokers = {part.pop("broker"): BrokerRecorded(**part) for part in map(dict, row["key_brokers"])}
    return Recorded(last=row["key_last"], brokers=brokers)


def _row(each: Recommendation) -> tuple[Any, ...]:
    fields = {name: getattr(each, name) for name in RECOMMENDATIONS.names if name != "entity_key"}
    fields |= {"entity_key": each.entity.address, "entity": each.entity.names, "action": each.action.value}
    return tuple(fields[name] for name in RECOMMENDATIONS.names)


def read_row(row: dict[str, Any]) -> Recommendation:
    """Return what a row of `schemas.RECOMMENDATIONS` says."""
    fields = {name: value for name, value in row.items() if name not in ("entity_key", "entity", "action")}
    return Recommendation(entity=Entity.of(row["entity"]), action=Action(row["action"]), **fields)
