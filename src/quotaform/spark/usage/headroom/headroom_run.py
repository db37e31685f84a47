"""Holding a recording against the quotas of clusters, and what of it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quotaform.core.usage.headroom import (
    CLOSE_RATIO,
    NOISY_SHARE,
    BucketUse,
    Headroom,
    HeadroomStatus,
    UnknownCluster,
    UnrecordedKey,
    UnusedQuota,
)
from quotaform.errors import QuotaformError
from quotaform.model.entity import spell_name
from quotaform.model.text import listed
from quotaform.spark.job.kept_rows import final_rows, table_rows
from quotaform.spark.table.named_table import bad_table
from quotaform.spark.usage.bucket.bucket import buckets, finite_limit, recorded_series
from quotaform.spark.usage.bucket.member import numbered
from quotaform.spark.usage.bucket.recorded import recorded, recorded_size
from quotaform.spark.usage.headroom.headroom import headroom, unrecorded, unused
from quotaform.spark.usage.schemas import SERIES
from quotaform.spark.usage.table.usage_cluster import named_usage, time_text
from quotaform.spark.usage.table.usage_quotas import QuotaSource, failures_of, known_clusters
from quotaform.spark.usage.table.usage_table import read_usage, usage_between

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_CLUSTERS: Final = 100
"""How many clusters without known quotas are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomRequest:
    """What to hold against what.

    Attributes:
        only_chosen: Whether usage of other clusters than those of the quotas is left out; it is counted otherwise.
        is_unnamed: Whether the one cluster of the quotas has no name that a recording could know.
        since: The earliest time; `None` for all.
        until: The time before which it ends; `None` for all.
        most: How many buckets, neighbours and values are brought to the driver.
    """

    usage: str
    quotas: QuotaSource
    only_chosen: bool = False
    is_unnamed: bool = False
    since: datetime | None = None
    until: datetime | None = None
    most: int = 20


@dataclass(frozen=True, slots=True)
class HeadroomResult:
    """What was found.

    Attributes:
        report: What of it is printed.
        rows: `schemas.HEADROOM`, sorted; as long as the context lasts.
        failures: The clusters that could not be read, and why.
    """

    report: Headroom
    rows: DataFrame
    failures: tuple[tuple[str, QuotaformError], ...]


@contextmanager
def measured_headroom(
    spark: SparkSession, request: HeadroomRequest, warn: Callable[[str], None]
) -> Iterator[HeadroomResult]:
    """Hold a recording against quotas.

    Args:
        warn: Called with a sentence when a recording is taken for that of a cluster of another name.

    Raises:
        InvalidFilesError: The usage cannot be read, or has no rows of that time.
        QuotaformError: None of the clusters could be read; the error of the first one.
    """
    usage = usage_between(read_usage(spark, request.usage), request.since, request.until)
    with ExitStack() as stack:

        def kept(rows: DataFrame) -> DataFrame:
            return stack.enter_context(final_rows(rows))

        quotas = stack.enter_context(table_rows(request.quotas.read(spark)))
        failures = failures_of(quotas)
        known = known_clusters(quotas)
        if request.only_chosen:
            usage = usage.where(f.col("cluster").isNull() | f.col("cluster").isin([*known, *dict(failures)]))
        usage, series = _named(usage, kept(recorded(usage)), known, failures, request, warn)
        number, samples = recorded_size(series)
        found = kept(numbered(series, buckets(recorded_series(series), quotas)))
        use = kept(headroom(usage, found, number, samples))
        idle = kept(unused(quotas, found, use))
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
        warn(f"the usage is of {spell_name(others[0])}, and is held against the quotas of {spell_name(known[0])}")
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
    (total,) = (
        rows.agg(
            f.min("first").alias("first"),
            f.max("last").alias("last"),
            f.sum("samples").alias("samples"),
            f.count_if(is_noisy).alias("noisy_total"),
            f.count_if(f.col("is_coarse") & f.col("limit").isNotNull()).alias("coarse"),
            *(f.count_if(f.col("status") == each.value).alias(each.value) for each in HeadroomStatus),
        )
        .toArrow()
        .to_pylist()
    )
    counts = {each: total.pop(each.value) for each in HeadroomStatus}
    limited = rows.where(f.col("status") != HeadroomStatus.UNLIMITED.value).orderBy(*_gravity())
    unknown = rows.where(~is_known).groupBy("cluster").agg(f.count("*").alias("buckets")).orderBy("cluster")
    return Headroom(
        usage=request.usage,
        counts=counts,
        buckets=_uses(limited.limit(request.most)),
        noisy=_uses(limited.where(is_noisy).limit(request.most)),
        unused=_unused(idle.orderBy("cluster", "key", "entity_key").limit(request.most)),
        unused_total=idle.count(),
        unrecorded=tuple(
            UnrecordedKey(**row) for row in unrecorded(quotas, use).orderBy("cluster", "key").toArrow().to_pylist()
        ),
        unknown=tuple(UnknownCluster(**row) for row in unknown.limit(MOST_CLUSTERS).toArrow().to_pylist()),
        **total,
    )


def _status() -> Column:
    """Return how each bucket stands to its limit, see `quotaform.core.usage.headroom`."""
    return (
        f.when(f.col("throttled_s") > 0, HeadroomStatus.THROTTLED.value)
        .when(finite_limit().isNull(), HeadroomStatus.UNLIMITED.value)
        .when(f.col("used_ratio") >= CLOSE_RATIO, HeadroomStatus.CLOSE.value)
        .otherwise(HeadroomStatus.BELOW.value)
    )


def _gravity() -> Sequence[Column]:
    """Return the order of buckets: those that were throttled longest, then those closest to their limits."""
    names = ("cluster", "key", "bucket", "broker")
    return [f.desc("throttled_s"), f.desc_nulls_last("used_ratio"), *(f.col(name) for name in names)]


def _uses(rows: DataFrame) -> tuple[BucketUse, ...]:
    return tuple(_use(row) for row in rows.toArrow().to_pylist())


def _use(row: dict[str, Any]) -> BucketUse:
    renamed = {"entity_key": "entity", "max": "maximum"}
    fields = {renamed.get(name, name): value for name, value in row.items() if name != "source"}
    return BucketUse(**{**fields, "status": HeadroomStatus(row["status"])})


def _unused(rows: DataFrame) -> tuple[UnusedQuota, ...]:
    columns = ("cluster", "key", "recorded_s", "first", "last")
    return tuple(
        UnusedQuota(entity=row["entity_key"], value=row["limit"], **{name: row[name] for name in columns})
        for row in rows.toArrow().to_pylist()
    )
