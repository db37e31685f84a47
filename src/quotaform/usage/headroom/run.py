"""Compares a recording with the quotas of clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from heapq import nsmallest
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from msgspec import Struct, field
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField

from quotaform.fleet.job import arriving, kept_rows
from quotaform.fleet.table import bad_table, make_table
from quotaform.model.entity import Entity, spell_name
from quotaform.model.outcome import ClusterOutcome
from quotaform.model.precedence import met_level
from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.model.records.record import made_of
from quotaform.model.text import listed
from quotaform.resolve.spark import HeldQuotas
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.rows import BucketRows, Floats
from quotaform.usage.bucket.spark import (
    RecordedBucket,
    finite_limit,
    moment_of,
    packed_usage,
    per_bucket,
    quota_buckets,
)
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
from quotaform.usage.table.schema import HEADROOM
from quotaform.usage.table.table import (
    Clusters,
    PlainFiles,
    QuotaSource,
    known_quotas,
    plain_files,
    read_usage,
    time_text,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The tables `headroom` and what was not used: what was recorded of each bucket, and its limit.
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
USES: Final = struct(HEADROOM, StructField("entities", ArrayType(StringType())))
"""`HEADROOM`, with the entities whose values limited the series of a bucket."""


def headroom(recording: DataFrame, files: PlainFiles | None = None) -> DataFrame:
    """Return `USES`: the rows of `HEADROOM` about buckets.

    `recording`: `PACKED` under the quotas; persisted, unless it is of `files`.
    """
    return per_bucket(recording, _use, USES, files)


def _use(bucket: RecordedBucket) -> dict[str, Any]:
    """Return the columns of `USES` of a bucket on a broker."""
    found, series = _bucket_use(bucket.rows), bucket.series
    limit, top, share = finite_limit(bucket.key, series[0].limit), found.pop("top_number"), found.pop("top_share")
    return {
        **bucket.place,
        **found,
        "entity_key": series[0].entity,
        "source": series[0].source,
        "limit": series[0].limit,
        "used_ratio": found["p99"] / limit if limit is not None and limit > 0 and found["p99"] is not None else None,
        "top_member": series[top].member,
        "top_member_share": share if found["members"] > 1 else 1.0,
        "is_coarse": bucket.is_sum or any(each.is_coarse for each in series),
        "entities": [[*{each.entity for each in series if each.entity is not None}]],
    }


def _bucket_use(rows: BucketRows) -> dict[str, Any]:
    """Return what the samples of a bucket on a broker say; times are in microseconds since 1970."""
    at, rate, throttle = rows.at, rows.rate, rows.throttle_ms
    window = numpy.where(numpy.isnan(rows.window_s), QUOTA_WINDOW_S, rows.window_s)
    step = numpy.append(numpy.nan, (at[1:] - at[:-1]) / 1e6)
    seconds = numpy.where(step <= LONGEST_STEP_S, step, window)
    rates = numpy.sort(rate[~numpy.isnan(rate)])
    delays = throttle[~numpy.isnan(throttle)]
    total = float(rows.totals.sum())
    return {
        "samples": len(rates),
        "first": int(at[0]),
        "last": int(at[-1]),
        **{name: _rank(rates, share) for name, share in _SHARES.items()},
        "max": _rank(rates, 1.0),
        "recorded_s": seconds.sum(),
        "throttled_s": seconds[rows.is_newly_throttled].sum(),
        "throttle_ms_max": float(delays.max()) if len(delays) else None,
        "members": len(rows.members),
        # Of equals the first by address.
        "top_number": int(rows.members[rows.totals.argmax()]),
        "top_share": float(rows.totals.max()) / total if total else None,
    }


def _rank(rates: Floats, share: float) -> float | None:
    """Return the smallest of sorted rates that at least a share of them does not exceed; `None` without any."""
    return float(rates[ceil(share * len(rates)) - 1]) if len(rates) else None


class Limited(Struct):
    """What limited some of what was recorded."""

    spans: dict[tuple[str | None, str], tuple[datetime, datetime, float]] = field(default_factory=dict)
    """When each key of a cluster was recorded first and last; as long as in the bucket that was recorded longest."""
    met: set[tuple[str | None, str, str]] = field(default_factory=set)
    """The clusters, keys and entities of values that limited a series."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of `USES`."""
        place = row["cluster"], row["key"]
        first, last, recorded_s = self.spans.get(place, (row["first"], row["last"], 0.0))
        self.spans[place] = min(first, row["first"]), max(last, row["last"]), max(recorded_s, row["recorded_s"])
        self.met.update((*place, entity) for entity in row["entities"])

    def unused(self, held: HeldQuotas) -> Iterator[dict[str, Any]]:
        """Yield the rows of `HEADROOM` about values that limited nothing, of keys that were recorded.

        The usage is taken to be recorded under these quotas: a broker then has no bucket of an entity that no request
        met.
        """
        for cluster, entity, key, value in _values(held):
            if (cluster, key) in self.spans and (cluster, key, entity.address) not in self.met:
                first, last, recorded_s = self.spans[cluster, key]
                yield dict.fromkeys(HEADROOM.names) | {
                    "cluster": cluster,
                    "key": key,
                    "entity_key": entity.address,
                    "source": _source(entity),
                    "limit": value,
                    "samples": 0,
                    "first": first,
                    "last": last,
                    "recorded_s": recorded_s,
                    "throttled_s": 0.0,
                    "members": 0,
                    "is_coarse": False,
                }

    def unrecorded(self, held: HeldQuotas) -> Sequence[UnrecordedKey]:
        """Return the quota keys of which nothing was recorded, with how many values they have."""
        of_clusters = Counter((cluster, key) for cluster, _, key, _ in _values(held))
        return [
            UnrecordedKey(cluster=cluster, key=key, values=count)
            for (cluster, key), count in sorted(of_clusters.items())
            if (cluster, key) not in self.spans
        ]


