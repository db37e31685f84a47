"""The tables `headroom` and what was not used: what was recorded of each bucket, beside its limit.

| of a sample | value |
| --- | --- |
| rate | per bucket, broker and time: the sum of the series that share the bucket; a series counts once per time |
| seconds | since the previous sample of the bucket; the sample's own window if there is none within `LONGEST_STEP_S` |
| throttled | requests were newly throttled: see `BucketRows.newly_throttled` |

A broker averages the delays of the last 30 to 60 seconds and reports the same average until they are over, so an
average that does not change is an old one, unless every delay is as long as the longest that is allowed: then the rate
tells. A time that is throttled may thus be counted up to 60 seconds too late or too long, once each time that
throttling begins or ends, and less than a sample's seconds cannot be told.

Clients that measured themselves are brought to common times before, see `quotaform.spark.usage.bucket.instance`.

A percentile is the smallest rate that at least that share of the samples does not exceed (nearest rank).

The limit on mutations is one of the whole cluster, which its active controller enforces. So brokers are not added up:
of several that report a series at one time, as after a failover, the highest rate counts.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from quotaform.core.usage.sample.series import LONGEST_STEP_S, QUOTA_WINDOW_S
from quotaform.spark.resolve.level import source_of
from quotaform.spark.usage.bucket.bucket import finite_limit
from quotaform.spark.usage.bucket.bucket_rows import RECORDED_LIMIT, BucketRows, Floats, bucket_rows, per_bucket
from quotaform.spark.usage.bucket.member import member_number
from quotaform.spark.usage.schemas import HEADROOM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_USES: Final = StructType(
    [
        *(StructField(name, LongType()) for name in ("bucket_id", "samples", "first", "last")),
        *(StructField(name, DoubleType()) for name in (*_SHARES, "max")),
        *(StructField(name, DoubleType()) for name in ("recorded_s", "throttled_s", "throttle_ms_max")),
        *(StructField(name, LongType()) for name in ("members", "top_number")),
        StructField("top_share", DoubleType()),
    ]
)
"""What the samples of a bucket on a broker say; times are in microseconds since 1970."""


def headroom(usage: DataFrame, found: DataFrame, series: int, samples: int) -> DataFrame:
    """Return the rows of `schemas.HEADROOM` about buckets. The usage is shuffled once, by bucket.

    Args:
        found: `quotaform.spark.usage.bucket.member.numbered` of its series, persisted: it is read three times.
        series: How many rows these are.
        samples: About how many samples they have.
    """
    rows = bucket_rows(usage, found.withColumn(RECORDED_LIMIT, finite_limit()), series, (RECORDED_LIMIT,))
    use = per_bucket(rows, samples, _use, _USES)
    names = ("cluster", "key", "bucket", "limit", "source", "entity_key")
    buckets = found.groupBy("bucket_id").agg(
        *(f.first(name).alias(name) for name in names),
        f.first("bucket_broker").alias("broker"),
        f.bool_or(f.col("is_coarse") | f.col("is_sum")).alias("is_coarse"),
    )
    top = found.select("bucket_id", member_number().alias("top_number"), f.col("member").alias("top_member"))
    return (
        use.join(buckets, "bucket_id")
        .join(top.distinct(), ["bucket_id", "top_number"])
        .withColumns(
            {
                **{name: f.timestamp_micros(name) for name in ("first", "last")},
                "used_ratio": f.when(finite_limit() > 0, f.col("p99") / finite_limit()),
                "top_member_share": f.when(f.col("members") > 1, f.col("top_share")).otherwise(1.0),
            }
        )
        .select(*HEADROOM.names)
    )


def _use(rows: BucketRows) -> dict[str, Any]:
    """Return the columns of `_USES` of a bucket on a broker."""
    at, rate, window, throttle = rows.at, rows.rate, rows.window_s, rows.throttle_ms
    window = numpy.where(numpy.isnan(window), QUOTA_WINDOW_S, window)
    starts = rows.starts()
    if starts is not None:
        at, rate = at[starts], rows.summed(rate)
        window, throttle = (numpy.fmax.reduceat(each, starts) for each in (window, throttle))
    step = numpy.append(numpy.nan, (at[1:] - at[:-1]) / 1e6)
    seconds = numpy.where(step <= LONGEST_STEP_S, step, window)
    rates = numpy.sort(rate[~numpy.isnan(rate)])
    delays = throttle[~numpy.isnan(throttle)]
    members, totals = rows.totals()
    total = float(totals.sum())
    return {
        "samples": len(rates),
        "first": at[0],
        "last": at[-1],
        **{name: _rank(rates, share) for name, share in _SHARES.items()},
        "max": _rank(rates, 1.0),
        "recorded_s": seconds.sum(),
        "throttled_s": seconds[rows.newly_throttled()].sum(),
        "throttle_ms_max": float(delays.max()) if len(delays) else None,
        "members": len(members),
        # Of equals the first by address.
        "top_number": members[totals.argmax()],
        "top_share": float(totals.max()) / total if total else None,
    }


def _rank(rates: Floats, share: float) -> float | None:
    """Return the smallest of sorted rates that at least a share of them does not exceed; `None` without any."""
    return float(rates[ceil(share * len(rates)) - 1]) if len(rates) else None


def unused(quotas: DataFrame, found: DataFrame, use: DataFrame) -> DataFrame:
    """Return the rows of `schemas.HEADROOM` about values that limited nothing, of keys that were recorded.

    The usage is taken to be recorded under these quotas: a broker then has no bucket of an entity that no request met.

    Args:
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
    """Return the quota keys of which nothing was recorded: `cluster`, `key`, and how many `values` they have."""
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
