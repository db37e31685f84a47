"""Reads `recommend` in quotaform.yaml."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from quotaform.core.check import rule
from quotaform.core.usage.sizing.recommendation import SizingSettings, parse_percentile
from quotaform.desired.report import FileReport, Part
from quotaform.desired.value import read_values
from quotaform.model.duration import parse_duration
from quotaform.model.quotas import Values


def read_sizing(root: dict[str, Any], report: FileReport) -> SizingSettings:
    """Return how quotas are sized by usage; the schema reports values of the wrong shape."""
    node = root.get("recommend")
    if not isinstance(node, dict):
        return SizingSettings()
    part = report.at("recommend")
    default = SizingSettings()
    headroom, samples, outliers = node.get("headroom"), node.get("min_samples"), node.get("outlier_days")
    is_number = isinstance(headroom, int | Decimal) and not isinstance(headroom, bool)
    return SizingSettings(
        percentile=_read_percentile(node, part, default.percentile),
        outlier_days=outliers if type(outliers) is int else default.outlier_days,
        headroom=float(headroom) if is_number and headroom is not None else default.headroom,
        floors=_read_values(node, "floor", report),
        caps=_read_values(node, "cap", report),
        min_history_days=_read_days(node, "min_history", part, default.min_history_days),
        min_samples=samples if type(samples) is int else default.min_samples,
        unused_after_days=_read_days(node, "unused_after", part, default.unused_after_days),
    )


def value_mappings(root: dict[str, Any]) -> list[Any]:
    """Return the mappings of `recommend` that hold values of quota keys."""
    node = root.get("recommend")
    held = [node.get(field) for field in ("floor", "cap")] if isinstance(node, dict) else []
    return [each for each in held if isinstance(each, dict)]


def _read_values(node: dict[str, Any], field: str, report: FileReport) -> Values:
    written = node.get(field)
    return read_values(written, None, report.at("recommend", field)) if isinstance(written, dict) else {}


def _read_percentile(node: dict[str, Any], part: Part, default: float) -> float:
    text = node.get("percentile")
    if not isinstance(text, str):
        return default
    try:
        return parse_percentile(text)
    except ValueError as error:
        part.at("percentile").add(rule.BAD_VALUE, f"percentile: {error}", node, "percentile")
    return default


def _read_days(node: dict[str, Any], field: str, part: Part, default: float) -> float:
    text = node.get(field)
    if not isinstance(text, str):
        return default
    try:
        return parse_duration(text).total_seconds() / 86_400
    except ValueError as error:
        part.at(field).add(rule.BAD_VALUE, f"{field}: {error}", node, field)
    return default
