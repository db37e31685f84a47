"""Compares a recording with the quotas of clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField

from quotaform.fleet.job import kept_rows
from quotaform.fleet.table import bad_table, make_table
from quotaform.model.entity import Entity, spell_name
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.precedence import met_level
from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.model.records.record import made_of
from quotaform.model.text import listed
from quotaform.resolve.spark import HeldQuotas, columns_of, struct
from quotaform.usage.bucket.bucket import RecordedBucket, finite_limit
from quotaform.usage.bucket.spark import packed_usage, per_bucket, quota_buckets
from quotaform.usage.headroom.headroom import (
    CLOSE_RATIO,
    BucketUse,
    Headroom,
    HeadroomStatus,
    HeadroomSummary,
    UnknownCluster,
    UnrecordedKey,
    UnusedQuota,
)
from quotaform.usage.sample import LONGEST_STEP_S
from quotaform.usage.table.table import Clusters, known_quotas, plain_files, read_usage, time_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# docs/usage-headroom.md says how each number is computed.

HEADROOM: Final = struct(columns_of(BucketUse, "status"), "source string")
"""How close each bucket is to its limit, per broker (per cluster for a key whose limit is one of the cluster).

`source` is the name of the level whose value the limit is; the other columns are those of `BucketUse`. A row without a
bucket is about a value that limited nothing that was recorded: `limit` of the entity `entity_key`, with no samples and
no members; `first`, `last` and `recorded_s` are those of the key on that cluster. A key of which nothing was recorded
has no such rows.
"""

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
USES: Final = struct(
    HEADROOM, "status string", "is_noisy boolean", StructField("entities", ArrayType(StringType(), containsNull=False))
)
"""`HEADROOM`, with how the bucket stands to its limit (see `quotaform.usage.headroom.headroom`), and the entities whose
values limited its series."""


def headroom(recording: DataFrame, size: int | None = None) -> DataFrame:
    """Return `USES` of all buckets.

    `recording`: `PACKED` under the quotas, persisted unless its `size` is given.
    """
    return per_bucket(recording, _use, USES, size)


def _use(bucket: RecordedBucket) -> dict[str, Any]:
    """Return the columns of `USES` of a bucket on a broker; times are in microseconds since 1970."""
    rows, series, at = bucket.rows, bucket.series, bucket.rows.at
    limit = finite_limit(bucket.key, series[0].limit)
    window = numpy.where(numpy.isnan(rows.window_s), QUOTA_WINDOW_S, rows.window_s)
    step = numpy.append(numpy.nan, (at[1:] - at[:-1]) / 1e6)
    seconds = numpy.where(step <= LONGEST_STEP_S, step, window)
    rates = numpy.sort(rows.rate[~numpy.isnan(rows.rate)])
    delays = rows.throttle_ms[~numpy.isnan(rows.throttle_ms)]
    throttled_s = seconds[rows.is_newly_throttled].sum()
    members, total = len(rows.members), float(rows.totals.sum())
    share = float(rows.totals.max()) / total if total else None
    # The smallest rate that at least that share of them does not exceed.
    places = {name: ceil(part * len(rates)) - 1 for name, part in _SHARES.items()}
    shares = {name: float(rates[place]) if len(rates) else None for name, place in places.items()}
    used = shares["p99"] / limit if limit is not None and limit > 0 and shares["p99"] is not None else None
    status = HeadroomStatus.UNLIMITED
    if throttled_s > 0:
        status = HeadroomStatus.THROTTLED
    elif limit is not None:
        status = HeadroomStatus.CLOSE if used is not None and used >= CLOSE_RATIO else HeadroomStatus.BELOW
    is_full = status in (HeadroomStatus.THROTTLED, HeadroomStatus.CLOSE)
    return {
        **bucket.place,
        **shares,
        "samples": len(rates),
        "first": int(at[0]),
        "last": int(at[-1]),
        "recorded_s": seconds.sum(),
        "throttled_s": throttled_s,
        "throttle_ms_max": float(delays.max()) if len(delays) else None,
        "members": members,
        "entity_key": series[0].entity_key,
        "source": series[0].source,
        "limit": series[0].limit,
        "used_ratio": used,
        # Of equals the first by address.
        "top_member": series[int(rows.members[rows.totals.argmax()])].member,
        "top_member_share": share if members > 1 else 1.0,
        "is_coarse": bucket.is_coarse,
        "status": status.value,
        # One of several uses more than half.
        "is_noisy": is_full and members > 1 and share is not None and share > 0.5,
        "entities": [[*{each.entity_key for each in series if each.entity_key is not None}]],
    }


def recorded_keys(use: DataFrame) -> dict[tuple[str | None, str], dict[str, Any]]:
    """Return what `USES` say of each key of a cluster.

    `first` and `last` are the times of the first and the last sample, `recorded_s` the seconds of the bucket that was
    recorded longest, and `met` the addresses of entities whose values limited a series. The others are numbers: of
    `samples`, and of buckets: of all, of `noisy` and `coarse` ones (of those without a limit none is coarse), and of
    those with each `HeadroomStatus`.
    """
    counts = {
        "buckets": f.lit(True),
        "noisy": f.col("is_noisy"),
        "coarse": f.col("is_coarse") & f.col("limit").isNotNull(),
        **{status.value: f.col("status") == status.value for status in HeadroomStatus},
    }
    rows = use.groupBy("cluster", "key").agg(
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        f.max("recorded_s").alias("recorded_s"),
        f.flatten(f.collect_set("entities")).alias("met"),
        f.sum("samples").alias("samples"),
        *(f.count_if(is_counted).alias(name) for name, is_counted in counts.items()),
    )
    return {(row.pop("cluster"), row.pop("key")): row | {"met": set(row["met"])} for row in rows.toArrow().to_pylist()}


def unused_values(held: HeldQuotas, keys: Mapping[tuple[str | None, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `HEADROOM` about values that limited nothing, of `recorded_keys`.

    The usage is taken to be recorded under these quotas: a broker then has no bucket of an entity that no request met.
    """
    rows = []
    for cluster, entity, key, value in _values(held):
        recorded, level = keys.get((cluster, key)), met_level(entity)
        if recorded is not None and entity.address not in recorded["met"]:
            rows.append(
                dict.fromkeys(HEADROOM.names)
                | {"cluster": cluster, "key": key, "entity_key": entity.address, "limit": value, "is_coarse": False}
                | {name: recorded[name] for name in ("first", "last", "recorded_s")}
                # No request meets an entity without a level, as where a name is empty.
                | {"source": None if level is None else level.source, "samples": 0, "throttled_s": 0.0, "members": 0}
            )
    return sorted(rows, key=lambda row: (row["cluster"], row["key"], row["entity_key"]))


