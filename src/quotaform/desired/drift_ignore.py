"""Reads `drift_ignore` in quotaform.yaml."""

from __future__ import annotations

from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.drift.ignore import DriftIgnore
from quotaform.desired.day import read_expires
from quotaform.desired.pattern import read_pattern
from quotaform.desired.report import FileReport, Part
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import did_you_mean, quote

MOST_IGNORES: Final = 1000
"""How many items `drift_ignore` may have."""


def read_drift_ignores(root: dict[str, Any], report: FileReport) -> tuple[DriftIgnore, ...]:
    """Return the items of `drift_ignore`; the schema reports values of the wrong shape.

    Args:
        root: The content of quotaform.yaml.
        report: Takes what is wrong.
    """
    listed = root.get("drift_ignore")
    ignores = []
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(item, dict):
            continue
        part = report.at("drift_ignore", index)
        keys = _read_keys(item, part)
        expires = read_expires(item, part)
        match, reason = item.get("match"), item.get("reason")
        pattern = read_pattern(match, part.at("match")) if isinstance(match, dict) else None
        if pattern is not None and expires is not None and isinstance(reason, str):
            ignores.append(
                DriftIgnore(
                    match=pattern,
                    keys=keys,
                    reason=reason,
                    expires=expires,
                    location=report.document.place(listed, index).value,
                )
            )
    return tuple(ignores)


def _read_keys(item: dict[str, Any], part: Part) -> frozenset[str]:
    keys = item.get("keys")
    found = set()
    for index, key in enumerate(keys if isinstance(keys, list) else ()):
        if not isinstance(key, str):
            continue
        if key not in QUOTA_KEYS:
            guess = did_you_mean(key, QUOTA_KEYS) or f"; the keys are {', '.join(QUOTA_KEYS)}"
            part.at("keys", index).add(rule.UNKNOWN_KEY, f"unknown quota key {quote(key)}{guess}", keys, index)
        found.add(key)
    return frozenset(found)
