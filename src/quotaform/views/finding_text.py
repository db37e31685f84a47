"""Findings as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.core.check import rule
from quotaform.model.finding import Finding, Severity
from quotaform.views.style import PLAIN, Style, counted

_MOST_REMOVED: Final = 10
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


BLOCKED: Final = "Blocked (nothing will be applied until resolved):"


def render_findings(findings: Iterable[Finding], style: Style = PLAIN, *, heading: str = BLOCKED) -> Iterator[str]:
    """Yield lines: what blocks first, under its own heading, then what is only worth knowing.

    Entities that are no longer declared have a heading of their own, see `render_removed`.
    """
    blocking: list[Finding] = []
    others: list[Finding] = []
    for finding in findings:
        if finding.rule != rule.NO_LONGER_DECLARED.id:
            (blocking if finding.blocking else others).append(finding)
    for title, group in ((heading, blocking), ("Findings:", others)):
        if group:
            yield style.paint(title, "bold")
            width = max(len(finding.rule) for finding in group)
            for finding in group:
                name = style.paint(f"{finding.rule:<{width}}", _COLOURS[finding.severity])
                override = f"   Allow: {finding.override}" if finding.override else ""
                where = "".join(f"{place}: " for place in (finding.location, finding.address) if place)
                yield f"  {name}  {where}{finding.message}{override}"


def render_removed(findings: Iterable[Finding], style: Style = PLAIN) -> Iterator[str]:
    """Yield lines about the entities that the files declared before and do not declare any more."""
    removed = [finding for finding in findings if finding.rule == rule.NO_LONGER_DECLARED.id]
    if not removed:
        return
    were = counted(len(removed), "entity was", "entities were")
    are = "is" if len(removed) == 1 else "are"
    yield style.paint(f"{were} declared in the files before and {are} no longer:", "bold")
    for finding in removed[:_MOST_REMOVED]:
        yield f"    {style.paint(finding.address or '', _COLOURS[finding.severity])}: {finding.message}"
    if len(removed) > _MOST_REMOVED:
        yield f"    and {len(removed) - _MOST_REMOVED:,} more (list: --format json)"
    yield ""
