"""Backtests of plans by a usage table: what was asked of each bucket is replayed, and what of it is printed.

`_low` and `_high` bound what is not known; docs/usage-backtest.md says what a recording cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from msgspec import structs
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.apply.freshness import as_if_applied
from quotaform.fleet.data_source import quota_rows
from quotaform.fleet.job import kept_rows, table_rows
from quotaform.fleet.table import make_table
from quotaform.model.entity import spell_name
from quotaform.model.errors import ArgumentError
from quotaform.model.outcome import ClusterOutcome, values_of
from quotaform.model.quota_key import QUOTA_KEYS, Enforcement
from quotaform.model.quotas import Quotas
from quotaform.model.records.record import made_of
from quotaform.model.text import listed
from quotaform.plan.backtest import MOST_IN_PLAN, Backtest, BucketBacktest, Buckets, ClusterBacktest
from quotaform.plan.plan import Plan
from quotaform.report.report import MOST_POINTS, Plot
from quotaform.resolve.spark import QUOTAS, HeldQuotas, columns_of, struct
from quotaform.usage.bucket.bucket import BucketRows, Floats, RecordedBucket, SeriesBucket, moment_of, starts_of
from quotaform.usage.bucket.spark import packed_usage, per_bucket, quota_buckets
from quotaform.usage.replay.replay import VARIANTS, Replay, divided, replay
from quotaform.usage.replay.report import DrawnBucket, drawn_buckets, replay_plots
from quotaform.usage.table.schema import SERIES
from quotaform.usage.table.table import plain_files, read_usage, require_recorded, time_text, usage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ESTIMATED: Final = ("throttled_s", "delay_s_max")
BACKTEST: Final = struct(
    "cluster string",
    columns_of(BucketBacktest, *_ESTIMATED),
    *(f"{name}{variant} double" for name in _ESTIMATED for variant in VARIANTS),
    "source string",
    "is_changed boolean",
)
"""What a plan would have throttled in a recording, a row per bucket and broker.

