"""Findings in SARIF 2.1.0, as GitHub's code scanning reads it: all of them, which annotations cannot show.

Each result has a fingerprint that stays the same when lines move, so that an alert is not closed and opened again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from json import dumps
from typing import Any, Final

from quotaform.core.check.rule import RULES
from quotaform.core.drift.drift import Drift
from quotaform.core.plan import Plan
from quotaform.core.result import Validation
from quotaform.model.finding import Finding, Severity
from quotaform.views.finding.problem import (
    Place,
    about,
    drift_problems,
    plan_problems,
    unchanged_place,
    validation_problems,
)

MOST_RESULTS: Final = 5_000
"""How many results of a run GitHub shows."""
NO_FILE: Final = "quotaform.yaml"
"""The file at which findings without a place are shown, as every result must have one."""
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_TOP: Final = "%SRCROOT%"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_LONGEST_MESSAGE: Final = 1_000


def render_plan_sarif(plan: Plan, *, place: Place = unchanged_place, version: str | None = None) -> str:
    """Return the findings of a plan."""
    return _log(plan_problems(plan), place, f"plan/{plan.header.cluster_name}", version)


def render_drift_sarif(drift: Drift, *, place: Place = unchanged_place, version: str | None = None) -> str:
    """Return a result for each entity that differs, and what else was found."""
    return _log(drift_problems(drift), place, f"drift/{drift.cluster_name}", version)


def render_validation_sarif(
    validation: Validation, *, place: Place = unchanged_place, version: str | None = None
) -> str:
    """Return the problems of files."""
    return _log(validation_problems(validation), place, "validate", version)


def fingerprints(findings: Iterable[Finding], place: Place, cluster: str = "") -> list[str]:
    """Return a digest for each finding: of its rule, what it is about and its file, but not of its line.

    Findings that are equal in all of this are numbered, in their order. `cluster` is the cluster that they are about,
    where reports of several clusters are merged.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    made = []
    for finding in findings:
        file = None if finding.location is None else place(finding.location.file)
        content = (finding.rule, finding.address or "", finding.key or "", file or "", cluster)
        number = (str(seen[content]),) if seen[content] else ()
        seen[content] += 1
        made.append(sha256(dumps([*content, *number]).encode()).hexdigest())
    return made


def _log(findings: Sequence[Finding], place: Place, category: str, version: str | None) -> str:
    """Return a log with one run; the category keeps the alerts of clusters and commands apart."""
    shown = findings[:MOST_RESULTS]
    names = sorted({finding.rule for finding in shown})
    driver = {
        "name": "quotaform",
        **({} if version is None else {"version": version}),
        "rules": [_descriptor(name) for name in names],
    }
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if len(findings) > len(shown):
        text = f"{len(findings) - len(shown):,} more results are left out; see the text output of the command."
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"quotaform/{category}/"},
        "originalUriBaseIds": {_TOP: {"description": {"text": "The top of the repository."}}},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, names.index(finding.rule), fingerprint, place)
            for finding, fingerprint in zip(shown, fingerprints(shown, place), strict=True)
        ],
    }
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _descriptor(name: str) -> dict[str, Any]:
    row = RULES.get(name)
    if row is None:
        return {"id": name}
    return {
        "id": row.id,
        "shortDescription": {"text": row.summary},
        "fullDescription": {"text": row.summary},
        "help": {"text": row.remedy},
        "defaultConfiguration": {"level": _level(row.severity, is_blocking=row.is_blocking)},
    }


def _level(severity: Severity, *, is_blocking: bool) -> str:
    return "error" if is_blocking else severity.value


def _result(finding: Finding, rule_index: int, fingerprint: str, place: Place) -> dict[str, Any]:
    location = finding.location
    file = None if location is None else place(location.file)
    physical: dict[str, Any] = {"artifactLocation": {"uri": encoded(file or NO_FILE), "uriBaseId": _TOP}}
    region = {}
    if location is not None and file is not None and location.line:
        region = {"startLine": location.line, **({"startColumn": location.column} if location.column else {})}
    # Without a line GitHub shows nothing.
    physical["region"] = region or {"startLine": 1}
    where: dict[str, Any] = {"physicalLocation": physical}
    if finding.address is not None:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.address}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _level(finding.severity, is_blocking=finding.blocking),
        "message": {"text": about(finding)[:_LONGEST_MESSAGE]},
        "locations": [where],
        # GitHub reads this name alone.
        "partialFingerprints": {"primaryLocationLineHash": fingerprint, "quotaform/v1": fingerprint},
    }


def encoded(path: str) -> str:
    """Return a relative path as a URI.

    >>> encoded("quotas.d/a b:Å.yaml")
    'quotas.d/a%20b%3A%C3%85.yaml'
    """
    content = path.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in content)
