"""What a plan would have throttled, by a recording of usage; `quotaform.usage.replay.spark` computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from quotaform.model.moment import read_moment, spell_moment
from quotaform.model.records.document import USAGE_BACKTEST, envelope, indented, json_number
from quotaform.model.records.field import load_number
from quotaform.model.records.schema import (
    MOMENT,
    Node,
    boolean,
    count,
    document,
    items,
    maybe_text,
    number,
    quota_key,
    record,
    ref,
    text,
)
from quotaform.model.records.validator import readable

MOST_IN_PLAN: Final = 10
"""How many buckets of each kind a plan holds and prints; `quotaform usage backtest` has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number, and what it may be at least and at most."""

    value: float | None  # The estimate; `None` if nothing can be said but the bounds
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBacktest:
    """What would have happened to one bucket on one broker."""

    cluster: str
    broker: str | None  # The broker; `None` if the limit holds for all of them together
    key: str
    bucket: str
    limit: float | None  # The limit under the plan; `None` for no limit
    entity: str | None  # The address of the entity whose value it is
    before: float | None  # The limit without the plan
    is_changed: bool  # Whether the plan changes the limit, or who shares it
    samples: int  # How many times were recorded
    recorded_s: float  # For how many seconds they stand
    throttled_s: Estimate  # Seconds in which requests would have waited
    first: datetime | None  # When the first and the last of them waited
    last: datetime | None
    longest_s: float | None  # The longest time without an end
    delay_s: Estimate  # The longest wait, in seconds
    worst_at: datetime | None
    backlog_s: float | None  # Seconds after the recording until nothing waits any more, if nothing else comes
    over: float | None  # The highest rate / limit
    refused: float | None  # Connections that would have been refused, each counted once; `None` for other keys
    recorded_throttled_s: float  # Seconds in which requests were throttled really
    recorded_delay_ms: float | None  # The largest average delay then
    hidden_s: float  # Seconds in which throttling hid a part of the demand
    is_coarse: bool  # Whether the recording cannot tell which part of it is of the bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCounts:
    """How many buckets, counted on each broker."""

    buckets: int = 0
    throttled: int = 0  # Those in which requests would have waited
    possible: int = 0  # Those in which they may have waited: only the upper bound says so
    recorded: int = 0  # Those in which requests were throttled really
    hidden: int = 0  # Those of which throttling hid a part of the demand
    coarse: int = 0  # Those of which the recording cannot tell which part is theirs, unless none of it waits
    # Those in which requests would or may have waited or did wait: all that `ClusterBacktest.rows` and `others` are the
    # first of.
    affected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBacktest:
    """What a plan would have throttled on one cluster."""

    usage: str  # The usage table, as it was given
    cluster: str
    plan_id: str
    first: datetime | None  # The time of the first sample; `None` if nothing was recorded
    last: datetime | None
    series: int
    unlimited: int  # How many of them nothing limits, neither before nor after
    changed: BucketCounts  # The buckets whose limit the plan changes
    unchanged: BucketCounts
    # The buckets whose limit the plan changes and in which requests would or may have waited or did wait, by how long
    # they would have; at most as many as were asked for.
    rows: tuple[BucketBacktest, ...] = ()
    others: tuple[BucketBacktest, ...] = ()  # The same of the buckets that the plan leaves alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What plans would have throttled."""

    usage: str  # The usage table, as it was given
    clusters: tuple[ClusterBacktest, ...]
    unknown: tuple[str, ...] = ()  # Clusters of which something is recorded and that were not tested; at most 100


def dump_backtest(result: Backtest) -> str:
    """Return what plans would have throttled, as JSON."""
    fields = {
        "usage": result.usage,
        "clusters": [dump_cluster_backtest(each) for each in result.clusters],
        "not_tested": list(result.unknown),
    }
    return indented(envelope(USAGE_BACKTEST, fields))


def dump_cluster_backtest(found: ClusterBacktest) -> dict[str, Any]:
    """Return the backtest of one plan, as a plan file has it."""
    return {
        "usage": found.usage,
        "cluster": found.cluster,
        "plan_id": found.plan_id,
        "first": _moment(found.first),
        "last": _moment(found.last),
        "series": found.series,
        "unlimited": found.unlimited,
        "changed": {**asdict(found.changed), "rows": [_dump_bucket(row) for row in found.rows]},
        "unchanged": {**asdict(found.unchanged), "rows": [_dump_bucket(row) for row in found.others]},
    }


