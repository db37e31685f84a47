"""Findings as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.model.finding import Finding, Severity
from quotaform.views.style import PLAIN, Style

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


BLOCKED: Final = "Blocked (nothing will be applied until resolved):"


def render_findings(findings: Iterable[Finding], style: Style = PLAIN, *, heading: str = BLOCKED) -> Iterator[str]:
    """Yield lines: what blocks first, under its own heading, then what is only worth knowing."""
    blocking: list[Finding] = []
    others: list[Finding] = []
    for finding in findings:
        (blocking if finding.blocking else others).append(finding)
    for title, group in ((heading, blocking), ("Findings:", others)):
        if group:
            yield style.paint(title, "bold")
            width = max(len(finding.rule) for finding in group)
            for finding in group:
                rule = style.paint(f"{finding.rule:<{width}}", _COLOURS[finding.severity])
                override = f"   Allow: {finding.override}" if finding.override else ""
                where = "".join(f"{place}: " for place in (finding.location, finding.address) if place)
                yield f"  {rule}  {where}{finding.message}{override}"
