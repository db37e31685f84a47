"""The JSON of recommendations, and its schema."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from quotaform.model.moment import spell_moment
from quotaform.model.records.document import USAGE_RECOMMEND, envelope, indented, json_number
from quotaform.model.records.field import dump_entity
from quotaform.model.records.record import builtins
from quotaform.model.records.schema import (
    MOMENT,
    Node,
    boolean,
    choice,
    count,
    document,
    items,
    mapping,
    maybe,
    maybe_text,
    number,
    quota_key,
    record,
    record_definitions,
    ref,
    text,
)
from quotaform.plan.backtest import ClusterBacktest
from quotaform.usage.recommend.recommendation import (
    Action,
    ProposalBacktest,
    QuotaEdit,
    Recommendation,
    RecommendReport,
    RecommendSettings,
)


def dump_recommendations(report: RecommendReport) -> str:
    """Return what is proposed, what is not and why, as JSON."""
    fields = {
        "usage": report.usage,
        "settings": _dump_settings(report.settings),
        "clusters": [
            {"cluster": each.cluster, "first": _moment(each.first), "last": _moment(each.last)}
            for each in report.clusters
        ],
        "summary": {action.value: number for action, number in report.counts.items()},
        "proposals": [_dump_row(each) for each in report.proposals],
        "others": [_dump_row(each) for each in report.others],
        "edit": None if report.edit is None else _dump_edit(report.edit),
        "backtest": None if report.backtest is None else _dump_backtest(report.backtest),
    }
    return indented(envelope(USAGE_RECOMMEND, fields))


def _dump_settings(settings: RecommendSettings) -> dict[str, Any]:
    return {
        "percentile": json_number(settings.percentile),
        "outlier_days": settings.outlier_days,
        "headroom": json_number(settings.headroom),
        "floors": {key: json_number(value) for key, value in settings.floors.items()},
        "caps": {key: json_number(value) for key, value in settings.caps.items()},
        "min_history_days": json_number(settings.min_history_days),
        "min_samples": settings.min_samples,
        "unused_after_days": json_number(settings.unused_after_days),
        "creates": settings.has_creates,
        "capacities": {
            cluster: {key: json_number(value) for key, value in values.items()}
            for cluster, values in settings.capacities.items()
        },
    }


def _dump_row(each: Recommendation) -> dict[str, Any]:
    return {
        "cluster": each.cluster,
        **dump_entity(each.entity),
        "key": each.key,
        "action": each.action.value,
        "before": json_number(each.before),
        "after": json_number(each.after),
        "reason": each.reason,
        "note": each.note,
        "samples": each.samples,
        "days": json_number(round(each.days, 3)),
        "basis": json_number(each.basis),
        "day": None if each.day is None else each.day.isoformat(),
        "weekly": each.is_weekly,
        "bucket": each.bucket,
        "broker": each.broker,
    }


def _dump_edit(edit: QuotaEdit) -> dict[str, Any]:
    return {
        "written": edit.is_written,
        "files": [file.name for file in edit.files],
        "unwritten": [
            {"cluster": each.proposal.cluster, **dump_entity(each.proposal.entity), "key": each.proposal.key}
            | {"reason": each.reason}
            for each in edit.unwritten
        ],
    }


def _dump_backtest(found: ProposalBacktest) -> dict[str, Any]:
    return {
        "clusters": list(map(builtins, found.clusters)),
        "unwritten": found.unwritten,
        "other_changes": found.others,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)


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
            "days": number("How many days are recorded."),
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
        "settings": _settings_node(),
        "clusters": items(
            "What was recorded of each cluster.",
            record(
                "The first and the last sample of a cluster.",
                {
                    "cluster": text(_CLUSTER),
                    "first": maybe_text("As ISO 8601 in UTC; null if nothing is recorded.", pattern=MOMENT),
                    "last": maybe_text("As ISO 8601 in UTC; null if nothing is recorded.", pattern=MOMENT),
                },
            ),
        ),
        "summary": record(
            "Numbers of values by what is proposed.", {action.value: count(about) for action, about in _COUNTS.items()}
        ),
        "proposals": items("What is proposed, by cluster, entity and key; at most 100000.", ref("recommendation")),
        "others": items("The first 1000 values that are kept or undecided.", ref("recommendation")),
        "edit": maybe(edit, "What becomes of the quota files; null if they were not asked for."),
        "backtest": maybe(_backtest_node(), "What the proposals would have throttled; null if that was not tested."),
    }
    definitions = {"recommendation": row, **record_definitions(ClusterBacktest)}
    return document(USAGE_RECOMMEND, "The result of quotaform usage recommend.", fields), definitions


def _backtest_node() -> Node:
    return record(
        "What a plan of the changed quota files would have throttled of the same usage.",
        {
            "clusters": items("The clusters that the files change.", ref("cluster_backtest")),
            "unwritten": count("Proposals that are not in it, as the files do not follow them."),
            "other_changes": count("Other entities that the files change; they are not in it."),
        },
    )


def _settings_node() -> Node:
    values = mapping("Values by quota key.", {"type": "number"})
    return record(
        "How quotas were sized.",
        {
            "percentile": number("The percentile of each day."),
            "outlier_days": count("How many of the highest days of each weekday were left out."),
            "headroom": number("By how much it was multiplied."),
            "floors": values,
            "caps": values,
            "min_history_days": number("How many days must be recorded."),
            "min_samples": count("How many times with a rate must be recorded."),
            "unused_after_days": number("After how many days without use a value is proposed for removal."),
            "creates": boolean("Whether values were proposed for entities that have none."),
            "capacities": mapping("By cluster, the capacity of a broker.", values),
        },
    )