def _dump_bucket(row: BucketBacktest) -> dict[str, Any]:
    return {
        "broker": row.broker,
        "key": row.key,
        "bucket": row.bucket,
        "limit": json_number(row.limit),
        "entity": row.entity,
        "before": json_number(row.before),
        "samples": row.samples,
        "recorded_s": _number(row.recorded_s),
        "throttled_s": _dump_estimate(row.throttled_s),
        "first_throttled": _moment(row.first),
        "last_throttled": _moment(row.last),
        "longest_s": _number(row.longest_s),
        "delay_s_max": _dump_estimate(row.delay_s),
        "worst_at": _moment(row.worst_at),
        "backlog_s": _number(row.backlog_s),
        "over_max": _number(row.over),
        "refused": _number(row.refused),
        "recorded_throttled_s": _number(row.recorded_throttled_s),
        "recorded_throttle_ms_max": _number(row.recorded_delay_ms),
        "hidden_s": _number(row.hidden_s),
        "coarse": row.is_coarse,
    }


def _dump_estimate(found: Estimate) -> dict[str, Any]:
    return {"estimate": _number(found.value), "low": _number(found.low), "high": _number(found.high)}


def load_cluster_backtest(item: Mapping[str, Any]) -> ClusterBacktest:
    """Return the backtest of a plan as `dump_cluster_backtest` had it.

    Raises `ShapeError` if it holds something that this version does not write.
    """
    with readable("backtest"):
        cluster = item["cluster"]
        return ClusterBacktest(
            usage=item["usage"],
            cluster=cluster,
            plan_id=item["plan_id"],
            first=_load_moment(item["first"]),
            last=_load_moment(item["last"]),
            series=int(item["series"]),
            unlimited=int(item["unlimited"]),
            changed=_load_counts(item["changed"]),
            unchanged=_load_counts(item["unchanged"]),
            rows=tuple(_load_bucket(cluster, row, is_changed=True) for row in item["changed"]["rows"]),
            others=tuple(_load_bucket(cluster, row, is_changed=False) for row in item["unchanged"]["rows"]),
        )


def _load_counts(item: Mapping[str, Any]) -> BucketCounts:
    names = set(BucketCounts.__dataclass_fields__) - {"affected"}
    counts = {name: int(item[name]) for name in names}
    # An earlier plan file does not have this count; it is no smaller than these.
    least = max(counts["throttled"] + counts["possible"], counts["recorded"], len(item["rows"]))
    return BucketCounts(**counts, affected=int(item.get("affected", least)))


def _load_bucket(cluster: str, item: Mapping[str, Any], *, is_changed: bool) -> BucketBacktest:
    return BucketBacktest(
        cluster=cluster,
        broker=item["broker"],
        key=item["key"],
        bucket=item["bucket"],
        limit=load_number(item["limit"]),
        entity=item["entity"],
        before=load_number(item["before"]),
        is_changed=is_changed,
        samples=int(item["samples"]),
        recorded_s=float(item["recorded_s"]),
        throttled_s=_load_estimate(item["throttled_s"]),
        first=_load_moment(item["first_throttled"]),
        last=_load_moment(item["last_throttled"]),
        longest_s=load_number(item["longest_s"]),
        delay_s=_load_estimate(item["delay_s_max"]),
        worst_at=_load_moment(item["worst_at"]),
        backlog_s=load_number(item["backlog_s"]),
        over=load_number(item["over_max"]),
        refused=load_number(item["refused"]),
        recorded_throttled_s=float(item["recorded_throttled_s"]),
        recorded_delay_ms=load_number(item["recorded_throttle_ms_max"]),
        hidden_s=float(item["hidden_s"]),
        is_coarse=bool(item["coarse"]),
    )


def _load_estimate(item: Mapping[str, Any]) -> Estimate:
    return Estimate(value=load_number(item["estimate"]), low=float(item["low"]), high=float(item["high"]))


def _number(value: float | None) -> Any:
    """Return a measured number to the thousandth; the bounds of what it says are far wider."""
    return None if value is None else json_number(round(value, 3))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)


