"""Compares a recording with the quotas of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import functions as f

from quotaform.fleet.job import table_rows
from quotaform.fleet.table import bad_table
from quotaform.model.entity import Entity, spell_name
from quotaform.model.errors import QuotaformError
from quotaform.model.precedence import level_of
from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.model.records.record import made_of
from quotaform.model.text import listed
from quotaform.resolve.spark_quotas import completed, struct
from quotaform.usage.bucket.rows import RECORDED_LIMIT, BucketRows, Floats, per_bucket
from quotaform.usage.bucket.spark import buckets, finite_limit, member_number, numbered
from quotaform.usage.headroom.headroom import (
    CLOSE_RATIO,
    NOISY_SHARE,
    BucketUse,
    Headroom,
    HeadroomStatus,
    HeadroomSummary,
    UnknownCluster,
    UnrecordedKey,
    UnusedQuota,
)
from quotaform.usage.sample import LONGEST_STEP_S
from quotaform.usage.table.schema import HEADROOM, SERIES
from quotaform.usage.table.table import (
    QuotaSource,
    known_clusters,
    named_usage,
    read_usage,
    recorded,
    time_text,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


# The tables `headroom` and what was not used: what was recorded of each bucket, beside its limit.
#
# | of a sample | value |
# | --- | --- |
# | rate | per bucket, broker and time: the sum of the series that share the bucket; a series counts once per time |
# | seconds | since the previous sample of the bucket; its own window if there is none within `LONGEST_STEP_S` |
# | throttled | requests were newly throttled: see `BucketRows` |
#
# A broker averages the delays of the last 30 to 60 seconds and reports the same average until they are over, so an
# average that does not change is an old one, unless every delay is as long as the longest that is allowed: then the
# rate tells. A time that is throttled may thus be counted up to 60 seconds too late or too long, once each time that
# throttling begins or ends, and less than a sample's seconds cannot be told.
#
# Clients that measured themselves are brought to common times before, see `quotaform.usage.bucket.rows`.
#
# A percentile is the smallest rate that at least that share of the samples does not exceed (nearest rank).
#
# The limit on mutations is one of the whole cluster, which its active controller enforces. So brokers are not added up:
# of several that report a series at one time, as after a failover, the highest rate counts.

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_USES: Final = struct(
    "bucket_id samples first last long",
    "p50 p95 p99 max recorded_s throttled_s throttle_ms_max double",
    "members top_number long",
    "top_share double",
)
"""What the samples of a bucket on a broker say; times are in microseconds since 1970."""


def headroom(
    usage: DataFrame, series: DataFrame, quotas: DataFrame, kept: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of `HEADROOM` about buckets, and those about values that limited nothing.

    `series`: `RECORDED` of the usage. `kept`: makes rows that are read several times.
    """
    found = kept(numbered(series, buckets(series, quotas)))
    use = kept(_headroom(usage, found))
    return use, kept(_unused(quotas, found, use))


def _headroom(usage: DataFrame, found: DataFrame) -> DataFrame:
    """Return the rows of `HEADROOM` about buckets. The usage is shuffled once, by bucket."""
    limited = found.withColumn(RECORDED_LIMIT, finite_limit())
    use = per_bucket(usage, limited, (RECORDED_LIMIT,), _bucket_use, _USES)
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


def _bucket_use(rows: BucketRows) -> dict[str, Any]:
    """Return the columns of `_USES` of a bucket on a broker."""
    at, rate, throttle = rows.at, rows.rate, rows.throttle_ms
    window = numpy.where(numpy.isnan(rows.window_s), QUOTA_WINDOW_S, rows.window_s)
    step = numpy.append(numpy.nan, (at[1:] - at[:-1]) / 1e6)
    seconds = numpy.where(step <= LONGEST_STEP_S, step, window)
    rates = numpy.sort(rate[~numpy.isnan(rate)])
    delays = throttle[~numpy.isnan(throttle)]
    total = float(rows.totals.sum())
    return {
        "samples": len(rates),
        "first": at[0],
        "last": at[-1],
        **{name: _rank(rates, share) for name, share in _SHARES.items()},
        "max": _rank(rates, 1.0),
        "recorded_s": seconds.sum(),
        "throttled_s": seconds[rows.is_newly_throttled].sum(),
        "throttle_ms_max": float(delays.max()) if len(delays) else None,
        "members": len(rows.members),
        # Of equals the first by address.
        "top_number": rows.members[rows.totals.argmax()],
        "top_share": float(rows.totals.max()) / total if total else None,
    }


def _rank(rates: Floats, share: float) -> float | None:
    """Return the smallest of sorted rates that at least a share of them does not exceed; `None` without any."""
    return float(rates[ceil(share * len(rates)) - 1]) if len(rates) else None


