"""Findings as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring as quoted
from typing import Final

from quotaform.core.check import rule
from quotaform.model.approval import APPROVALS_NAME, DELETE
from quotaform.model.finding import Finding, Severity
from quotaform.views.style import PLAIN, Style, counted

_MOST_REMOVED: Final = 10
_MOST_OF_A_RULE: Final = 50
_FEW: Final = 5
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
            for together in _by_remedy(group):
                yield from _together(together, width, style)
    yield from _approval_lines(blocking)


def _by_remedy(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Return findings of one rule that one thing allows or would allow together, in the order of the first of each."""
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity, _permission(finding)), []).append(finding)
    return groups.values()


def _together(findings: list[Finding], width: int, style: Style) -> Iterator[str]:
    """Yield the lines of findings of one rule: of many that one thing allows, this once and then the findings."""
    first, permission = findings[0], _permission(findings[0])
    name = style.paint(f"{first.rule:<{width}}", _COLOURS[first.severity])
    if permission and len(findings) > _FEW:
        entities = len({finding.address for finding in findings})
        about = f"{len(findings):,} findings about {counted(entities, 'entity', 'entities')}"
        yield f"  {name}  {about}{permission}"
        lines = (f"    {_text(finding)}" for finding in findings[:_MOST_OF_A_RULE])
        more = "    "
    else:
        lines = (f"  {name}  {_text(finding)}{permission}" for finding in findings[:_MOST_OF_A_RULE])
        more = f"  {name}  "
    yield from lines
    if len(findings) > _MOST_OF_A_RULE:
        yield f"{more}and {len(findings) - _MOST_OF_A_RULE:,} more (list: --format json)"


def _text(finding: Finding) -> str:
    where = "".join(f"{place}: " for place in (finding.location, finding.address) if place)
    return f"{where}{finding.message}"


def _approval_lines(blocking: Iterable[Finding]) -> Iterator[str]:
    """Yield the item of approvals.yaml that would lift the first block that nothing but an approval lifts."""
    needed = next((finding for finding in blocking if finding.rule == rule.PROTECT.id), None)
    if needed is not None:
        action = f" action: {DELETE}," if needed.override != rule.PROTECT.override else ""
        yield f"An approval is an item of {APPROVALS_NAME}, such as"
        yield (
            f"    - {{rule: {needed.rule}, address: {quoted(needed.address or '')},{action} reason: WHY, "
            f"approver: WHO, expires: YYYY-MM-DD}}"
        )


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
