"""What was asked of each bucket, time by time: the recorded series of a bucket on a broker, added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy
from pyspark.sql import Window
from pyspark.sql import functions as f

from quotaform.core.usage.enforcement import ENFORCEMENT, Enforcement
from quotaform.spark.usage.bucket.bucket import buckets, finite_limit, recorded_series
from quotaform.spark.usage.bucket.bucket_rows import RECORDED_LIMIT, Booleans, BucketRows, Floats, Integers
from quotaform.spark.usage.bucket.member import numbered
from quotaform.spark.usage.replay.backlog import Demand, Replay, replay
from quotaform.spark.usage.schemas import MEMBERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPLAYED: Final = ("replayed_limit", RECORDED_LIMIT, "key_number")
"""The columns of `MEMBERS` that a replay needs of each sample's series."""
_ENFORCEMENTS: Final = (Enforcement(), *ENFORCEMENT.values())
"""By `key_number`; the first for keys that this version does not know."""


def members(series: DataFrame, quotas: DataFrame, before: DataFrame) -> DataFrame:
    """Return `schemas.MEMBERS`: the recorded series that a limit holds for, before or after, and their buckets.

    Args:
        series: `recorded`, persisted: they are read several times.
        quotas: `quotaform.spark.schemas.QUOTAS` as they would be.
        before: The same as they are.
    """
    found = buckets(recorded_series(series), quotas, before)
    known = {name: finite_limit(name) for name in ("limit", "least_limit", "before_limit")}
    rows = numbered(series, found.withColumns(known)).withColumn("is_coarse", f.col("is_coarse") | f.col("is_sum"))
    limited = rows.where(f.col("least_limit").isNotNull() | f.col("before_limit").isNotNull())
    bucket = Window.partitionBy("bucket_id")
    is_coarse = f.bool_or("is_coarse").over(bucket)
    # Of parts that cannot be told apart, no one waits longer than all of it would under the least of the limits.
    limit = f.when(is_coarse, f.min("least_limit").over(bucket)).otherwise(f.max("limit").over(bucket))
    number = f.create_map(*(f.lit(each) for place, key in enumerate(ENFORCEMENT) for each in (key, place + 1)))
    return limited.withColumns(
        {"replayed_limit": limit, "key_number": f.coalesce(f.try_element_at(number, f.col("key")), f.lit(0))}
    ).select(*MEMBERS.names)


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedBucket:
    """What was recorded of a bucket on a broker, and what would have happened to it, by time.

    Attributes:
        limit: The limit; NaN if there is none.
        throttle_ms: The largest throttle time of the series; NaN without any.
        is_throttled: Whether requests were throttled while it was recorded.
        is_newly_throttled: Whether some were since the time before: the throttle time of a broker stays for a minute.
    """

    demand: Demand
    limit: float
    enforcement: Enforcement
    replay: Replay
    throttle_ms: Floats
    is_throttled: Booleans
    is_newly_throttled: Booleans


def replayed(rows: BucketRows) -> ReplayedBucket | None:
    """Return what would have happened to a bucket; `None` if no rate was recorded.

    Args:
        rows: With the columns `REPLAYED`.
    """
    limit, key_number = (float(rows.of_series[name][0]) for name in ("replayed_limit", "key_number"))
    throttle = rows.throttle_ms
    is_new = rows.newly_throttled()
    at, rate, window = rows.at, rows.rate, rows.window_s
    starts = rows.starts()
    if starts is not None:
        at, rate = at[starts], rows.summed(rate)
        window, throttle = (numpy.fmax.reduceat(each, starts) for each in (window, throttle))
    has_rate = ~numpy.isnan(rate)
    if not has_rate.all():
        at, is_new = at[has_rate], is_new[has_rate]
        rate, window, throttle = (each[has_rate] for each in (rate, window, throttle))
    if not len(at):
        return None
    rate_high = None if rows.instances is None else rows.instances.rate_high[has_rate]
    demand = Demand(at, rate, window, _pace(at), rate_high)
    enforcement = _ENFORCEMENTS[int(key_number)]
    return ReplayedBucket(
        demand=demand,
        limit=limit,
        enforcement=enforcement,
        replay=replay(demand, limit, enforcement),
        throttle_ms=throttle,
        is_throttled=~numpy.isnan(throttle),
        is_newly_throttled=is_new,
    )


def _pace(at: Integers) -> float:
    """Return the seconds between two samples: of short recordings the mean step, and of others that of the minutes in
    which there are samples, so that gaps do not count; NaN of a single one."""
    if len(at) < 2:
        return float("nan")
    minutes = at // 60_000_000
    number = 1 + int(numpy.count_nonzero(minutes[1:] != minutes[:-1]))
    return min(float(at[-1] - at[0]) / 1e6 / (len(at) - 1), number * 60 / len(at))
