"""Findings as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quotaform.core.check import rule
from quotaform.model.finding import Finding, Severity
from quotaform.views.finding.finding_group import APPROVAL_EXAMPLE, FEW, FindingGroup, Line, approval_item, grouped
from quotaform.views.style import PLAIN, Style, counted

_MOST_REMOVED: Final = 10
_MOST_OF_A_RULE: Final = 50
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


BLOCKED: Final = "Blocked (nothing will be applied until resolved):"


def render_findings(
    findings: Iterable[Finding],
    style: Style = PLAIN,
    *,
    heading: str = BLOCKED,
    most: int = _MOST_OF_A_RULE,
    most_others: int = _MOST_OF_A_RULE,
) -> Iterator[str]:
    """Yield lines: what blocks first, under its own heading, then the others.

    Entities that are no longer declared have a heading of their own, see `render_removed`.

    Args:
        heading: What stands above what blocks.
        most: How many lines of a rule that blocks are shown.
        most_others: How many of another rule.
    """
    blocking: list[Finding] = []
    others: list[Finding] = []
    for finding in findings:
        if finding.rule != rule.NO_LONGER_DECLARED.id:
            (blocking if finding.blocking else others).append(finding)
    for title, some, number in ((heading, blocking, most), ("Findings:", others, most_others)):
        if some:
            yield style.paint(title, "bold")
            width = max(len(finding.rule) for finding in some)
            for group in grouped(some):
                yield from _group_lines(group, width, style, number)
    if (item := approval_item(blocking)) is not None:
        yield APPROVAL_EXAMPLE
        yield f"    {item}"


def _group_lines(group: FindingGroup, width: int, style: Style, most: int) -> Iterator[str]:
    begin = f"  {style.paint(f'{group.rule:<{width}}', _COLOURS[group.severity])}  "
    end = f"   {group.permission}" if group.permission else ""
    if group.has_heading:
        yield f"{begin}{group.number}{end}"
        begin, end = "    ", ""
        needed = group.findings[0].allowance
        if needed is not None and needed.rule != group.rule:  # It follows from what the other rule has counted.
            most = min(most, FEW)
    lines = group.lines
    yield from (f"{begin}{_text(line)}{end}" for line in lines[:most])
    if len(lines) > most:
        yield f"{begin}and {len(lines) - most:,} more (list: --format json)"


def _text(line: Line) -> str:
    where = "".join(f"{place}: " for place in (line.location, line.address) if place)
    return f"{where}{line.message}"


def render_removed(findings: Iterable[Finding], style: Style = PLAIN) -> Iterator[str]:
    """Yield lines about the entities that the files declared before and do not declare any more."""
    removed = [finding for finding in findings if finding.rule == rule.NO_LONGER_DECLARED.id]
    if not removed:
        return
    were = counted(len(removed), "entity was", "entities were")
    yield style.paint(f"{were} removed from the files but not from the cluster:", "bold")
    for finding in removed[:_MOST_REMOVED]:
        yield f"    {style.paint(finding.address or '', _COLOURS[finding.severity])}: {finding.message}"
    if len(removed) > _MOST_REMOVED:
        yield f"    and {len(removed) - _MOST_REMOVED:,} more (list: --format json)"
    yield ""
