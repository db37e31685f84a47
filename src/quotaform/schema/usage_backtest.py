"""The schema of backtests, alone and in a plan file."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.backtest import MOST_IN_PLAN
from quotaform.model.document_kind import USAGE_BACKTEST
from quotaform.schema.definition import document, quota_key
from quotaform.schema.node import Node, boolean, count, items, maybe_text, record, ref, text

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"


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
                "first": _moment("The time of the first sample; null if nothing is recorded."),
                "last": _moment("The time of the last sample; null if nothing is recorded."),
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
                "recorded_s": _number("For how many seconds they stand."),
                "throttled_s": _estimate("Seconds in which requests would have waited."),
                "first_throttled": _moment("The first time at which they would have waited, or null."),
                "last_throttled": _moment("The last time, or null."),
                "longest_s": _maybe_number("The longest time without an end, in seconds; null if there is none."),
                "delay_s_max": _estimate("The longest wait, in seconds."),
                "worst_at": _moment("When that was, or null."),
                "backlog_s": _maybe_number(
                    "Seconds after the recording until nothing waits any more, if nothing else comes, or null."
                ),
                "over_max": _maybe_number("The highest rate / limit; null without a limit."),
                "refused": _maybe_number("Connections that would have been refused; null for other keys."),
                "recorded_throttled_s": _number("Seconds in which requests were throttled really."),
                "recorded_throttle_ms_max": _maybe_number("The largest average delay then, in ms, or null."),
                "hidden_s": _number("Seconds in which throttling hid a part of the demand."),
                "coarse": boolean("Whether the recording cannot tell which part of it is of the bucket."),
            },
        ),
    }


def _estimate(description: str) -> Node:
    return record(
        description,
        {
            "estimate": _maybe_number("The estimate; null if there are only bounds."),
            "low": _number("The lower bound."),
            "high": _number("The upper bound."),
        },
    )


def _number(description: str) -> Node:
    return {"description": description, "type": "number", "minimum": 0}


def _maybe_number(description: str) -> Node:
    return {"description": description, "type": ["number", "null"], "minimum": 0}


def _moment(description: str) -> Node:
    return maybe_text(f"{description} ISO 8601 in UTC.", pattern=_MOMENT)