def _load_moment(text: str | None) -> datetime | None:
    return None if text is None else read_moment(text)


def usage_backtest() -> tuple[Node, dict[str, Node]]:
    """Return the schema of backtests and its definitions."""
    fields = {
        "usage": text("The usage table, as given."),
        "clusters": items("What the plan of each cluster would have throttled.", ref("backtest")),
        "not_tested": items(
            "Clusters of which usage is recorded and that were not tested, at most 100; the empty name is that of rows "
            "without a cluster.",
            {"type": "string"},
        ),
    }
    schema = document(USAGE_BACKTEST, "The result of quotaform usage backtest.", fields)
    return schema, backtest_definitions()


def backtest_definitions() -> dict[str, Node]:
    """Return the definition of a backtest and those that it refers to."""
    return {
        "backtest": record(
            "What a plan would have throttled on a cluster, by recorded usage.",
            {
                "usage": text("The usage table, as given."),
                "cluster": text("The name of the cluster."),
                "plan_id": text("The id of the plan."),
                "first": _moment_node("The time of the first sample; null if nothing is recorded."),
                "last": _moment_node("The time of the last sample; null if nothing is recorded."),
                "series": count("Recorded series."),
                "unlimited": count("Recorded series that nothing limits, neither before nor after."),
                "changed": ref("backtest_buckets"),
                "unchanged": ref("backtest_buckets"),
            },
        ),
        "backtest_buckets": record(
            "The buckets whose limit the plan changes, or the others; each is counted per broker.",
            {
                "buckets": count("All of them."),
                "throttled": count("Those in which requests would have waited."),
                "possible": count("Those in which only the upper bound says so."),
                "recorded": count("Those in which requests were throttled really."),
                "hidden": count("Those of which throttling hid a part of the demand."),
                "coarse": count("Those of which the recording cannot tell which part is theirs."),
                "affected": count("Those in which requests would or may have waited, or did wait."),
                "rows": items(
                    "The first of them in which requests would or may have waited, or did wait; in a plan at most "
                    f"{MOST_IN_PLAN}.",
                    ref("backtest_bucket"),
                ),
            },
            optional=["affected"],
        ),
        "backtest_bucket": record(
            "What would have happened to a bucket on a broker.",
            {
                "broker": maybe_text("The broker; null if the limit is one of the cluster."),
                "key": quota_key(),
                "bucket": text("The address of the bucket."),
                "limit": ref("maybe_value"),
                "entity": maybe_text("The address of the entity whose value the limit is, or null."),
                "before": ref("maybe_value"),
                "samples": count("How many times with a rate were recorded."),
                "recorded_s": number("For how many seconds they stand."),
                "throttled_s": _estimate_node("Seconds in which requests would have waited."),
                "first_throttled": _moment_node("The first time at which they would have waited, or null."),
                "last_throttled": _moment_node("The last time, or null."),
                "longest_s": _maybe_number("The longest time without an end, in seconds; null if there is none."),
                "delay_s_max": _estimate_node("The longest wait, in seconds."),
                "worst_at": _moment_node("When that was, or null."),
                "backlog_s": _maybe_number(
                    "Seconds after the recording until nothing waits any more, if nothing else comes, or null."
                ),
                "over_max": _maybe_number("The highest rate / limit; null without a limit."),
                "refused": _maybe_number("Connections that would have been refused; null for other keys."),
                "recorded_throttled_s": number("Seconds in which requests were throttled really."),
                "recorded_throttle_ms_max": _maybe_number("The largest average delay then, in ms, or null."),
                "hidden_s": number("Seconds in which throttling hid a part of the demand."),
                "coarse": boolean("Whether the recording cannot tell which part of it is of the bucket."),
            },
        ),
    }


def _estimate_node(description: str) -> Node:
    return record(
        description,
        {
            "estimate": _maybe_number("The estimate; null if there are only bounds."),
            "low": number("The lower bound."),
            "high": number("The upper bound."),
        },
    )


def _maybe_number(description: str) -> Node:
    return {"description": description, "type": ["number", "null"], "minimum": 0}


def _moment_node(description: str) -> Node:
    return maybe_text(f"{description} ISO 8601 in UTC.", pattern=MOMENT)
