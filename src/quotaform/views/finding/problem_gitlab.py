"""Findings as GitLab's code quality report, which a merge request shows beside the lines."""

from __future__ import annotations

from json import dumps
from typing import Final

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
from quotaform.views.finding.problem_sarif import NO_FILE, fingerprints

_SEVERITIES: Final = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render_plan_gitlab(plan: Plan, *, place: Place = unchanged_place) -> str:
    """Return the findings of a plan."""
    return _report(plan_problems(plan), place, plan.header.cluster_name)


def render_drift_gitlab(drift: Drift, *, place: Place = unchanged_place) -> str:
    """Return an issue for each entity that differs, and what else was found."""
    return _report(drift_problems(drift), place, drift.cluster_name)


def render_validation_gitlab(validation: Validation, *, place: Place = unchanged_place) -> str:
    """Return the problems of files."""
    return _report(validation_problems(validation), place, "")


def _report(findings: list[Finding], place: Place, cluster: str) -> str:
    """Return a report; GitLab merges those of several jobs, so a fingerprint is that of one cluster."""
    issues = []
    for finding, fingerprint in zip(findings, fingerprints(findings, place, cluster), strict=True):
        file = None if finding.location is None else place(finding.location.file)
        line = finding.location.line if finding.location is not None and file is not None else 0
        issues.append(
            {
                "description": about(finding),
                "check_name": finding.rule,
                "fingerprint": fingerprint,
                "severity": "blocker" if finding.blocking else _SEVERITIES[finding.severity],
                "location": {"path": file or NO_FILE, "lines": {"begin": max(1, line)}},
            }
        )
    return dumps(issues, indent=2) + "\n"
