"""Reads `guards` and `protect` in quotaform.yaml."""

from __future__ import annotations

from typing import Any

from quotaform.core.guard_limits import DEFAULT_GUARD_LIMITS, CountLimit, GuardLimits
from quotaform.desired.pattern import read_pattern
from quotaform.desired.report import FileReport


def read_guard_limits(root: dict[str, Any], report: FileReport) -> GuardLimits:
    """Return the limits of the guards; the schema reports values that are not numbers or out of range."""
    guards, protect = root.get("guards"), root.get("protect")
    node = guards if isinstance(guards, dict) else {}
    return GuardLimits(
        delete=_read_count_limit(node.get("delete"), DEFAULT_GUARD_LIMITS.delete),
        update=_read_count_limit(node.get("update"), DEFAULT_GUARD_LIMITS.update),
        change_factor=_read_number(node, "change_factor", DEFAULT_GUARD_LIMITS.change_factor),
        protect=tuple(
            read_pattern(item, report.at("protect", index))
            for index, item in enumerate(protect if isinstance(protect, list) else ())
            if isinstance(item, dict)
        ),
    )


def _read_count_limit(node: object, default: CountLimit) -> CountLimit:
    if not isinstance(node, dict):
        return default
    return CountLimit(_read_number(node, "count", default.count), _read_number(node, "percent", default.percent))


def _read_number(node: dict[str, Any], key: str, default: int) -> int:
    number = node.get(key)
    return number if type(number) is int else default
