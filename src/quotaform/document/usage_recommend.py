"""The JSON of right-sized quotas."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.usage.sizing.recommendation import (
    ProposalBacktest,
    QuotaEdit,
    Recommendation,
    RecommendReport,
    RecommendSettings,
)
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import dump_entity
from quotaform.document.usage_backtest import dump_cluster_backtest
from quotaform.model.document_kind import USAGE_RECOMMEND
from quotaform.model.moment import spell_moment


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
        "clusters": [dump_cluster_backtest(each) for each in found.clusters],
        "unwritten": found.unwritten,
        "other_changes": found.others,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else spell_moment(moment)
