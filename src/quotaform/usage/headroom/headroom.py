"""How close clients are to their quotas, as it is written and printed; docs/usage-headroom.md has the terms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import field

from quotaform.model.entity import spell_name
from quotaform.model.records.record import Address, ClusterName, Count, Moment, QuotaKeyName, Record, about
from quotaform.model.text import inert, listed
from quotaform.report.report import Bar, Cell, Coloured, Column, ColumnKind, Columns, Number, Report, Table, sections_of
from quotaform.report.text import counted
from quotaform.usage.cells import ALL_ROWS, BUCKET_COLUMNS, bucket_cells, limit_cell, rate_cell, span_cell

CLOSE_RATIO: Final = 0.8
"""A bucket is close to its limit when p99 of its rates, or its rate at a moment, is at least this part of it."""


class HeadroomStatus(StrEnum):
    """How a bucket stands to its limit; the most severe first."""

    THROTTLED = "throttled"
    CLOSE = "close"
    BELOW = "below"
    UNLIMITED = "unlimited"


Rate: TypeAlias = Annotated[float | None, about("A rate in the unit of the key, or null without one.")]


class BucketUse(Record):
    """What those who share a limit used, on one broker."""

    cluster: Annotated[str | None, about("The name of the cluster; null if the recording does not say.")]
    broker: Annotated[str | None, about("The broker; null if the limit is one of the cluster, or if it is not known.")]
    key: QuotaKeyName
    bucket: Annotated[str, about("The address of those who share the limit.")]
    entity_key: Annotated[str | None, about("The address of the entity whose value the limit is, or null.")] = field(
        name="source"
    )
    status: Annotated[
        HeadroomStatus,
        about("throttled: while it was recorded; close: p99 is at least 80 % of the limit; below: less; unlimited."),
    ]
    limit: Rate
    p50: Rate
    p95: Rate
    p99: Rate
    max: Rate
    used_ratio: Annotated[float | None, about("p99 / limit, or null.")]
    samples: Annotated[Count, about("How many times with a rate were recorded.")]
    first: Annotated[Moment, about("The first time.")]
    last: Annotated[Moment, about("The last one.")]
    recorded_s: Annotated[float, about("How many seconds the samples stand for.")]
    throttled_s: Annotated[float, about("In how many of them requests were throttled.")]
    throttle_ms_max: Annotated[float | None, about("The longest average delay, or null.")]
    members: Annotated[Count, about("How many recorded series share the limit.")]
    top_member: Annotated[str | None, about("The address of the one that uses most, or null.")]
    top_member_share: Annotated[float | None, about("Its part of what they use, or null.")]
    is_coarse: Annotated[bool, about("Whether the bucket used at most what is shown.")] = field(name="coarse")


class UnusedQuota(Record):
    """A value that limited nothing that was recorded."""

    cluster: ClusterName
    entity_key: Address = field(name="address")
    key: QuotaKeyName
    value: Annotated[float, about("The value.")]
    recorded_s: Annotated[float, about("For how many seconds, at least, the key was recorded on the cluster.")]
    first: Annotated[Moment, about("When this recording begins.")]
    last: Annotated[Moment, about("When it ends.")]


class UnrecordedKey(Record):
    """A quota key of a cluster that has values, of which nothing was recorded."""

    cluster: ClusterName
    key: QuotaKeyName
    values: Annotated[Count, about("How many values it has.")]


class UnknownCluster(Record):
    """A cluster that was recorded, and whose quotas are not known."""

    cluster: Annotated[str | None, about("Its name, or null.")]
    buckets: Annotated[Count, about("How many buckets were recorded of it.")]


class HeadroomSummary(Record):
    """Numbers of buckets, per broker, and of values that were not used."""

    throttled: Annotated[Count, about("Buckets that were throttled while they were recorded.")]
    close: Annotated[Count, about("Other buckets whose p99 is at least 80 % of the limit.")]
    below: Annotated[Count, about("Other buckets with a limit.")]
    unlimited: Annotated[Count, about("Buckets without a limit, or whose limit is not known.")]
    noisy: Annotated[
        Count, about("Buckets that were throttled or are close, of which one of several has more than half.")
    ]
    unused: Annotated[Count, about("Values that limited nothing that was recorded.")]
    coarse: Annotated[Count, about("Buckets with a limit that used at most what is shown.")]

    @property
    def total(self) -> int:
        """How many buckets were recorded, per broker."""
        return self.throttled + self.close + self.below + self.unlimited


class Headroom(Record, document="usage-headroom"):
    """The result of quotaform usage headroom."""

    usage: Annotated[str, about("The usage table, as given.")]
    first: Annotated[Moment, about("The first time.")]
    last: Annotated[Moment, about("The last one.")]
    samples: Annotated[Count, about("How many samples there are.")]
    summary: Annotated[HeadroomSummary, about("How many there are of what; the lists have the first of them.")]
    buckets: Annotated[
        tuple[BucketUse, ...],
        about("The buckets closest to their limits, the most severe first; as many as were asked for."),
    ]
    noisy: Annotated[tuple[BucketUse, ...], about("Buckets with a noisy neighbour; as many as were asked for.")]
    unused: Annotated[tuple[UnusedQuota, ...], about("Values that limited nothing; as many as were asked for.")]
    unrecorded: Annotated[tuple[UnrecordedKey, ...], about("Quota keys that cannot be judged.")]
    unknown: Annotated[tuple[UnknownCluster, ...], about("Clusters without known quotas; the first 100.")] = field(
        name="unknown_clusters"
    )


_COLUMNS: Final[Columns] = (
    *BUCKET_COLUMNS, "status", "used", "chart", "p50", "p95", "p99", "max", "limit", "throttled",
    Column("recorded", ColumnKind.PAGE),
)  # fmt: skip
_UNUSED: Final[Columns] = (
    *(Column(name, ColumnKind.NAME) for name in ("entity", "cluster", "key")),
    "value",
    "recorded for",
)
_COLOURS: Final = {HeadroomStatus.THROTTLED: "red", HeadroomStatus.CLOSE: "yellow"}
_MOST_NAMES: Final = 5


def headroom_report(found: Headroom) -> Report:
    """Return how close clients are to their quotas; the last line says how many are."""
    counts = found.summary
    total = counts.total - counts.unlimited
    first, last = (f"{at.astimezone(UTC):%Y-%m-%d %H:%M}" for at in (found.first, found.last))
    span = f"{first} to {last} UTC, {counted(found.samples, 'sample')}"
    # The share of a limit at the right edge of a bar.
    scale = min(max([1.1, *((each.max or 0.0) / each.limit for each in found.buckets if each.limit)]), 2.5)
    rows = tuple(_row(each, scale) for each in found.buckets)
    values = []
    for each in found.unused:
        names = inert(each.entity_key), spell_name(each.cluster), inert(each.key)
        values.append((*names, limit_cell(each.key, each.value), span_cell(each.recorded_s)))
    title = f"Unused values, which limited no recorded client ({counts.unused:,})"
    statuses = ", ".join(f"{getattr(counts, status.value):,} {status.value}" for status in HeadroomStatus)
    return Report(
        title="Headroom of client quotas",
        about=(f"Usage {inert(found.usage)}: {span}",),
        sections=sections_of(
            Table("Buckets, the closest to their limits first", _COLUMNS, rows, total=total, hint=ALL_ROWS),
            Table(title, _UNUSED, tuple(values), total=counts.unused, hint=ALL_ROWS, is_folded=True),
        ),
        nothing="Nothing that was recorded has a limit.",
        notes=tuple(_notes(found)),
        total=f"Headroom: {statuses}, of {counted(counts.total, 'bucket')}; {counted(counts.unused, 'unused value')}.",
    )


def _row(each: BucketUse, scale: float) -> tuple[Cell, ...]:
    used, limit, key = each.used_ratio, each.limit, each.key
    low, high = ((rate or 0.0) / limit if limit else None for rate in (each.p50, each.max))
    is_severe = each.status is HeadroomStatus.THROTTLED
    bar = Bar(value=used or 0.0, scale=scale, low=low, high=high, mark=1.0, is_severe=is_severe)
    place = bucket_cells(each.bucket, each.cluster, each.broker, key)
    status = Coloured(each.status.value, _COLOURS.get(each.status))
    share = "-" if used is None else f"{'≤ ' if each.is_coarse else ''}{used:,.0%}"
    part = Number(share, -1.0 if used is None else used)
    rates = (rate_cell(key, rate, limit) for rate in (each.p50, each.p95, each.p99, each.max))
    spans = span_cell(each.throttled_s), span_cell(each.recorded_s)
    return (*place, status, part, bar, *rates, limit_cell(key, limit), *spans)


def _notes(found: Headroom) -> Iterator[str]:
    """Yield who is noisy, and what the recording does not tell, a sentence each."""
    for each in found.noisy:
        share, others = f"{each.top_member_share or 0.0:.0%}", counted(each.members - 1, "other")
        bucket, cluster, broker, key = bucket_cells(each.bucket, each.cluster, each.broker, each.key)
        where = ((cluster, each.cluster), (f"broker {broker}", each.broker))
        place = ", ".join(part for part, name in where if name is not None)
        of = f"{key} of {bucket}" + (f" ({place})" if place else "")
        yield f"Noisy neighbour: {each.top_member} uses {share} of {of}, shared with {others}."
    if left := found.summary.noisy - len(found.noisy):
        yield f"And {left:,} more noisy neighbours."
    if found.unknown:
        number = counted(sum(each.buckets for each in found.unknown), "bucket")
        clusters = [each.cluster for each in found.unknown]
        named = ["rows without a cluster" if name is None else f"cluster {spell_name(name)}" for name in clusters]
        names = listed(named, _MOST_NAMES)
        yield f"{number} of {names}: recorded, but the quotas of the cluster are not known."
    if found.summary.coarse:
        yield f"{counted(found.summary.coarse, 'bucket')} recorded too coarsely: at most what is shown was used."
    for key in dict.fromkeys(each.key for each in found.unrecorded):
        rows = [each for each in found.unrecorded if each.key == key]
        number = counted(sum(each.values for each in rows), "value")
        names = listed([spell_name(each.cluster) for each in rows], _MOST_NAMES)
        yield f"{number} of {inert(key)} on {names}: nothing was recorded of this quota key."
