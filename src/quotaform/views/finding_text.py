"""Findings as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.core.check import rule
from quotaform.model.finding import Finding, Severity
from quotaform.views.style import PLAIN, Style, counted

_MOST_REMOVED: Final = 10
_MOST_OF_A_RULE: Final = 50
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
            for finding, more in _first_of_each_rule(group):
                name = style.paint(f"{finding.rule:<{width}}", _COLOURS[finding.severity])
                if more:
                    yield f"  {name}  and {more:,} more (list: --format json)"
                    continue
                where = "".join(f"{place}: " for place in (finding.location, finding.address) if place)
                yield f"  {name}  {where}{finding.message}{_permission(finding)}"


def _first_of_each_rule(findings: Iterable[Finding]) -> Iterator[tuple[Finding, int]]:
    """Yield the first findings of each rule with 0, and in the place of the rest the last one with their number."""
    seen: Counter[str] = Counter()
    total = Counter(finding.rule for finding in findings)
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= _MOST_OF_A_RULE:
            yield finding, 0
        elif seen[finding.rule] == total[finding.rule]:
            yield finding, total[finding.rule] - _MOST_OF_A_RULE


def _permission(finding: Finding) -> str:
    """Return what lifted a block, or what would."""
    if finding.allowed_by is not None:
        return f"   Allowed by: {finding.allowed_by}"
    return f"   Allow: {finding.override}" if finding.blocking and finding.override else ""


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
