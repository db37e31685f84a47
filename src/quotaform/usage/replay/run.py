"""Backtests of plans by a usage table, and what of them is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.fleet.data_source import quota_rows
from quotaform.fleet.job import kept_rows, table_rows
from quotaform.fleet.table import make_table
from quotaform.model.alteration import apply_ops
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import made_of
from quotaform.plan.backtest import MOST_IN_PLAN, Backtest, BucketBacktest, Buckets, ClusterBacktest
from quotaform.plan.plan import Plan
from quotaform.report.report import Plot
from quotaform.resolve.spark import HeldQuotas
from quotaform.resolve.spark_quotas import QUOTAS
from quotaform.usage.bucket.bucket import moment_of
from quotaform.usage.replay.report import DrawnBucket
from quotaform.usage.replay.spark import IS_LIMITED, backtest, replayable, replays
from quotaform.usage.table.schema import BACKTEST, SERIES
from quotaform.usage.table.table import plain_files, read_usage, require_recorded, time_text, usage_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class BacktestRequest(Struct, frozen=True, kw_only=True):
    """What to test."""

    usage: str  # The usage table
    since: datetime | None = None  # From when on; `None` for all of it
    until: datetime | None = None  # Before when
    most: int  # How many buckets of each kind are printed
    has_others: bool = False
    """Whether clusters were selected that have no plan; usage without a cluster name may be theirs then."""
    is_required: bool = False  # Whether it is an error if nothing is recorded of any of the clusters


@contextmanager
def backtested(
    spark: SparkSession,
    request: BacktestRequest,
    plans: Sequence[Plan],
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Backtest, DataFrame, Callable[[], Mapping[DrawnBucket, Sequence[Plot]]]]]:
    """Give the backtest of plans, `BACKTEST` with all its rows as long as the context lasts, and what reads replays.

    These are of some buckets over time, for a page; their usage is read again. `plans`: one plan per cluster, each with
    what the cluster holds (`Plan.actual`). `warn`: called with a sentence about clusters of which nothing is recorded.
    Raises `InvalidFilesError` if the usage cannot be read, or is required and
    has no row of these clusters.
    """
    usage = read_usage(spark, request.usage, request.since, request.until)
    names = [plan.header.cluster_name for plan in plans]
    selected = [] if request.has_others else names
    with ExitStack() as stack:
        before, after = planned_values(plans)
        tested, clusters = usage_of(usage, names, selected)
        files = plain_files(usage, request.usage, clusters, request.since, request.until)
        recording = stack.enter_context(kept_rows(replayable(tested, after, before, clusters, files)))
        recordings = _recordings(recording)
        missing = [name for name in names if name not in recordings]
        time = time_text(request.since, request.until)
        require_recorded(usage, request.usage, names, missing, warn, time, is_required=request.is_required)
        rows = stack.enter_context(table_rows(backtest(recording)))
        recorded = usage.select("cluster").distinct().toArrow().column("cluster").to_pylist()
        others = {clusters.name_of(name) for name in recorded} - (clusters.names or set())
        result = Backtest(
            usage=request.usage,
            clusters=_clusters(request, plans, recordings, rows),
            unknown=tuple(sorted(name or "" for name in others)[:100]),
        )
        ordered = rows.orderBy("cluster", f.desc("throttled_s"), "key", "bucket", "broker")
        yield result, ordered, partial(replays, recording, result)


def with_backtests(
    spark: SparkSession, usage: str, outcomes: Iterable[ClusterOutcome[Plan]], warn: Callable[[str], None]
) -> tuple[ClusterOutcome[Plan], ...]:
    """Return plans, each with its backtest by a usage table; failures stay as they are."""
    every = tuple(outcomes)
    plans = values_of(every)
    request = BacktestRequest(usage=usage, most=MOST_IN_PLAN, has_others=len(plans) < len(every))
    with backtested(spark, request, plans, warn=warn) as (found, _, _):
        tested = {each.cluster: each for each in found.clusters}
        return tuple(outcome.map(partial(replace, backtest=tested.get(outcome.cluster))) for outcome in every)


def planned_quotas(spark: SparkSession, plans: Sequence[Plan]) -> tuple[DataFrame, DataFrame]:
    """Return `QUOTAS` of the clusters of plans, as they are and as they would be once the plans are applied.

    `plans`: one per cluster, each with what the cluster holds (`Plan.actual`).
    """
    headers = [plan.header for plan in plans]
    before, after = (
        make_table(
            spark,
            QUOTAS,
            chain.from_iterable(
                quota_rows(each.cluster_name, each.cluster_id, side[each.cluster_name]) for each in headers
            ),
        )
        for side in planned_values(plans)
    )
    return before, after


def planned_values(plans: Sequence[Plan]) -> tuple[HeldQuotas, HeldQuotas]:
    """Return what the clusters of plans hold, and what they would hold once the plans are applied."""
    before: dict[str | None, Quotas] = {}
    after: dict[str | None, Quotas] = {}
    for plan in plans:
        name, actual = plan.header.cluster_name, plan.actual or {}
        changed = {each.entity: apply_ops(actual.get(each.entity, {}), each.alteration().ops) for each in plan.changes}
        before[name] = actual
        after[name] = {entity: values for entity, values in {**actual, **changed}.items() if values}
    return before, after


def _recordings(recording: DataFrame) -> Mapping[str, dict[str, Any]]:
    """Return how much was recorded of each cluster."""
    is_limited = f.bool_or(f.expr(IS_LIMITED)).alias("is_limited")
    spans = [f.min("first").alias("first"), f.max("last").alias("last")]
    series = recording.groupBy(*SERIES).agg(*spans, is_limited)
    counts = f.count("*").alias("series"), f.count_if("is_limited").alias("limited")
    found = series.groupBy("cluster").agg(*spans, *counts).toArrow().to_pylist()
    return {
        row.pop("cluster"): row | {"first": moment_of(row["first"]), "last": moment_of(row["last"])} for row in found
    }


def _clusters(
    request: BacktestRequest, plans: Sequence[Plan], recordings: Mapping[str, dict[str, Any]], rows: DataFrame
) -> tuple[ClusterBacktest, ...]:
    throttled, high, recorded = (f.col(name) for name in ("throttled_s", "throttled_s_high", "recorded_throttled_s"))
    # Whether requests would or may have waited, or did wait.
    is_affected = (high > 0) | (recorded > 0)
    found = rows.groupBy("cluster", "is_changed").agg(
        f.count("*").alias("buckets"),
        f.count_if(throttled > 0).alias("throttled"),
        f.count_if((f.coalesce(throttled, f.lit(0.0)) <= 0) & (high > 0)).alias("possible"),
        f.count_if(recorded > 0).alias("recorded"),
        f.count_if(f.col("hidden_s") > 0).alias("hidden"),
        f.count_if(f.col("is_coarse") & (high > 0)).alias("coarse"),
        f.count_if(is_affected).alias("affected"),
    )
    counts = {(row.pop("cluster"), row.pop("is_changed")): row for row in found.toArrow().to_pylist()}
    largest = _largest(rows.where(is_affected), request.most)
    made = []
    for plan in plans:
        name = plan.header.cluster_name
        recording = recordings.get(name, {"first": None, "last": None, "series": 0, "limited": 0})
        changed, unchanged = (
            Buckets(**counts.get((name, is_changed), {}), rows=tuple(largest.get((name, is_changed), ())))
            for is_changed in (True, False)
        )
        made.append(
            ClusterBacktest(
                usage=request.usage,
                cluster=name,
                plan_id=plan.plan_id,
                unlimited=recording["series"] - recording.pop("limited"),
                changed=changed,
                unchanged=unchanged,
                **recording,
            )
        )
    return tuple(made)


def _largest(rows: DataFrame, most: int) -> Mapping[tuple[str, bool], list[BucketBacktest]]:
    """Return the first rows of each cluster, of buckets that the plan changes and of the others."""
    order: list[Column | str] = [
        f.desc_nulls_last("throttled_s"),
        f.desc("throttled_s_high"),
        f.desc("recorded_throttled_s"),
        *("key", "bucket", "broker"),
    ]
    place = f.row_number().over(Window.partitionBy("cluster", "is_changed").orderBy(*order))
    first = rows.withColumn("place", place).where(f.col("place") <= most)
    found: dict[tuple[str, bool], list[BucketBacktest]] = {}
    for row in first.orderBy("cluster", "is_changed", "place").select(*BACKTEST.names).toArrow().to_pylist():
        found.setdefault((row["cluster"], row["is_changed"]), []).append(_bucket(row))
    return found


def _bucket(found: Mapping[str, Any]) -> BucketBacktest:
    # To the thousandth: the bounds of what they say are far wider.
    row: dict[str, Any] = {name: round(cell, 3) if isinstance(cell, float) else cell for name, cell in found.items()}
    for name in ("throttled_s", "delay_s_max"):
        low, high = (row[f"{name}_{bound}"] or 0.0 for bound in ("low", "high"))
        row[name] = {"estimate": row[name], "low": low, "high": high}
    limits = {"limit": found["limit"], "entity": row["entity_key"], "before": found["before_limit"]}
    return made_of(row | limits | {"coarse": row["is_coarse"]}, BucketBacktest)