`is_changed` is whether the plan changes the limit, or who shares it, and `source` the name of the level that won. The
others are those of `BucketBacktest`; `_low` and `_high` bound what is estimated.
"""


IS_LIMITED: Final = "least_limit IS NOT NULL OR before_limit IS NOT NULL"
"""Whether a limit holds for a series, before or after."""


def _replayed(bucket: RecordedBucket) -> tuple[BucketRows, float, Replay] | None:
    """Return the rows of a bucket that have a rate, its limit, and what would have happened; `None` without a rate.

    The limit is NaN if there is none. Where parts cannot be told apart it is the least of theirs: no one waits longer
    than all of it would under that.
    """
    rated = ~numpy.isnan(bucket.rows.rate)
    if not rated.any():
        return None
    every = ((name, getattr(bucket.rows, name)) for name in _TIMED)
    rows = structs.replace(bucket.rows, **{name: values[rated] for name, values in every if values is not None})
    limit = _chosen(bucket, "least_limit", min) if bucket.is_coarse else _chosen(bucket, "limit")
    limit = numpy.nan if limit is None else limit
    return rows, limit, replay(rows.at, rows.rate, rows.window_s, limit, _enforcement(bucket.key), rows.rate_high)


_TIMED: Final = ("at", "rate", "rate_high", "window_s", "throttle_ms", "is_newly_throttled")
"""What `BucketRows` has a value of for each time."""


def _enforcement(key: str) -> Enforcement:
    return QUOTA_KEYS[key].enforcement if key in QUOTA_KEYS else Enforcement()


def backtest(recording: DataFrame) -> DataFrame:
    """Return `BACKTEST` of all buckets that have a limit, before or after.

    `recording`: `PACKED` under the quotas as they would be and as they were, persisted.
    """
    return per_bucket(recording.where(IS_LIMITED), _tested, BACKTEST)


def _tested(bucket: RecordedBucket) -> dict[str, Any] | None:
    """Return the columns of `BACKTEST` of a bucket on a broker."""
    made, is_coarse = _replayed(bucket), bucket.is_coarse
    if made is None:
        return None
    rows, limit, replayed = made
    found = _totals(*made)
    if _enforcement(bucket.key).is_refused:
        found["refused"] = numpy.fmax(0.0, (rows.rate - limit) * replayed.step_s).sum()
    if is_coarse:
        # Whether and how long a part waits is not known, unless not even all of it would.
        if found["throttled_s_high"] > 0:
            found |= {"throttled_s": None, "delay_s_max": None}
        found |= {"throttled_s_low": 0.0, "delay_s_max_low": 0.0}
        found |= dict.fromkeys(("first_throttled", "last_throttled", "worst_at", "backlog_s", "longest_s"))
    elif found["longest_s"] is not None:
        found["longest_s"] = min(found["longest_s"], found["throttled_s"])
    return {
        **bucket.place,
        **found,
        **{name: _chosen(bucket, name) for name in ("limit", "source", "entity_key", "before_limit")},
        "is_changed": any(_is_changed(each, bucket.is_sum) for each in bucket.series),
        "is_coarse": is_coarse,
    }


def _chosen(bucket: RecordedBucket, name: str, choose: Callable[..., Any] = max) -> Any:
    """Return the largest or the least of what the series of a bucket have; `None` if none has anything."""
    return choose((value for each in bucket.series if (value := getattr(each, name)) is not None), default=None)


def _is_changed(series: SeriesBucket, is_sum: bool) -> bool:
    """Whether a plan changes the limit of a series, or who shares it."""
    is_same = series.limit == series.before_limit and series.bucket == series.before_bucket
    # Two series of one bucket that had different limits: the plan changes what at least one of them had.
    is_split = (series.is_coarse or is_sum) and series.least_limit != series.before_limit
    return not is_same or is_split


def _totals(rows: BucketRows, limit: float, replay: Replay) -> dict[str, Any]:
    """Return the columns of `BACKTEST` that are computed of samples."""
    step, estimate = replay.step_s, replay.waits[""]
    when = rows.at[estimate.waited > 0]
    found: dict[str, Any] = {
        "samples": len(rows.at),
        "recorded_s": step.sum(),
        "first_throttled": int(when[0]) if len(when) else None,
        "last_throttled": int(when[-1]) if len(when) else None,
        "longest_s": _most(replay.episode_s),
        "worst_at": int(when[estimate.delay[estimate.waited > 0].argmax()]) if len(when) else None,
        "backlog_s": _most(replay.backlog_s[-1:]),
        "over_max": _most(divided(rows.rate, limit)),
        "refused": None,
        "recorded_throttled_s": step[rows.is_newly_throttled].sum(),
        "recorded_throttle_ms_max": _most(rows.throttle_ms),
        "hidden_s": step[~numpy.isnan(rows.throttle_ms)].sum(),
    }
    for variant, wait in replay.waits.items():
        found[f"throttled_s{variant}"] = wait.waited.sum()
        found[f"delay_s_max{variant}"] = _most(wait.delay[wait.waited > 0])
    return found


def _most(values: Floats) -> float | None:
    """Return the largest of values; `None` if there are none."""
    found = values[~numpy.isnan(values)]
    return float(found.max()) if len(found) else None


SLOTS: Final = struct(
    "cluster broker key bucket string", "at long", "rate throttle_ms start end start_high end_high double"
)
"""What would have happened to a bucket in a slot of time: its highest rate and throttle time, at the time of its last
sample, and from when to when requests would have waited, by the estimate and by the upper bound; null if they did not.
Times are in microseconds since 1970.
"""


def replays(recording: DataFrame, tested: Backtest) -> dict[DrawnBucket, tuple[Plot, ...]]:
    """Return what would have happened over time to the buckets of a backtest that are drawn.

    `recording`: `PACKED` under the quotas as they would be and as they were, persisted.
    """
    drawn = {(cluster, row.broker, row.key, row.bucket): (cluster, row) for cluster, row in drawn_buckets(tested)}
    if not drawn:
        return {}
    times = [time for each in tested.clusters for time in (each.first, each.last) if time is not None]
    step_s = ceil(((max(times) - min(times)).total_seconds() + 1) / MOST_POINTS)
    own = recording.where(IS_LIMITED).where(f.col("bucket").isin([row.bucket for _, row in drawn.values()]))
    slots: dict[tuple[Any, ...], list[dict[str, Any]]] = {place: [] for place in drawn}
    for slot in per_bucket(own, partial(_slots, step_s, {*drawn}), SLOTS).orderBy("at").toArrow().to_pylist():
        slots[slot["cluster"], slot["broker"], slot["key"], slot["bucket"]].append(slot)
    return {of: tuple(replay_plots(*of, slots[place], step_s)) for place, of in drawn.items()}


def _slots(step_s: int, drawn: Collection[tuple[Any, ...]], bucket: RecordedBucket) -> dict[str, Any] | None:
    """Return the columns of `SLOTS` of a bucket, if it is drawn; `step_s`: how long a slot is, in seconds."""
    made = _replayed(bucket) if tuple(bucket.place.values()) in drawn else None
    if made is None:
        return None
    rows, _, replayed = made
    at = rows.at
    starts = starts_of(at // (step_s * 1_000_000))
    found = {
        **{name: [value] * len(starts) for name, value in bucket.place.items()},
        "at": numpy.maximum.reduceat(at, starts),
        "rate": numpy.maximum.reduceat(rows.rate, starts),
        "throttle_ms": numpy.fmax.reduceat(rows.throttle_ms, starts),
    }
    for name in ("", "_high"):
        waited = replayed.waits[name].waited > 0
        begin = numpy.where(waited, at - replayed.step_s * 1e6, numpy.nan)
        found[f"start{name}"] = numpy.fmin.reduceat(begin, starts)
        found[f"end{name}"] = numpy.fmax.reduceat(numpy.where(waited, at, numpy.nan), starts)
    return found


@contextmanager
def backtested(
    spark: SparkSession,
    usage: str,
    plans: Sequence[Plan],
    most: int,
    warn: Callable[[str], None] = lambda _: None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    has_others: bool = False,
    is_required: bool = False,
) -> Iterator[tuple[Backtest, DataFrame, Callable[[], Mapping[DrawnBucket, Sequence[Plot]]]]]:
    """Give the backtest of plans, `BACKTEST` with all its rows as long as the context lasts, and what reads replays.

    These are of some buckets over time, for a page; their usage is read again. `usage`: the usage table. `plans`: one
    plan per cluster, each with what the cluster holds (`Plan.actual`). `most`: how many buckets of each kind are
    printed. `warn`: called with a sentence about clusters of which nothing is recorded. `since`, `until`: from when on
    and before when; `None` for all of it. `has_others`: whether clusters were selected that have no plan; usage without
    a cluster name may be theirs then. Raises `InvalidFilesError` if the usage cannot be read, or `is_required` and has
    no row of these clusters.
    """
    recorded = read_usage(spark, usage, since, until)
    names = [plan.header.cluster.name for plan in plans]
    with ExitStack() as stack:
        before, after = planned_values(plans)
        tested, clusters = usage_of(recorded, names, [] if has_others else names)
        files = plain_files(recorded, usage, clusters, since, until)
        recording = stack.enter_context(kept_rows(packed_usage(tested, quota_buckets(after, before), clusters, files)))
        # How much was recorded of each cluster, and of how many series with a limit.
        is_limited = f.bool_or(f.expr(IS_LIMITED)).alias("is_limited")
        spans = [f.min("first").alias("first"), f.max("last").alias("last")]
        counts = f.count("*").alias("series"), f.count_if("is_limited").alias("limited")
        of_clusters = recording.groupBy(*SERIES).agg(*spans, is_limited).groupBy("cluster").agg(*spans, *counts)
        recordings = {
            row.pop("cluster"): row | {name: moment_of(row[name]) for name in ("first", "last")}
            for row in of_clusters.toArrow().to_pylist()
        }
        time = time_text(since, until)
        require_recorded(recorded, usage, names, recordings, warn, time, is_required=is_required)
        rows = stack.enter_context(table_rows(backtest(recording)))
        every = recorded.select("cluster").distinct().toArrow().column("cluster").to_pylist()
        others = {clusters.name_of(name) for name in every} - (clusters.names or set())
        result = Backtest(
            usage=usage,
            clusters=_clusters(usage, most, plans, recordings, rows),
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
    with backtested(spark, usage, plans, MOST_IN_PLAN, warn, has_others=len(plans) < len(every)) as (found, _, _):
        tested = {each.cluster: each for each in found.clusters}
        return tuple(outcome.map(partial(replace, backtest=tested.get(outcome.cluster))) for outcome in every)


def planned_quotas(spark: SparkSession, plans: Sequence[Plan]) -> tuple[DataFrame, DataFrame]:
    """Return `QUOTAS` of the clusters of plans, as they are and as they would be once the plans are applied.

    `plans`: one per cluster, each with what the cluster holds (`Plan.actual`). Raises `UsageError` if one is without.
    """
    if lacking := [plan.header.cluster.name for plan in plans if plan.actual is None]:
        text = "{plans}: what the cluster holds is not in the plan of {}; use those that plan makes without {engine}"
        raise ArgumentError(text, listed(map(spell_name, lacking)))
    clusters = [plan.header.cluster for plan in plans]

    def table(held: HeldQuotas) -> DataFrame:
        rows = (quota_rows(each.name, each.id, held[each.name]) for each in clusters)
        return make_table(spark, QUOTAS, chain.from_iterable(rows))

    before, after = planned_values(plans)
    return table(before), table(after)


def planned_values(plans: Sequence[Plan]) -> tuple[HeldQuotas, HeldQuotas]:
    """Return what the clusters of plans hold, and what they would hold once the plans are applied."""
    before: dict[str | None, Quotas] = {}
    after: dict[str | None, Quotas] = {}
    for plan in plans:
        name, actual = plan.header.cluster.name, plan.actual or {}
        planned = {**actual, **as_if_applied(plan).after(actual)}
        before[name], after[name] = actual, {entity: values for entity, values in planned.items() if values}
    return before, after


def _clusters(
    usage: str, most: int, plans: Sequence[Plan], recordings: Mapping[str, dict[str, Any]], rows: DataFrame
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
    largest = _largest(rows.where(is_affected), most)
    made = []
    for plan in plans:
        name = plan.header.cluster.name
        recording = recordings.get(name, {"first": None, "last": None, "series": 0, "limited": 0})
        changed, unchanged = (
            Buckets(**counts.get((name, is_changed), {}), rows=tuple(largest.get((name, is_changed), ())))
            for is_changed in (True, False)
        )
        made.append(
            ClusterBacktest(
                usage=usage,
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
    in_order = Window.partitionBy("cluster", "is_changed").orderBy(
        f.desc_nulls_last("throttled_s"),
        f.desc("throttled_s_high"),
        f.desc("recorded_throttled_s"),
        *("key", "bucket", "broker"),
    )
    first = rows.withColumn("place", f.row_number().over(in_order)).where(f.col("place") <= most)
    found: dict[tuple[str, bool], list[BucketBacktest]] = {}
    for row in first.orderBy("cluster", "is_changed", "place").select(*BACKTEST.names).toArrow().to_pylist():
        # To the thousandth: the bounds of what they say are far wider.
        shown = {name: round(cell, 3) if isinstance(cell, float) else cell for name, cell in row.items()}
        for name in _ESTIMATED:
            low, high = (shown[f"{name}_{bound}"] or 0.0 for bound in ("low", "high"))
            shown[name] = {"estimate": shown[name], "low": low, "high": high}
        shown |= {name: row[name] for name in ("limit", "before_limit")}
        found.setdefault((row["cluster"], row["is_changed"]), []).append(made_of(shown, BucketBacktest))
    return found
