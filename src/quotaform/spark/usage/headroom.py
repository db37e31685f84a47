"""The tables `headroom` and what was not used: what was recorded of each bucket, beside its limit.

| of a sample | value |
| --- | --- |
| rate | per bucket, broker and time: the sum of the series that share the bucket; a series counts once per time |
| seconds | since the previous sample of the bucket; the sample's own window if there is none within `LONGEST_STEP_S` |
| throttled | it has a throttle time, and that is another one than before, or the rate is at least 95 % of the limit |

A broker averages the delays of the last 30 to 60 seconds and reports the same average until they are over, so an
average that does not change is an old one, unless every delay is as long as the longest that is allowed: then the rate
tells. A time that is throttled may thus be counted up to 60 seconds too late or too long, once each time that
throttling begins or ends, and less than a sample's seconds cannot be told.

A percentile is the smallest rate that at least that share of the samples does not exceed (nearest rank): exact up to
5,000 samples, and beyond that at most 0.01 % of the ranks away.

The limit on mutations is one of the whole cluster, which its active controller enforces. So brokers are not added up:
of several that report a series at one time, as after a failover, the highest rate counts.

Series of one bucket are shuffled once, as numbers. Of those that share one, the usage is read a second time.
"""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.core.usage.headroom import AT_LIMIT_RATIO
from quotaform.core.usage.series import LONGEST_STEP_S, QUOTA_WINDOW_S
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.spark.resolve.level import source_of
from quotaform.spark.usage.bucket import CLUSTER_KEYS, OF_SERIES, same_columns
from quotaform.spark.usage.schemas import HEADROOM

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES: Final = ("cluster", "key", "bucket")
_BUCKET: Final = ("number", "broker")
"""Columns that stand for a bucket on a broker while rows are many."""
_ACCURACY: Final = 10_000
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_MOST_BROADCAST: Final = 500_000
"""How many series are broadcast; about 200 bytes each."""


