"""Reads `lints`, `principals` and the `capacity` of clusters in quotaform.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quotaform.core.check import rule
from quotaform.core.check.lint.setting import EXPIRES_WITHIN_DAYS, Capacity, LintIgnore, LintSettings
from quotaform.core.check.lint.value import suspicious_unit_text
from quotaform.desired.day import read_expires
from quotaform.desired.odd_name import name_oddness
from quotaform.desired.pattern import read_pattern
from quotaform.desired.report import FileReport, Part
from quotaform.desired.value import bare_keys, read_values
from quotaform.model.entity import USER, spell_name
from quotaform.model.finding import Finding
from quotaform.model.quotas import Values
from quotaform.model.text import did_you_mean, quote

MOST_LINT_IGNORES: Final = 200
"""How many items `lints.ignore` may have."""
MOST_PRINCIPALS: Final = 100
"""How many principals `principals.brokers` may list."""
MOST_DAYS: Final = 3650
"""The largest `lints.expires_within_days`."""


def read_lint_settings(root: dict[str, Any], report: FileReport, profiles: Mapping[str, Values]) -> LintSettings:
    """Return the settings of lints; the schema reports values of the wrong shape."""
    lints = root.get("lints")
    lints = lints if isinstance(lints, dict) else {}
    days = lints.get("expires_within_days")
    if not isinstance(days, int) or isinstance(days, bool) or not 0 <= days <= MOST_DAYS:
        days = EXPIRES_WITHIN_DAYS
    return LintSettings(
        ignores=_read_ignores(lints, report),
        expires_within_days=days,
        broker_principals=_read_principals(root, report),
        profile_findings=tuple(_bare_profiles(root, report, profiles)),
    )


def read_capacity(cluster: str, node: dict[str, Any], report: FileReport) -> Capacity:
    """Return the capacity of a cluster."""
    written = node.get("capacity")
    if not isinstance(written, dict):
        return Capacity()
    values = read_values(written, None, report.at("clusters", cluster, "capacity"))
    return Capacity(values=values, places={key: report.document.place(written, key).key for key in values})


def _read_ignores(lints: dict[str, Any], report: FileReport) -> tuple[LintIgnore, ...]:
    written = lints.get("ignore")
    ignores: list[LintIgnore] = []
    for index, item in enumerate(written if isinstance(written, list) else ()):
        if not isinstance(item, dict):
            continue
        part = report.at("lints", "ignore", index)
        name, reason, address, match = (item.get(field) for field in ("rule", "reason", "address", "match"))
        is_lint = isinstance(name, str) and _check_rule(name, item, part)
        expires = read_expires(item, part)
        pattern = read_pattern(match, part.at("match")) if isinstance(match, dict) else None
        if is_lint and isinstance(reason, str) and reason.strip():
            ignores.append(
                LintIgnore(
                    rule=str(name),
                    reason=reason,
                    address=address if isinstance(address, str) else None,
                    match=pattern,
                    expires=expires,
                    location=report.document.place(written, index).value,
                )
            )
    return tuple(ignores)


def _check_rule(name: str, item: dict[str, Any], part: Part) -> bool:
    if name in rule.LINTS:
        return True
    lints = ", ".join(rule.LINTS)
    if name in rule.RULES:
        text = f"{name} is not a lint, and only lints can be ignored: {lints}"
    else:
        text = f"unknown lint {quote(name)}{did_you_mean(name, rule.LINTS) or '.'} The lints are {lints}"
    part.at("rule").add(rule.BAD_CHOICE, text, item, "rule")
    return False


def _read_principals(root: dict[str, Any], report: FileReport) -> tuple[str, ...] | None:
    principals = root.get("principals")
    brokers = principals.get("brokers") if isinstance(principals, dict) else None
    if not isinstance(brokers, list):
        return None
    for index, name in enumerate(brokers):
        oddness = name_oddness(USER, name) if isinstance(name, str) else None
        if oddness is not None:
            part = report.at("principals", "brokers", index)
            part.add(rule.BAD_NAME, f"{spell_name(name)} {oddness}", brokers, index)
    return tuple(name for name in brokers if isinstance(name, str) and name)


def _bare_profiles(root: dict[str, Any], report: FileReport, profiles: Mapping[str, Values]) -> list[Finding]:
    written = root.get("profiles")
    findings: list[Finding] = []
    for name, values in profiles.items():
        node = written[name] if isinstance(written, dict) else {}
        findings += [
            rule.SUSPICIOUS_UNIT.finding(
                suspicious_unit_text(key, values[key]), key=key, location=report.document.place(node, key).value
            )
            for key in bare_keys(node, values)
        ]
    return findings
