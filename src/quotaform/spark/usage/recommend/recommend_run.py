"""Sizing the quotas of clusters by a usage table, and what of it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.core.usage.sizing.busiest_day import BusiestDay
from quotaform.core.usage.sizing.demand import BrokerDemand, BrokerRecorded, BucketDemand, Recorded
from quotaform.core.usage.sizing.recommendation import (
    PROPOSED,
    Action,
    ClusterRecording,
    OwnValue,
    Recommendation,
    RecommendReport,
    RecommendSettings,
)
from quotaform.core.usage.sizing.right_size import recommend
from quotaform.errors import QuotaformError
from quotaform.model.address import parse_address
from quotaform.model.entity import Entity
from quotaform.model.quota_key import key_order
from quotaform.model.quotas import Values
from quotaform.spark.job.kept_rows import table_rows
from quotaform.spark.schemas import row_batch
from quotaform.spark.usage.bucket.bucket import buckets, recorded_series
from quotaform.spark.usage.bucket.member import numbered
from quotaform.spark.usage.bucket.recorded import recorded, recorded_size
from quotaform.spark.usage.recommend.bucket_day import bucket_days, recorded_keys
from quotaform.spark.usage.recommend.bucket_demand import bucket_demands
from quotaform.spark.usage.schemas import RECOMMENDATIONS
from quotaform.spark.usage.table.usage_cluster import named_usage, require_recorded, usage_of
from quotaform.spark.usage.table.usage_quotas import QuotaSource, failures_of
from quotaform.spark.usage.table.usage_table import read_usage

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster

MOST_PROPOSALS: Final = 100_000
"""How many proposals are brought to the driver, which writes them into files."""
MOST_OTHERS: Final = 1000
"""How many of the other values are brought to the driver, to be printed."""
_MOST_TASKS: Final = 200
"""In how many tasks clusters are sized."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """What is proposed.

    Attributes:
        report: What of it is printed.
        rows: `schemas.RECOMMENDATIONS`, sorted; as long as the context lasts.
        live: All values of the entities that proposals are about, by cluster and entity; none if there are more
            proposals than the report has, which no file follows.
        failures: The clusters that could not be read, and why.
    """

    report: RecommendReport
    rows: DataFrame
    live: Mapping[tuple[str, Entity], Values]
    failures: tuple[tuple[str, QuotaformError], ...]


@contextmanager
def recommended(
    spark: SparkSession,
    usage_name: str,
    clusters: Sequence[Cluster],
    settings: RecommendSettings,
    now: datetime,
    warn: Callable[[str], None],
) -> Iterator[Recommended]:
    """Size the quotas of clusters by what was recorded of them.

    Args:
        clusters: The clusters, which are read now.
        warn: Called with a sentence about a cluster of which nothing is recorded.

    Raises:
        InvalidFilesError: The usage cannot be read, or has no row of these clusters.
        QuotaformError: None of the clusters could be read; the error of the first one.
    """
    usage = read_usage(spark, usage_name)
    with ExitStack() as stack:
        quotas = stack.enter_context(table_rows(QuotaSource(tuple(clusters)).read(spark)))
        failures = failures_of(quotas)
        names = [cluster.name for cluster in clusters if cluster.name not in dict(failures)]
        selected = [cluster.name for cluster in clusters]
        mine = usage_of(usage, names, selected)
        series = stack.enter_context(table_rows(recorded(mine)))
        members = numbered(series, buckets(recorded_series(series), quotas))
        found = stack.enter_context(table_rows(members))
        days = stack.enter_context(table_rows(bucket_days(mine, found, *recorded_size(series), settings.percentile)))
        recordings = _recordings(days, names)
        missing = [each.cluster for each in recordings if each.last is None]
        require_recorded(named_usage(usage, selected), usage_name, names, missing, warn)
        record = recorded_keys(days, settings.unused_after_days)
        tasks = min(len(names), _MOST_TASKS)
        held = quotas.where(f.col("failure").isNull())
        demands = bucket_demands(days, settings.outlier_days)
        rows = stack.enter_context(table_rows(recommendations(demands, record, held, settings, now, tasks)))
        in_order = rows.orderBy("cluster", "entity_key", "key")
        proposed = [action.value for action in PROPOSED]
        counts = {row["action"]: row["count"] for row in rows.groupBy("action").count().toArrow().to_pylist()}
        report = RecommendReport(
            usage=usage_name,
            settings=settings,
            clusters=recordings,
            counts={action: counts.get(action.value, 0) for action in Action},
            proposals=_first(in_order.where(f.col("action").isin(proposed)), MOST_PROPOSALS),
            others=_first(in_order.where(~f.col("action").isin(proposed)), MOST_OTHERS),
        )
        is_whole = sum(report.counts[action] for action in PROPOSED) == len(report.proposals)
        yield Recommended(report, in_order, _live(rows, proposed) if is_whole else {}, failures)


def _recordings(days: DataFrame, names: Sequence[str]) -> tuple[ClusterRecording, ...]:
    """Return what was recorded of each cluster, in the order of the names."""
    spans = days.groupBy("cluster").agg(f.min("first").alias("first"), f.max("last").alias("last"))
    known = {row.pop("cluster"): row for row in spans.toArrow().to_pylist()}
    nothing = {"first": None, "last": None}
    return tuple(ClusterRecording(cluster=name, **known.get(name, nothing)) for name in names)


def _live(rows: DataFrame, proposed: Sequence[str]) -> dict[tuple[str, Entity], Values]:
    """Return all values of the entities that proposals are about; no more of each than there are quota keys."""
    of_entity = ["cluster", "entity_key"]
    about = rows.where(f.col("action").isin(proposed)).select(*of_entity).distinct()
    held = rows.where(f.col("before").isNotNull()).select(*of_entity, "key", "before")
    live: dict[tuple[str, Entity], dict[str, float]] = {}
    for row in held.join(about, of_entity, "left_semi").toArrow().to_pylist():
        entity = parse_address(row["entity_key"])
        live.setdefault((row["cluster"], entity), {})[row["key"]] = row["before"]
    return dict(live)


def _first(rows: DataFrame, most: int) -> tuple[Recommendation, ...]:
    found = [read_row(row) for row in rows.limit(most).toArrow().to_pylist()]
    return tuple(sorted(found, key=lambda each: (each.cluster, each.entity.address, key_order(each.key))))


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