def headroom(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return the rows of `schemas.HEADROOM` about buckets.

    The buckets are looked through at once, to see whether any is shared.

    Args:
        usage: `schemas.USAGE`.
        found: `schemas.BUCKETS` of its series, a table or persisted.
    """
    sizes = found.groupBy(*_NAMES).agg(f.count("*").alias("members"))
    ((number, largest),) = sizes.agg(f.coalesce(f.sum("members"), f.lit(0)), f.max("members")).collect()
    hint = "broadcast" if number <= _MOST_BROADCAST else "shuffle_hash"
    series = _numbered(found)
    is_shared = f.col("members") > 1
    alone = _once(_rows(usage, series.where(~is_shared), hint), _BUCKET)
    # Of a bucket with one series, its address is that of the only member.
    no_member = {"members": f.lit(1), "top_member": f.lit(None).cast("string"), "top_share": f.lit(1.0)}
    use = _used(alone).withColumns(no_member)
    if largest is not None and largest > 1:
        shared = _once(_rows(usage, series.where(is_shared), hint), (*_BUCKET, "member"))
        use = use.unionByName(_beside_members(_used(_summed(shared)), shared))
    return _beside_limits(use, series).select(*HEADROOM.names)


def unused(quotas: DataFrame, found: DataFrame, use: DataFrame) -> DataFrame:
    """Return the rows of `schemas.HEADROOM` about values that limited nothing, of keys that were recorded.

    The usage is taken to be recorded under these quotas: a broker then has no bucket of an entity that no request met.

    Args:
        quotas: `quotaform.spark.schemas.QUOTAS`.
        found: `schemas.BUCKETS` of the recorded series under them.
        use: `headroom` of these.
    """
    met = found.where(f.col("entity_key").isNotNull()).select("cluster", "key", "entity_key").distinct()
    values = _values(quotas).join(met, ["cluster", "key", "entity_key"], "left_anti")
    rows = values.join(_recorded(use), ["cluster", "key"])
    nothing = {name: f.lit(None).cast(HEADROOM[name].dataType) for name in HEADROOM.names if name not in rows.columns}
    counts = {"samples": f.lit(0).cast("long"), "members": f.lit(0).cast("long"), "throttled_s": f.lit(0.0)}
    return rows.withColumns({**nothing, **counts, "is_coarse": f.lit(False)}).select(*HEADROOM.names)


def unrecorded(quotas: DataFrame, use: DataFrame) -> DataFrame:
    """Return the quota keys of which nothing was recorded: `cluster`, `key`, and how many `values` they have.

    Args:
        quotas: `quotaform.spark.schemas.QUOTAS`.
        use: `headroom`.
    """
    values = _values(quotas).join(_recorded(use), ["cluster", "key"], "left_anti")
    return values.groupBy("cluster", "key").agg(f.count("*").alias("values")).select("cluster", "key", "values")


def _values(quotas: DataFrame) -> DataFrame:
    return quotas.where(f.col("value").isNotNull()).select(
        "cluster", "entity_key", "key", f.col("value").alias("limit"), source_of(f.col("entity")).alias("source")
    )


def _recorded(use: DataFrame) -> DataFrame:
    """Return when each key was recorded on each cluster; as long as in the bucket that was recorded longest."""
    return use.groupBy("cluster", "key").agg(
        f.min("first").alias("first"), f.max("last").alias("last"), f.max("recorded_s").alias("recorded_s")
    )


def _numbered(found: DataFrame) -> DataFrame:
    """Return `schemas.BUCKETS` with the number of each bucket, and how many series make one."""
    return found.withColumns(
        {
            "number": f.dense_rank().over(Window.orderBy(*_NAMES)),
            "members": f.count("*").over(Window.partitionBy(*_NAMES)),
        }
    )


def _rows(usage: DataFrame, series: DataFrame, hint: str) -> DataFrame:
    """Return usage of some series with the numbers of their buckets; what is no number of its kind becomes null."""
    at_limit = (finite_limit() * AT_LIMIT_RATIO).alias("at_limit")
    own = series.select(*OF_SERIES, "number", "member", at_limit).hint(hint)
    joined = (
        usage.where(f.col("ts").isNotNull())
        .alias("usage")
        .join(own.alias("own"), same_columns("usage", "own", OF_SERIES))
    )
    rate, throttle, window = f.col("rate"), f.col("throttle_ms"), f.col("window_s")
    # In SQL a NaN is larger than anything.
    return joined.select(
        "number",
        f.when(~f.col("usage.key").isin(CLUSTER_KEYS), f.col("usage.broker")).alias("broker"),
        "member",
        f.unix_micros("ts").alias("at"),
        f.when((rate >= 0) & (rate <= float_info.max), rate).alias("rate"),
        f.when((throttle > 0) & (throttle <= float_info.max), throttle).alias("throttle_ms"),
        f.when((window > 0) & (window <= LONGEST_STEP_S), window).otherwise(QUOTA_WINDOW_S).alias("window_s"),
        "at_limit",
    )


def _once(rows: DataFrame, by: tuple[str, ...]) -> DataFrame:
    """Return one row per time: some are there twice, and some have the rate apart from the throttle time."""
    largest = (f.max(name).alias(name) for name in ("rate", "throttle_ms", "window_s", "at_limit"))
    return rows.repartition(*_BUCKET).groupBy(*by, "at").agg(*largest)


def _summed(members: DataFrame) -> DataFrame:
    """Return the use of buckets whose members are added up, time by time."""
    others = (f.max(name).alias(name) for name in ("throttle_ms", "window_s", "at_limit"))
    return members.groupBy(*_BUCKET, "at").agg(f.sum("rate").alias("rate"), *others)


def _used(times: DataFrame) -> DataFrame:
    """Return a row per bucket and broker: what its samples say, in the order of time."""
    in_order = Window.partitionBy(*_BUCKET).orderBy("at")
    step = (f.col("at") - f.lag("at").over(in_order)) / 1e6
    seconds = f.when(step <= LONGEST_STEP_S, step).otherwise(f.col("window_s"))
    is_new = ~f.col("throttle_ms").eqNullSafe(f.lag("throttle_ms").over(in_order))
    is_throttled = f.col("throttle_ms").isNotNull() & (
        is_new | f.coalesce(f.col("rate") >= f.col("at_limit"), f.lit(False))
    )
    rows = times.select(*_BUCKET, "at", "rate", "throttle_ms", seconds.alias("s"), is_throttled.alias("is_throttled"))
    ranks = f.percentile_approx("rate", list(_SHARES.values()), _ACCURACY)
    found = rows.groupBy(*_BUCKET).agg(
        f.count("rate").alias("samples"),
        f.timestamp_micros(f.min("at")).alias("first"),
        f.timestamp_micros(f.max("at")).alias("last"),
        ranks.alias("ranks"),
        f.max("rate").alias("max"),
        f.sum("s").alias("recorded_s"),
        f.sum(f.when(f.col("is_throttled"), f.col("s")).otherwise(0.0)).alias("throttled_s"),
        f.max("throttle_ms").alias("throttle_ms_max"),
    )
    return found.withColumns({name: f.col("ranks")[place] for place, name in enumerate(_SHARES)}).drop("ranks")


def _beside_members(use: DataFrame, members: DataFrame) -> DataFrame:
    """Return the use of shared buckets with how many share it, and who uses most; of equals the first by address."""
    totals = members.groupBy(*_BUCKET, "member").agg(f.coalesce(f.sum("rate"), f.lit(0.0)).alias("total"))
    found = totals.groupBy(*_BUCKET).agg(
        f.count("*").alias("members"),
        f.min_by("member", f.struct(-f.col("total"), f.col("member"))).alias("top_member"),
        f.try_divide(f.max("total"), f.sum("total")).alias("top_share"),
    )
    columns = ("members", "top_member", "top_share")
    joined = use.alias("use").join(found.alias("found"), same_columns("use", "found", _BUCKET))
    return joined.select("use.*", *(f"found.{name}" for name in columns))


def _beside_limits(use: DataFrame, series: DataFrame) -> DataFrame:
    """Return the use of buckets with their names and limits."""
    names = ("cluster", "key", "bucket", "limit", "source", "entity_key")
    buckets = series.groupBy("number").agg(
        *(f.first(name).alias(name) for name in names),
        f.first("member").alias("only_member"),
        f.bool_or("is_coarse").alias("is_coarse"),
    )
    is_of_client = f.col("broker").isNull() & ~f.col("key").isin(CLUSTER_KEYS)
    return use.join(buckets, "number").withColumns(
        {
            "used_ratio": f.when(finite_limit() > 0, f.col("p99") / finite_limit()),
            "top_member": f.coalesce("top_member", "only_member"),
            "top_member_share": f.when(f.col("members") > 1, f.col("top_share")).otherwise(1.0),
            "is_coarse": f.col("is_coarse") | is_of_client,
        }
    )


def finite_limit() -> Column:
    """Return `limit`; null if it limits nothing: NaN, the maximum of its key, and more than that."""
    maximum = f.coalesce(
        *(f.when(f.col("key") == key.name, key.maximum) for key in QUOTA_KEYS.values()), f.lit(float("inf"))
    )
    return f.when(f.col("limit") < maximum, f.col("limit"))
