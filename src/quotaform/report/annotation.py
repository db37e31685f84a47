"""Findings at the lines of the files: annotations of GitHub Actions, GitLab's code quality report, and SARIF.

Only the findings of a report are shown, its title is the command that found them, and its name the cluster that they
are about. Each has a fingerprint that stays the same when lines move, so that an alert is not closed and opened again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from json import dumps
from typing import Any, Final
from urllib.parse import quote

from quotaform.model.errors import QuotaformError
from quotaform.model.finding import Finding, Severity
from quotaform.model.rule import RULES
from quotaform.model.text import printable
from quotaform.report.comment import Place, unchanged_place
from quotaform.report.report import Report


def about(finding: Finding) -> str:
    """Return the message of a finding with what it is about in front, unless the message begins with that."""
    if finding.address is None or finding.message.startswith(finding.address):
        return finding.message
    return f"{finding.address}: {finding.message}"


def _placed(finding: Finding, place: Place) -> tuple[str | None, int, int]:
    """Return the file of a finding from the top of the repository, its line and its column; 0 if they are unknown."""
    location = finding.location
    file = None if location is None else place(location.file)
    return (None, 0, 0) if location is None or file is None else (file, location.line or 0, location.column or 0)


# Findings as commands of GitHub Actions, which shows them at the lines of a pull request.
#
# GitHub shows ten annotations of each type per step and drops all others without a word, so the tenth says how
# many more there are.

MOST_OF_A_TYPE: Final = 10
_TYPES: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_PLURALS: Final = {"error": "errors", "warning": "warnings", "notice": "notes"}


def render_github(report: Report, *, place: Place = unchanged_place) -> str:
    """Return findings as annotations, one per line."""
    by_type: dict[str, list[Finding]] = {name: [] for name in _TYPES.values()}
    for finding in report.findings:
        by_type["error" if finding.blocking else _TYPES[finding.severity]].append(finding)
    commands = []
    for name, some in by_type.items():
        shown = some if len(some) <= MOST_OF_A_TYPE else some[: MOST_OF_A_TYPE - 1]
        for finding in shown:
            where = zip(("file", "line", "col"), _placed(finding, place), strict=True)
            properties = {key: str(value) for key, value in where if value}
            commands.append(_command(name, properties | {"title": f"quotaform: {finding.rule}"}, about(finding)))
        if len(some) > len(shown):
            more = f"and {len(some) - len(shown):,} more {_PLURALS[name]}, see the output of this step"
            commands.append(_command(name, {"title": "quotaform"}, more))
    return "".join(commands)


def render_failure_github(cluster: str, error: QuotaformError) -> str:
    """Return the annotation of a cluster for which nothing could be made."""
    return _command("error", {"title": f"quotaform: {cluster}"}, str(error))


def _command(name: str, properties: dict[str, str], message: str) -> str:
    r"""Return a command, in which no text can end a property, the line or the command.

    >>> _command("error", {"file": "a,b:c.yaml"}, "100 %\n::error::x")
    '::error file=a%2Cb%3Ac.yaml::100 %25%0A::error::x\n'
    """
    escaped = {key: _escape(value).replace(":", "%3A").replace(",", "%2C") for key, value in properties.items()}
    written = ",".join(f"{key}={value}" for key, value in escaped.items())
    return f"::{name} {written}::{_escape(message)}\n"


def _escape(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


MOST_RESULTS: Final = 5_000
"""How many results of a run GitHub shows."""
NO_FILE: Final = "quotaform.yaml"
"""The file at which findings without a place are shown, as every result must have one."""
_TOP: Final = "%SRCROOT%"
_LONGEST_MESSAGE: Final = 1_000


def fingerprints(findings: Iterable[Finding], place: Place, cluster: str = "") -> list[str]:
    """Return a digest for each finding: of its rule, what it is about and its file, but not of its line.

    Findings that are equal in all of this are numbered, in their order. `cluster` is the cluster that they are about,
    where reports of several clusters are merged.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    made = []
    for finding in findings:
        file, _, _ = _placed(finding, place)
        content = (finding.rule, finding.address or "", finding.key or "", file or "", cluster)
        number = (str(seen[content]),) if seen[content] else ()
        seen[content] += 1
        made.append(sha256(dumps([*content, *number]).encode()).hexdigest())
    return made


def render_sarif(report: Report, *, place: Place = unchanged_place, version: str | None = None) -> str:
    """Return a log with one run; the category keeps the alerts of clusters and commands apart."""
    findings = report.findings
    category = f"{report.title}/{report.name}" if report.name else report.title
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
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _descriptor(name: str) -> dict[str, Any]:
    row = RULES.get(name)
    if row is None:
        return {"id": name}
    return {
        "id": row.id,
        "shortDescription": {"text": row.summary},
        "fullDescription": {"text": row.summary},
        "help": {"text": row.remedy},
        "defaultConfiguration": {"level": "error" if row.is_blocking else row.severity.value},
    }


def _result(finding: Finding, rule_index: int, fingerprint: str, place: Place) -> dict[str, Any]:
    file, line, column = _placed(finding, place)
    # Without a line GitHub shows nothing.
    region = {"startLine": line or 1} | ({"startColumn": column} if line and column else {})
    artifact = {"uri": quote(file or NO_FILE, errors="surrogateescape"), "uriBaseId": _TOP}
    where: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    if finding.address is not None:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.address}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": "error" if finding.blocking else finding.severity.value,
        "message": {"text": about(finding)[:_LONGEST_MESSAGE]},
        "locations": [where],
        # GitHub reads this name alone.
        "partialFingerprints": {"primaryLocationLineHash": fingerprint, "quotaform/v1": fingerprint},
    }


_SEVERITIES: Final = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render_gitlab(report: Report, *, place: Place = unchanged_place) -> str:
    """Return a report; GitLab merges those of several jobs, so a fingerprint is that of one cluster."""
    issues = []
    pairs = zip(report.findings, fingerprints(report.findings, place, report.name), strict=True)
    for finding, fingerprint in pairs:
        file, line, _ = _placed(finding, place)
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