def _unused(quotas: DataFrame, found: DataFrame, use: DataFrame) -> DataFrame:
    """Return the rows of `HEADROOM` about values that limited nothing, of keys that were recorded.

    The usage is taken to be recorded under these quotas: a broker then has no bucket of an entity that no request met.

    `found`: `BUCKETS` of the recorded series under them. `use`: `headroom` of these.
    """
    met = found.where(f.col("entity_key").isNotNull()).select("cluster", "key", "entity_key").distinct()
    values = _values(quotas).join(met, ["cluster", "key", "entity_key"], "left_anti")
    rows = values.join(_recorded(use), ["cluster", "key"])
    counts = {"samples": f.lit(0).cast("long"), "members": f.lit(0).cast("long"), "throttled_s": f.lit(0.0)}
    return completed(rows.withColumns({**counts, "is_coarse": f.lit(False)}), HEADROOM)


def unrecorded(quotas: DataFrame, use: DataFrame) -> DataFrame:
    """Return the quota keys of which nothing was recorded: `cluster`, `key`, and how many `values` they have."""
    values = _values(quotas).join(_recorded(use), ["cluster", "key"], "left_anti")
    return values.groupBy("cluster", "key").agg(f.count("*").alias("values")).select("cluster", "key", "values")


def _values(quotas: DataFrame) -> DataFrame:
    # Spark takes annotations of the function for kinds of data.
    source = f.udf(lambda names: _source(names), "string")
    values = quotas.where(f.col("value").isNotNull()).withColumnRenamed("value", "limit")
    return values.select("cluster", "entity_key", "key", "limit", source("entity").alias("source"))


def _source(names: dict[str, str | None]) -> str | None:
    """Return the source of the level that an entity is on; `None` if no request meets it, as where a name is empty."""
    level = level_of(Entity(names))
    return None if level is None or any(names[kind] == "" for kind in level.non_empty) else level.source


def _recorded(use: DataFrame) -> DataFrame:
    """Return when each key was recorded on each cluster; as long as in the bucket that was recorded longest."""
    return use.groupBy("cluster", "key").agg(
        f.min("first").alias("first"), f.max("last").alias("last"), f.max("recorded_s").alias("recorded_s")
    )