def _values(held: HeldQuotas) -> Iterator[tuple[str, Entity, str, float]]:
    """Yield the values of clusters that have a name."""
    for cluster, quotas in held.items():
        for entity, values in quotas.items():
            if cluster is not None:
                yield from ((cluster, entity, key, value) for key, value in values.items())


def _source(entity: Entity) -> str | None:
    """Return the source of the level that an entity is on; `None` if no request meets it, as where a name is empty."""
    level = met_level(entity)
    return None if level is None else level.source


def read_uses(use: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of `USES` as tasks end, in no order."""
    times = {name: f.unix_micros(name) for name in ("first", "last")}
    for row in arriving(use.withColumns(times)):
        found = dict(zip(USES.names, row, strict=True))
        yield found | {name: moment_of(found[name]) for name in times}


def idle_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return rows of `HEADROOM` as a table."""
    return make_table(spark, HEADROOM, (tuple(row.values()) for row in rows))


MOST_CLUSTERS: Final = 100
"""How many clusters without known quotas are named."""


class HeadroomRequest(Struct, frozen=True, kw_only=True):
    """What is compared."""

    usage: str
    quotas: QuotaSource
    only_chosen: bool = False
    """Whether usage of other clusters than those of the quotas is left out; it is counted otherwise."""
    is_unnamed: bool = False  # Whether the one cluster of the quotas has no name that a recording could know
    since: datetime | None = None  # The earliest time; `None` for all
    until: datetime | None = None  # The time before which it ends; `None` for all
    most: int = 20  # How many buckets, neighbours and values are brought to the driver


class HeadroomResult(Struct, frozen=True):
    """What was found."""

    report: Headroom  # What of it is printed
    rows: DataFrame  # `HEADROOM`, sorted; as long as the context lasts
    failed: tuple[ClusterOutcome[Any], ...]  # The clusters that could not be read


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
    held, failed = known_quotas(request.quotas.read(spark))
    known = sorted(name for name in held if name is not None)
    chosen = [*known, *(outcome.cluster for outcome in failed)]
    if request.only_chosen:
        usage = usage.where(f.col("cluster").isNull() | f.col("cluster").isin(chosen))
    clusters = Clusters(
        frozenset([None, *chosen]) if request.only_chosen else None,
        _renamed(usage, known[0], request, warn) if len(known) == 1 and not failed else {},
    )
    files = plain_files(usage, request.usage, clusters, request.since, request.until)
    with ExitStack() as stack:
        recording = packed_usage(usage, quota_buckets(held), clusters, files)
        if files is None:
            recording = stack.enter_context(kept_rows(recording))
        use = stack.enter_context(kept_rows(headroom(recording, files)))
        report, idle = _report(request, use, held, known)
        rows = use.select(*HEADROOM.names).unionByName(idle_rows(spark, idle))
        yield HeadroomResult(report, rows.orderBy("cluster", "key", "bucket", "broker", "entity_key"), failed)


def _renamed(
    usage: DataFrame, known: str, request: HeadroomRequest, warn: Callable[[str], None]
) -> Mapping[str | None, str]:
    """Return what the clusters of a recording are called by the quotas, which are of one cluster.

    | quotas | usage | is |
    | --- | --- | --- |
    | of one cluster | does not say which cluster | of that |
    | of one that has an address or a snapshot alone | of one cluster, of another name | of that, with a warning |
    """
    if not request.is_unnamed:
        return {None: known}
    names = usage.select("cluster").distinct().limit(MOST_CLUSTERS).toArrow().column("cluster").to_pylist()
    others = [name for name in names if name is not None and name != known]
    if len(others) != 1 or known in names:
        return {None: known}
    warn(f"the usage is of {spell_name(others[0])}, and is compared with the quotas of {spell_name(known)}")
    return {None: known, others[0]: known}


def _nothing(request: HeadroomRequest, known: Sequence[str]) -> str:
    time = time_text(request.since, request.until)
    of = f" of {listed([spell_name(name) for name in known])}" if request.only_chosen else ""
    if time or of:
        return f"has no rows{of}{time}; choose another time or cluster, or record usage first"
    return "has no rows; record usage first, by quotaform usage ingest or record"


def _report(
    request: HeadroomRequest, use: DataFrame, held: HeldQuotas, known: Sequence[str]
) -> tuple[Headroom, Sequence[dict[str, Any]]]:
    """Return what is printed, and the rows of `HEADROOM` about values that limited nothing."""
    counts: Counter[str] = Counter()
    unknown: Counter[str | None] = Counter()
    limited, closest, noisy = Limited(), _First(request.most), _First(request.most)
    for row in read_uses(use):
        limited.add(row)
        status = row["status"] = _status(row)
        counts.update({status.value: 1, "samples": row["samples"]})
        counts["coarse"] += row["is_coarse"] and row["limit"] is not None
        if row["cluster"] not in held or row["cluster"] is None:
            unknown[row["cluster"]] += 1
        if status is not HeadroomStatus.UNLIMITED:
            closest.add(row)
        if status in (HeadroomStatus.THROTTLED, HeadroomStatus.CLOSE) and _is_noisy(row):
            counts["noisy"] += 1
            noisy.add(row)
    if not limited.spans:
        raise bad_table(request.usage, _nothing(request, known))
    idle = sorted(limited.unused(held), key=lambda row: (row["cluster"], row["key"], row["entity_key"]))
    names = ("noisy", "coarse", *(each.value for each in HeadroomStatus))
    report = Headroom(
        usage=request.usage,
        first=min(first for first, _, _ in limited.spans.values()),
        last=max(last for _, last, _ in limited.spans.values()),
        samples=counts["samples"],
        summary=HeadroomSummary(unused=len(idle), **{name: counts[name] for name in names}),
        buckets=closest.uses(),
        noisy=noisy.uses(),
        unused=tuple(
            made_of(row | {"address": row["entity_key"], "value": row["limit"]}, UnusedQuota)
            for row in idle[: request.most]
        ),
        unrecorded=tuple(limited.unrecorded(held)),
        unknown=tuple(
            UnknownCluster(cluster=name, buckets=unknown[name])
            for name in sorted(unknown, key=lambda name: name or "")[:MOST_CLUSTERS]
        ),
    )
    return report, idle


def _status(row: Mapping[str, Any]) -> HeadroomStatus:
    """Return how a bucket stands to its limit, see `quotaform.usage.headroom.headroom`."""
    if row["throttled_s"] > 0:
        return HeadroomStatus.THROTTLED
    if finite_limit(row["key"], row["limit"]) is None:
        return HeadroomStatus.UNLIMITED
    is_close = row["used_ratio"] is not None and row["used_ratio"] >= CLOSE_RATIO
    return HeadroomStatus.CLOSE if is_close else HeadroomStatus.BELOW


def _is_noisy(row: Mapping[str, Any]) -> bool:
    return row["members"] > 1 and row["top_member_share"] is not None and row["top_member_share"] > NOISY_SHARE


class _First(Struct):
    """The first of rows that come in no order: what was throttled longest, then what is closest to its limit."""

    most: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) > 2 * self.most + 1_000:
            self.rows = nsmallest(self.most, self.rows, _place)

    def uses(self) -> tuple[BucketUse, ...]:
        rows = nsmallest(self.most, self.rows, _place)
        return tuple(
            made_of(row | {"source": row["entity_key"], "coarse": row["is_coarse"]}, BucketUse) for row in rows
        )


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    used, names = row["used_ratio"], [row[name] for name in ("cluster", "key", "bucket", "broker")]
    return -row["throttled_s"], used is None, -(used or 0.0), *((name is not None, name or "") for name in names)
