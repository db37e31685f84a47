"""The JSON of backtests, alone and in a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from quotaform.core.canonical import json_number
from quotaform.core.usage.backtest import Backtest, BucketBacktest, BucketCounts, ClusterBacktest, Estimate
from quotaform.document.envelope import envelope, indented
from quotaform.document.field import load_number
from quotaform.document.shape import readable
from quotaform.model.document_kind import USAGE_BACKTEST
from quotaform.model.moment import read_moment, spell_moment


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