MOST_CLUSTERS: Final = 100
"""How many clusters without known quotas are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomRequest:
    """What is compared."""

    usage: str
    quotas: QuotaSource
    only_chosen: bool = False
    """Whether usage of other clusters than those of the quotas is left out; it is counted otherwise."""
    is_unnamed: bool = False  # Whether the one cluster of the quotas has no name that a recording could know
    since: datetime | None = None  # The earliest time; `None` for all
    until: datetime | None = None  # The time before which it ends; `None` for all
    most: int = 20  # How many buckets, neighbours and values are brought to the driver


@dataclass(frozen=True, slots=True)
class HeadroomResult:
    """What was found."""

    report: Headroom  # What of it is printed
    rows: DataFrame  # `HEADROOM`, sorted; as long as the context lasts
    failures: tuple[tuple[str, QuotaformError], ...]  # The clusters that could not be read, and why


@contextmanager
def measured_headroom(
    spark: SparkSession, request: HeadroomRequest, warn: Callable[[str], None]
) -> Iterator[HeadroomResult]:
    """Compare a recording with quotas.

    `warn`: called with a sentence when a recording is taken for that of a cluster of another name. Raises
    `InvalidFilesError` if the usage cannot be read, or has no rows of that time. Raises `QuotaformError` if none of the
    clusters could be read; the error of the first one.
    """
    usage = read_usage(spark, request.usage, request.since, request.until)
    with ExitStack() as stack:

        def kept(rows: DataFrame) -> DataFrame:
            return stack.enter_context(table_rows(rows))

        quotas = kept(request.quotas.read(spark))
        known, failures = known_clusters(quotas)
        if request.only_chosen:
            usage = usage.where(f.col("cluster").isNull() | f.col("cluster").isin([*known, *dict(failures)]))
        usage, series = _named(usage, kept(recorded(usage)), known, failures, request, warn)
        use, idle = headroom(usage, series, quotas, kept)
        rows = use.unionByName(idle).orderBy("cluster", "key", "bucket", "broker", "entity_key")
        yield HeadroomResult(_report(request, quotas, use, idle, known), rows, failures)


def _named(
    usage: DataFrame,
    series: DataFrame,
    known: Sequence[str],
    failures: Sequence[tuple[str, QuotaformError]],
    request: HeadroomRequest,
    warn: Callable[[str], None],
) -> tuple[DataFrame, DataFrame]:
    """Return usage and series with the names of clusters that the quotas have.

    | quotas | usage | is |
    | --- | --- | --- |
    | of one cluster | does not say which cluster | of that |
    | of one that has an address or a snapshot alone | of one cluster, of another name | of that, with a warning |
    """
    names = [row["cluster"] for row in series.select("cluster").distinct().limit(MOST_CLUSTERS).toArrow().to_pylist()]
    if not names:
        raise bad_table(request.usage, _nothing(request, known))
    if len(known) != 1 or failures or (known[0] in names and None not in names):
        return usage, series
    others = [name for name in names if name is not None and name != known[0]]
    if request.is_unnamed and len(others) == 1 and known[0] not in names:
        warn(f"the usage is of {spell_name(others[0])}, and is compared with the quotas of {spell_name(known[0])}")
        usage, series = (rows.withColumn("cluster", f.lit(known[0])) for rows in (usage, series))
    renamed = named_usage(series, known).groupBy(*SERIES)
    return named_usage(usage, known), renamed.agg(f.sum("samples").alias("samples"))


def _nothing(request: HeadroomRequest, known: Sequence[str]) -> str:
    time = time_text(request.since, request.until)
    of = f" of {listed([spell_name(name) for name in known])}" if request.only_chosen else ""
    if time or of:
        return f"has no rows{of}{time}; choose another time or cluster, or record usage first"
    return "has no rows; record usage first, by quotaform usage ingest or record"


def _report(
    request: HeadroomRequest, quotas: DataFrame, use: DataFrame, idle: DataFrame, known: Sequence[str]
) -> Headroom:
    rows = use.withColumn("status", _status())
    grave = f.col("status").isin(HeadroomStatus.THROTTLED.value, HeadroomStatus.CLOSE.value)
    is_noisy = grave & (f.col("members") > 1) & (f.col("top_member_share") > NOISY_SHARE)
    is_known = f.coalesce(f.col("cluster").isin(list(known)), f.lit(False))
    (summary,) = (
        rows.agg(
            f.min("first").alias("first"),
            f.max("last").alias("last"),
            f.sum("samples").alias("samples"),
            f.count_if(is_noisy).alias("noisy"),
            f.count_if(f.col("is_coarse") & f.col("limit").isNotNull()).alias("coarse"),
            *(f.count_if(f.col("status") == each.value).alias(each.value) for each in HeadroomStatus),
        )
        .toArrow()
        .to_pylist()
    )
    limited = rows.where(f.col("status") != HeadroomStatus.UNLIMITED.value).orderBy(*_closest_first())
    unknown = rows.where(~is_known).groupBy("cluster").agg(f.count("*").alias("buckets")).orderBy("cluster")
    return Headroom(
        usage=request.usage,
        **{name: summary.pop(name) for name in ("first", "last", "samples")},
        summary=HeadroomSummary(unused=idle.count(), **summary),
        buckets=_read_uses(limited.limit(request.most)),
        noisy=_read_uses(limited.where(is_noisy).limit(request.most)),
        unused=tuple(
            made_of(row | {"address": row["entity_key"], "value": row["limit"]}, UnusedQuota)
            for row in idle.orderBy("cluster", "key", "entity_key").limit(request.most).toArrow().to_pylist()
        ),
        unrecorded=tuple(
            UnrecordedKey(**row) for row in unrecorded(quotas, use).orderBy("cluster", "key").toArrow().to_pylist()
        ),
        unknown=tuple(UnknownCluster(**row) for row in unknown.limit(MOST_CLUSTERS).toArrow().to_pylist()),
    )


def _status() -> Column:
    """Return how each bucket stands to its limit, see `quotaform.usage.headroom.headroom`."""
    return (
        f.when(f.col("throttled_s") > 0, HeadroomStatus.THROTTLED.value)
        .when(finite_limit().isNull(), HeadroomStatus.UNLIMITED.value)
        .when(f.col("used_ratio") >= CLOSE_RATIO, HeadroomStatus.CLOSE.value)
        .otherwise(HeadroomStatus.BELOW.value)
    )


def _closest_first() -> Sequence[Column]:
    """Return the order of buckets: those that were throttled longest, then those closest to their limits."""
    names = ("cluster", "key", "bucket", "broker")
    return [f.desc("throttled_s"), f.desc_nulls_last("used_ratio"), *(f.col(name) for name in names)]


def _read_uses(rows: DataFrame) -> tuple[BucketUse, ...]:
    found = rows.toArrow().to_pylist()
    return tuple(made_of(row | {"source": row["entity_key"], "coarse": row["is_coarse"]}, BucketUse) for row in found)
