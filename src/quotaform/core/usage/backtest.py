"""What a plan would have throttled, by a recording of usage; `quotaform.spark.usage.replay.backtest` computes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

MOST_IN_PLAN: Final = 10
"""How many buckets of each kind a plan holds and prints; `quotaform usage backtest` has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number, and what it may be at least and at most.

    Attributes:
        value: The estimate; `None` if nothing can be said but the bounds.
        low: The lower bound.
        high: The upper bound.
    """

    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBacktest:
    """What would have happened to one bucket on one broker.

    Attributes:
        broker: The broker; `None` if the limit holds for all of them together.
        bucket: The address of the bucket.
        limit: The limit under the plan; `None` for no limit.
        entity: The address of the entity whose value it is.
        before: The limit without the plan.
        is_changed: Whether the plan changes the limit, or who shares it.
        samples: How many times were recorded.
        recorded_s: For how many seconds they stand.
        throttled_s: Seconds in which requests would have waited.
        first, last: When the first and the last of them waited.
        longest_s: The longest time without an end.
        delay_s: The longest wait, in seconds.
        worst_at: When that was.
        backlog_s: Seconds after the recording until nothing waits any more, if nothing else comes.
        over: The highest rate / limit.
        refused: Connections that would have been refused, each counted once; `None` for other keys.
        recorded_throttled_s: Seconds in which requests were throttled really.
        recorded_delay_ms: The largest average delay then.
        hidden_s: Seconds in which throttling hid a part of the demand.
        is_coarse: Whether the recording cannot tell which part of it is of the bucket.
    """

    cluster: str
    broker: str | None
    key: str
    bucket: str
    limit: float | None
    entity: str | None
    before: float | None
    is_changed: bool
    samples: int
    recorded_s: float
    throttled_s: Estimate
    first: datetime | None
    last: datetime | None
    longest_s: float | None
    delay_s: Estimate
    worst_at: datetime | None
    backlog_s: float | None
    over: float | None
    refused: float | None
    recorded_throttled_s: float
    recorded_delay_ms: float | None
    hidden_s: float
    is_coarse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCounts:
    """How many buckets, counted on each broker.

    Attributes:
        buckets: All of them.
        throttled: Those in which requests would have waited.
        possible: Those in which they may have waited: only the upper bound says so.
        recorded: Those in which requests were throttled really.
        hidden: Those of which throttling hid a part of the demand.
        coarse: Those of which the recording cannot tell which part is theirs, unless it says that nobody waits.
        affected: Those in which requests would or may have waited or did wait: all that `ClusterBacktest.rows` and
            `others` are the first of.
    """

    buckets: int = 0
    throttled: int = 0
    possible: int = 0
    recorded: int = 0
    hidden: int = 0
    coarse: int = 0
    affected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBacktest:
    """What a plan would have throttled on one cluster.

    Attributes:
        usage: The usage table, as it was given.
        first: The time of the first sample; `None` if nothing was recorded.
        last: That of the last one.
        series: How many series were recorded.
        unlimited: How many of them nothing limits, neither before nor after.
        changed: The buckets whose limit the plan changes.
        unchanged: The others.
        rows: The buckets whose limit the plan changes and in which requests would or may have waited or did wait, by
            how long they would have; at most as many as were asked for.
        others: The same of the buckets that the plan leaves alone.
    """

    usage: str
    cluster: str
    plan_id: str
    first: datetime | None
    last: datetime | None
    series: int
    unlimited: int
    changed: BucketCounts
    unchanged: BucketCounts
    rows: tuple[BucketBacktest, ...] = ()
    others: tuple[BucketBacktest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What plans would have throttled.

    Attributes:
        usage: The usage table, as it was given.
        unknown: Clusters of which something is recorded and that were not tested; at most 100.
    """

    usage: str
    clusters: tuple[ClusterBacktest, ...]
    unknown: tuple[str, ...] = ()
