"""What buckets used, on DataFrames: a row for each bucket and broker, from which the quotas of a cluster are sized."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import date, datetime
from functools import partial
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import numpy
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, LongType, StructField

from quotaform.model.quota_key import QUOTA_WINDOW_S
from quotaform.resolve.spark_quotas import struct
from quotaform.usage.bucket.rows import RECORDED_LIMIT, BucketRows, per_bucket, starts_of
from quotaform.usage.bucket.spark import finite_limit
from quotaform.usage.recommend.demand import (
    DAY_S,
    HOUR_S,
    HOURS_OF_DAY,
    BrokerRecorded,
    BucketDemand,
    BusiestDay,
    Recorded,
    busiest_day,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_BUSIEST: Final = struct(
    "basis double",
    "day date",
    "is_weekly boolean",
    "weekday_days long",
    "next_basis outlier double",
    "outlier_day date",
)
_USED: Final = (
    StructField("busiest", _BUSIEST),
    *struct("samples throttled long"),
    StructField("hours", ArrayType(LongType())),
)
_TIMES: Final = ("first", "begin", "last", "last_used")
_OF_DEMAND: Final = tuple(field.name for field in fields(BucketDemand) if field.name not in ("busiest", "hours"))

BUCKET_USE: Final = struct(
    "cluster key bucket broker entity_key string",
    "limit double",
    "is_coarse boolean",
    *_USED,
    "first begin last last_used timestamp",
)
"""What each bucket used of each broker.

| column | content |
| --- | --- |
| busiest | the day with the highest percentile, see `BusiestDay`; null without a rate |
| samples, throttled | times with a rate, and those of them at which requests were newly throttled |
| hours | the hours (UTC) with a sample: a bit for each of a day, and above these the days since 1970-01-01 |
| first, last, last_used | times: of the first and the last sample, and of the last one with a rate above 0 |
| begin | when the window of the first sample began |
"""


def bucket_use(usage: DataFrame, found: DataFrame, percentile: float, outlier_days: int = 0) -> DataFrame:
    """Return `BUCKET_USE`.

    A series counts once per time, however often it is there, and the series of a bucket are added up per time. Of
    several brokers that report a series whose limit is one of the cluster, the highest rate counts. Rates that are no
    numbers from 0 on are left out. Samples are shuffled once, as numbers.

    `found`: `quotaform.usage.bucket.spark.numbered` of its series, persisted: it is read three times. `percentile`: of
    the rates of a day, above 0 and up to 100. `outlier_days`: how many of the highest days of each weekday are left
    out.
    """
    limited = found.withColumn(RECORDED_LIMIT, finite_limit())
    schema = struct("bucket_id long", *_USED, "first begin last last_used long")
    used = per_bucket(usage, limited, (RECORDED_LIMIT,), partial(_used, percentile, outlier_days), schema)
    buckets = found.groupBy("bucket_id").agg(
        *(f.first(name).alias(name) for name in ("cluster", "key", "bucket", "entity_key", "limit")),
        f.first("bucket_broker").alias("broker"),
        f.bool_or("is_coarse").alias("is_coarse"),
    )
    times = {name: f.timestamp_micros(name) for name in _TIMES}
    return used.withColumns(times).join(f.broadcast(buckets), "bucket_id").select(*BUCKET_USE.names)


def _used(percentile: float, outlier_days: int, rows: BucketRows) -> dict[str, Any]:
    """Return what a bucket used of a broker."""
    at, rate = rows.at, rows.rate
    day, hour = at // (DAY_S * 1_000_000), at // (HOUR_S * 1_000_000) % HOURS_OF_DAY
    begins = starts_of(day)
    bases: dict[date, float] = {}
    for begin, end in pairwise((*begins, len(at))):
        own = rate[begin:end]
        rates = numpy.sort(own[~numpy.isnan(own)])
        if len(rates):
            bases[numpy.datetime64(int(day[begin]), "D").item()] = float(
                rates[ceil(round(len(rates) * percentile / 100, 6)) - 1]
            )
    busiest = busiest_day(bases, outlier_days)
    used = at[rate > 0]
    return {
        "busiest": [None if busiest is None else asdict(busiest)],
        "samples": numpy.count_nonzero(~numpy.isnan(rate)),
        "throttled": numpy.count_nonzero(rows.is_newly_throttled & ~numpy.isnan(rate)),
        "hours": [(day[begins] << HOURS_OF_DAY | numpy.bitwise_or.reduceat(1 << hour, begins)).tolist()],
        "first": at[0],
        "begin": at[0] - round((QUOTA_WINDOW_S if numpy.isnan(rows.window_s[0]) else rows.window_s[0]) * 1e6),
        "last": at[-1],
        "last_used": used[-1] if len(used) else None,
    }


def read_demands(used: pyarrow.Table, unused_after_days: float) -> tuple[list[BucketDemand], dict[str, Recorded]]:
    """Return what each bucket of a cluster used, and when each quota key was recorded.

    `used`: the rows of `BUCKET_USE` of the cluster. `unused_after_days`: after how many days without use a quota counts
    as unused.
    """
    demands: list[BucketDemand] = []
    recorded = {}
    for key, of_key in _grouped(used.to_pylist(), "key").items():
        last = max(row["last"] for row in of_key)
        earliest = _hour(last) - ceil(unused_after_days * HOURS_OF_DAY) + 1
        brokers = {
            broker: BrokerRecorded(
                first=min(row["first"] for row in own),
                recent_hours=_hours_from(earliest, _hours_by_day(own)),
                begin=min(row["begin"] for row in own),
            )
            for broker, own in _grouped(of_key, "broker").items()
        }
        every = _hours_by_day(of_key)
        recorded[key] = Recorded(last=last, brokers=brokers)
        for row in of_key:
            same = {name: row[name] for name in _OF_DEMAND}
            busiest = None if row["busiest"] is None else BusiestDay(**row["busiest"])
            since = _hours_from(_hour(row["first"]), every)
            demands.append(BucketDemand(**same, busiest=busiest, hours=since))
    return demands, recorded


def _grouped(rows: Iterable[dict[str, Any]], name: str) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return found


def _hour(moment: datetime) -> int:
    """Return the hour since 1970."""
    return int(moment.timestamp() // HOUR_S)


def _hours_by_day(rows: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return the hours with samples of any of the rows, as bits of each day."""
    found: dict[int, int] = defaultdict(int)
    for row in rows:
        for each in row["hours"]:
            found[each >> HOURS_OF_DAY] |= each & (1 << HOURS_OF_DAY) - 1
    return found


def _hours_from(hour: int, by_day: Mapping[int, int]) -> int:
    """Return how many hours there are from one on."""
    first, rest = divmod(hour, HOURS_OF_DAY)
    return sum((bits >> rest * (day == first)).bit_count() for day, bits in by_day.items() if day >= first)
