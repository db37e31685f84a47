"""The schema of right-sized quotas."""

from __future__ import annotations

from typing import Final

from quotaform.core.usage.sizing.recommendation import Action
from quotaform.model.document_kind import USAGE_RECOMMEND
from quotaform.schema.definition import document, quota_key
from quotaform.schema.node import Node, boolean, choice, count, items, mapping, maybe, maybe_text, record, ref, text
from quotaform.schema.usage_backtest import backtest_definitions

_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$"
_CLUSTER: Final = "The name of the cluster."
_COUNTS: Final = {
    Action.CREATE: "Values that are proposed for entities that have none.",
    Action.UPDATE: "Values that are to change.",
    Action.DELETE: "Values that are to be removed, as nobody used them.",
    Action.KEEP: "Values that fit.",
    Action.NONE: "Values for which nothing is proposed.",
}


def usage_recommend() -> tuple[Node, dict[str, Node]]:
    """Return the schema of right-sized quotas and its definitions."""
    row = record(
        "What is proposed for a quota key of an entity.",
        {
            "cluster": text(_CLUSTER),
            "address": ref("address"),
            "entity": ref("entity"),
            "key": quota_key(),
            "action": choice(
                "create, update, delete; keep: the value fits; none: the reason says what is missing.",
                [action.value for action in Action],
            ),
            "before": ref("maybe_value"),
            "after": ref("maybe_value"),
            "reason": text("Why."),
            "note": maybe_text("What else there is to know, or null."),
            "samples": count("How many times with a rate were recorded."),
            "days": _number("How many days are recorded."),
            "basis": ref("maybe_value"),
            "day": maybe_text("The day (UTC) of this rate, or null.", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
            "weekly": boolean("Whether the weekday of this day is the busiest of each week."),
            "bucket": maybe_text("The bucket with the rate on which the proposal rests, or null."),
            "broker": maybe_text("The broker on which it had this rate; null if the limit is one of the cluster."),
        },
    )
    edit = record(
        "What becomes of the quota files.",
        {
            "written": boolean("Whether the files were written."),
            "files": items("The files that change.", {"type": "string"}),
            "unwritten": items(
                "Proposals that the files do not follow.",
                record(
                    "A proposal, and why.",
                    {
                        "cluster": text(_CLUSTER),
                        "address": ref("address"),
                        "entity": ref("entity"),
                        "key": quota_key(),
                        "reason": text("Why."),
                    },
                ),
            ),
        },
    )
    fields = {
        "usage": text("The usage table, as given."),
        "settings": _settings(),
        "clusters": items(
            "What was recorded of each cluster.",
            record(
                "The first and the last sample of a cluster.",
                {
                    "cluster": text(_CLUSTER),
                    "first": maybe_text("As ISO 8601 in UTC; null if nothing is recorded.", pattern=_MOMENT),
                    "last": maybe_text("As ISO 8601 in UTC; null if nothing is recorded.", pattern=_MOMENT),
                },
            ),
        ),
        "summary": record(
            "Numbers of values by what is proposed.", {action.value: count(about) for action, about in _COUNTS.items()}
        ),
        "proposals": items("What is proposed, by cluster, entity and key; at most 100000.", ref("recommendation")),
        "others": items("The first 1000 values that are kept or undecided.", ref("recommendation")),
        "edit": maybe(edit, "What becomes of the quota files; null if they were not asked for."),
        "backtest": maybe(_backtest(), "What the proposals would have throttled; null if that was not tested."),
    }
    definitions = {"recommendation": row, **backtest_definitions()}
    return document(USAGE_RECOMMEND, "The result of quotaform usage recommend.", fields), definitions


def _backtest() -> Node:
    return record(
        "What a plan of the changed quota files would have throttled of the same usage.",
        {
            "clusters": items("The clusters that the files change.", ref("backtest")),
            "unwritten": count("Proposals that are not in it, as the files do not follow them."),
            "other_changes": count("Other entities that the files change; they are not in it."),
        },
    )


def _settings() -> Node:
    values = mapping("Values by quota key.", {"type": "number"})
    return record(
        "How quotas were sized.",
        {
            "percentile": _number("The percentile of each day."),
            "outlier_days": count("How many of the highest days of each weekday were left out."),
            "headroom": _number("By how much it was multiplied."),
            "floors": values,
            "caps": values,
            "min_history_days": _number("How many days must be recorded."),
            "min_samples": count("How many times with a rate must be recorded."),
            "unused_after_days": _number("After how many days without use a value is proposed for removal."),
            "creates": boolean("Whether values were proposed for entities that have none."),
            "capacities": mapping("By cluster, the capacity of a broker.", values),
        },
    )


def _number(description: str) -> Node:
    return {"description": description, "type": "number", "minimum": 0}
