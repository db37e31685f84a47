"""What a plan would have throttled, by a recording of usage; `quotaform.usage.replay.spark` computes it."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from quotaform.model.records.document import USAGE_BACKTEST
from quotaform.model.records.field import QuotaKeyName
from quotaform.model.records.record import Count, Moment, Record, about

MOST_IN_PLAN: Final = 10
"""How many buckets of each kind a plan holds and prints; `quotaform usage backtest` has all of them."""


class Estimate(Record):
    """A number, and what it may be at least and at most."""

    value: Annotated[float | None, about("The estimate; null if there are only bounds.")] = field(name="estimate")
    low: Annotated[float, about("The lower bound.")]
    high: Annotated[float, about("The upper bound.")]


class BucketBacktest(Record):
    """What would have happened to a bucket on a broker."""

    broker: Annotated[str | None, about("The broker; null if the limit is one of the cluster.")]
    key: QuotaKeyName
    bucket: Annotated[str, about("The address of the bucket.")]
    limit: Annotated[float | None, about("The limit under the plan, or null.")]
    entity: Annotated[str | None, about("The address of the entity whose value the limit is, or null.")]
    before: Annotated[float | None, about("The limit without the plan, or null.")]
    samples: Annotated[Count, about("How many times with a rate were recorded.")]
    recorded_s: Annotated[float, about("For how many seconds they stand.")]
    throttled_s: Annotated[Estimate, about("Seconds in which requests would have waited.")]
    first: Annotated[Moment | None, about("The first time at which they would have waited, or null.")] = field(
        name="first_throttled"
    )
    last: Annotated[Moment | None, about("The last time, or null.")] = field(name="last_throttled")
    longest_s: Annotated[float | None, about("The longest time without an end, in seconds; null if there is none.")]
    delay_s: Annotated[Estimate, about("The longest wait, in seconds.")] = field(name="delay_s_max")
    worst_at: Annotated[Moment | None, about("When that was, or null.")]
    backlog_s: Annotated[
        float | None, about("Seconds after the recording until nothing waits any more, if nothing else comes, or null.")
    ]
    over: Annotated[float | None, about("The highest rate / limit; null without a limit.")] = field(name="over_max")
    refused: Annotated[float | None, about("Connections that would have been refused; null for other keys.")]
    recorded_throttled_s: Annotated[float, about("Seconds in which requests were throttled really.")]
    recorded_delay_ms: Annotated[float | None, about("The largest average delay then, in ms, or null.")] = field(
        name="recorded_throttle_ms_max"
    )
    hidden_s: Annotated[float, about("Seconds in which throttling hid a part of the demand.")]
    is_coarse: Annotated[bool, about("Whether the recording cannot tell which part of it is of the bucket.")] = field(
        name="coarse"
    )


class Buckets(Record):
    """The buckets whose limit the plan changes, or the others; each is counted per broker."""

    buckets: Annotated[Count, about("All of them.")] = 0
    throttled: Annotated[Count, about("Those in which requests would have waited.")] = 0
    possible: Annotated[Count, about("Those in which only the upper bound says so.")] = 0
    recorded: Annotated[Count, about("Those in which requests were throttled really.")] = 0
    hidden: Annotated[Count, about("Those of which throttling hid a part of the demand.")] = 0
    coarse: Annotated[
        Count, about("Those of which the recording cannot tell which part is theirs, unless none of it waits.")
    ] = 0
    affected: Annotated[Count, about("Those in which requests would or may have waited, or did wait.")] = 0
    rows: Annotated[
        tuple[BucketBacktest, ...],
        about(f"The first of the affected, by how long they would have waited; in a plan at most {MOST_IN_PLAN}."),
    ] = ()


class ClusterBacktest(Record):
    """What a plan would have throttled on a cluster, by recorded usage."""

    usage: Annotated[str, about("The usage table, as given.")]
    cluster: Annotated[str, about("The name of the cluster.")]
    plan_id: Annotated[str, about("The id of the plan.")]
    first: Annotated[Moment | None, about("The time of the first sample; null if nothing is recorded.")]
    last: Annotated[Moment | None, about("The time of the last sample; null if nothing is recorded.")]
    series: Annotated[Count, about("Recorded series.")]
    unlimited: Annotated[Count, about("Recorded series that nothing limits, neither before nor after.")]
    changed: Annotated[Buckets, about("The buckets whose limit the plan changes, or who shares it.")]
    unchanged: Annotated[Buckets, about("The other buckets.")]


class Backtest(Record, document=USAGE_BACKTEST):
    """The result of quotaform usage backtest."""

    usage: Annotated[str, about("The usage table, as given.")]
    clusters: Annotated[tuple[ClusterBacktest, ...], about("What the plan of each cluster would have throttled.")]
    unknown: Annotated[
        tuple[str, ...],
        about(
            "Clusters of which usage is recorded and that were not tested, at most 100; the empty name is that of rows "
            "without a cluster."
        ),
    ] = field(default=(), name="not_tested")