def _values(held: HeldQuotas) -> Iterator[tuple[str, Entity, str, float]]:
    """Yield the values of clusters that have a name."""
    for cluster, quotas in held.items():
        for entity, values in quotas.items():
            if cluster is not None:
                yield from ((cluster, entity, key, value) for key, value in values.items())


def headroom_table(use: DataFrame, unused: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return `HEADROOM` of buckets and of `unused_values`."""
    rows = make_table(use.sparkSession, HEADROOM, (tuple(row.values()) for row in unused))
    return use.select(*HEADROOM.names).unionByName(rows)


MOST_CLUSTERS: Final = 100
"""How many clusters without known quotas are named."""


@contextmanager
def measured_headroom(
    spark: SparkSession,
    usage: str,
    quotas: DataFrame,
    warn: Callable[[str], None],
    *,
    only_chosen: bool = False,
    is_unnamed: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    most: int = 20,
) -> Iterator[tuple[Headroom, DataFrame, Sequence[ClusterOutcome[Any]]]]:
    """Compare a recording with quotas: give what is printed, `HEADROOM`, sorted, and the clusters that cannot be read.

    The rows are there as long as the context lasts.

    `usage`: the usage table. `quotas`: `QUOTAS`. `warn`: called with a sentence when a recording is taken for that of a
    cluster of another name. `only_chosen`: whether usage of other clusters than those of the quotas is left out; it is
    counted otherwise. `is_unnamed`: whether the one cluster of the quotas has no name that a recording could know.
    `since`, `until`: from when on and before when; `None` for all. `most`: how many buckets, neighbours and values are
    brought to the driver. Raises `InvalidFilesError` if the usage cannot be read or has no rows of that time, and the
    error of the first cluster if none of them could be read.
    """
    recorded = read_usage(spark, usage, since, until)
    held, failed = known_quotas(quotas)
    known = sorted(cluster for cluster in held if cluster is not None)
    chosen = [*known, *(outcome.cluster for outcome in failed)]
    if only_chosen:
        recorded = recorded.where(f.col("cluster").isNull() | f.col("cluster").isin(chosen))
    renamed: dict[str | None, str] = {}
    if len(known) == 1 and not failed:
        # Usage that names no cluster is of that of the quotas, and usage of one other cluster, too, if the quotas are
        # those of an address or a snapshot.
        [own] = known
        renamed[None] = own
        if is_unnamed:
            names = recorded.select("cluster").distinct().limit(MOST_CLUSTERS).toArrow()["cluster"].to_pylist()
            others = [cluster for cluster in names if cluster is not None]
            if len(others) == 1 and others != known:
                warn(f"the usage is of {spell_name(others[0])}, and is compared with the quotas of {spell_name(own)}")
                renamed[others[0]] = own
    clusters = Clusters(frozenset([None, *chosen]) if only_chosen else None, renamed)
    files = plain_files(recorded, usage, clusters, since, until)
    with ExitStack() as stack:
        recording = packed_usage(recorded, quota_buckets(held), clusters, files)
        if files is None:
            recording = stack.enter_context(kept_rows(recording))
        use = stack.enter_context(kept_rows(headroom(recording, None if files is None else files.rows)))
        keys = recorded_keys(use)
        if not keys:
            time = time_text(since, until)
            of = f" of {listed(map(spell_name, known))}" if only_chosen else ""
            remedy = "choose another time or cluster, or record usage first" if time or of else "record usage first"
            raise bad_table(usage, f"has no rows{of}{time}; {remedy}, by quotaform usage ingest or record")
        unused = unused_values(held, keys)
        counts: Counter[str] = Counter()
        unknown: Counter[str | None] = Counter()
        for (cluster, _), row in keys.items():
            counts.update({name: row[name] for name in ("samples", "noisy", "coarse", *HeadroomStatus)})
            if cluster is None or cluster not in held:
                unknown[cluster] += row["buckets"]
        unrecorded = Counter((cluster, key) for cluster, _, key, _ in _values(held) if (cluster, key) not in keys)
        strangers = sorted(unknown, key=lambda name: name or "")[:MOST_CLUSTERS]
        report = Headroom(
            usage=usage,
            first=min(row["first"] for row in keys.values()),
            last=max(row["last"] for row in keys.values()),
            samples=counts.pop("samples"),
            summary=HeadroomSummary(unused=len(unused), **counts),
            buckets=_first(use.where(f.col("status") != HeadroomStatus.UNLIMITED.value), most),
            noisy=_first(use.where("is_noisy"), most) if counts["noisy"] else (),
            unused=tuple(made_of({**row, "value": row["limit"]}, UnusedQuota) for row in unused[:most]),
            unrecorded=tuple(
                UnrecordedKey(cluster=of, key=key, values=count) for (of, key), count in sorted(unrecorded.items())
            ),
            unknown=tuple(UnknownCluster(cluster=name, buckets=unknown[name]) for name in strangers),
        )
        rows = headroom_table(use, unused).orderBy("cluster", "key", "bucket", "broker", "entity_key")
        yield report, rows, failed


def _first(use: DataFrame, most: int) -> tuple[BucketUse, ...]:
    """Return what was throttled longest, then what is closest to its limit."""
    ordered = use.orderBy(f.desc("throttled_s"), f.desc_nulls_last("used_ratio"), "cluster", "key", "bucket", "broker")
    return tuple(made_of(row, BucketUse) for row in ordered.limit(most).toArrow().to_pylist())
