"""What quotaform computes on Spark, as functions of DataFrames: for notebooks, jobs and pipelines.

They need a session, and nothing of quotaform's commands: any session will do, also one of Spark Connect. What is
returned is not computed yet, but for what tasks need: quotas are read, and the samples of usage are kept by series. The
columns of each table are those of its constant; docs/spark.md has a list. A function raises `InvalidFilesError` if a
table that it is given lacks a column.

Quotas need the columns `cluster`, `entity_key`, `entity`, `key` and `value` alone. Rows of usage without a cluster are
of none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from quotaform.fleet.data_source import register
from quotaform.history.spark import HISTORY, HISTORY_CHANGES, history_changes, history_of
from quotaform.history.spark import as_of as history_at
from quotaform.history.table import open_history, require_history
from quotaform.plan import spark as planned
from quotaform.plan.spark import LIMIT_CHANGES
from quotaform.resolve.run import require_known_key
from quotaform.resolve.spark import BEFORE, PRINCIPALS, QUOTAS, RESOLVED, held_quotas, packed, resolved
from quotaform.system.clock import SYSTEM_CLOCK
from quotaform.usage.bucket.spark import packed_usage, quota_buckets
from quotaform.usage.headroom.run import HEADROOM, headroom_table, recorded_keys, unused_values
from quotaform.usage.headroom.run import headroom as headroom_of
from quotaform.usage.recommend.recommendation import RecommendSettings
from quotaform.usage.recommend.run import RECOMMENDATIONS, bucket_use, recommendations
from quotaform.usage.replay.run import BACKTEST, planned_quotas
from quotaform.usage.replay.run import backtest as replayed
from quotaform.usage.table.schema import USAGE
from quotaform.usage.table.table import as_quotas, as_usage, read_usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BACKTEST",
    "BEFORE",
    "HEADROOM",
    "HISTORY",
    "HISTORY_CHANGES",
    "LIMIT_CHANGES",
    "PRINCIPALS",
    "QUOTAS",
    "RECOMMENDATIONS",
    "RESOLVED",
    "USAGE",
    "RecommendSettings",
    "backtest",
    "blast_radius",
    "headroom",
    "history",
    "history_at",
    "history_changes",
    "planned_quotas",
    "recommend",
    "register",
    "resolve",
    "usage",
]


def resolve(
    requests: DataFrame, quotas: DataFrame, *, keys: Sequence[str] = (), before: DataFrame | None = None
) -> DataFrame:
    """Return `RESOLVED`: what limits each request, a row per request and quota key.

    `requests`: one or more of the columns of `PRINCIPALS`, and `cluster` if each is of one cluster. `keys`: the quota
    keys that are wanted; empty for all that are known. `before`: other quotas, which give the columns `BEFORE`. Raises
    `ValueError` if requests have none of their columns, and `UsageError` if neither this version nor a cluster knows a
    key.
    """
    earlier = None if before is None else held_quotas(as_quotas("before", before))
    held = held_quotas(as_quotas("quotas", quotas))
    for key in keys:
        require_known_key(key, [*held.values(), *(earlier or {}).values()])
    return resolved(requests, held, keys=keys, before=earlier)


def blast_radius(principals: DataFrame, before: DataFrame, after: DataFrame) -> DataFrame:
    """Return `LIMIT_CHANGES`: whose effective limits differ between two states of the quotas, and how.

    Clusters that only one of the two has are left out.
    """
    old, new = held_quotas(as_quotas("before", before)), held_quotas(as_quotas("after", after))
    changed = {name: planned.changes_between(old[name], new[name]) for name in old if name in new}
    clusters = {name: packed((old[name], found)) for name, found in changed.items() if found}
    return planned.blast_radius(planned.distinct_principals(principals), clusters)


def usage(spark: SparkSession, name: str) -> DataFrame:
    """Return `USAGE` of a path, a URL or a table of the catalog. Raises `InvalidFilesError` if it is no such table."""
    return read_usage(spark, name)


def headroom(usage: DataFrame, quotas: DataFrame) -> DataFrame:
    """Return `HEADROOM`: how close each bucket came to its limit, and the values that limited nothing."""
    held = held_quotas(as_quotas("quotas", quotas))
    recording = packed_usage(as_usage("usage", usage), quota_buckets(held)).localCheckpoint()
    use = headroom_of(recording).localCheckpoint()
    return headroom_table(use, unused_values(held, recorded_keys(use)))


def backtest(usage: DataFrame, before: DataFrame, after: DataFrame) -> DataFrame:
    """Return `BACKTEST`: what quotas would have throttled of usage that was recorded under earlier ones."""
    old, new = held_quotas(as_quotas("before", before)), held_quotas(as_quotas("after", after))
    return replayed(packed_usage(as_usage("usage", usage), quota_buckets(new, old)).localCheckpoint())


def recommend(
    usage: DataFrame, quotas: DataFrame, settings: RecommendSettings | None = None, *, now: datetime | None = None
) -> DataFrame:
    """Return `RECOMMENDATIONS`: what each value should be, by what was recorded.

    `now`: by default the time of this machine; if the recording ends more than a week before, nothing counts as unused.
    """
    settings, held = settings or RecommendSettings(), as_quotas("quotas", quotas)
    recording = packed_usage(as_usage("usage", usage), quota_buckets(held_quotas(held))).localCheckpoint()
    used = bucket_use(recording, settings.percentile, settings.outlier_days).localCheckpoint()
    return recommendations(used, held, settings, now or SYSTEM_CLOCK.now())


def history(spark: SparkSession, location: str) -> DataFrame:
    """Return `HISTORY`: what clusters held and when, of a path, `delta:PATH` or `table:NAME`.

    Raises `HistoryError` if it is no history.
    """
    require_history(location, is_read=True)
    return history_of(open_history(spark, location).readings())
