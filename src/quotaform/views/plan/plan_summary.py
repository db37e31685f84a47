"""A plan of thousands of changes in some dozen lines: how many of each kind, the largest, and everything deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final

from quotaform.core.change import Action
from quotaform.core.plan import Plan
from quotaform.model.entity import spell_name
from quotaform.model.text import inert
from quotaform.views.finding.finding_text import render_findings
from quotaform.views.plan.backtest_part import backtest_lines
from quotaform.views.plan.blast_radius_text import blast_radius_lines
from quotaform.views.plan.effect_text import DIRECTIONS, effect_text
from quotaform.views.plan.plan_text import effect_line, header_lines, no_changes, summary_line, values_text
from quotaform.views.style import PLAIN, Style, counted

MOST_GROUPS: Final = 10
"""How many owners, files and rules are listed; the others are counted."""
MOST_LARGEST: Final = 10
"""How many of the largest changes are listed."""
MOST_DELETES: Final = 500
"""How many deleted entities are listed."""
MOST_BLOCKS: Final = 5
"""How many lines about what a rule blocks are listed."""


def render_plan_summary(plan: Plan, style: Style = PLAIN) -> Iterator[str]:
    """Yield the summary of a plan, line by line, ending like the plan itself."""
    return (f"{line}\n" for line in _lines(plan, style))


def _lines(plan: Plan, style: Style) -> Iterator[str]:
    yield from header_lines(plan, style)
    yield ""
    if plan.changes:
        yield from _groups(plan)
        yield from _largest(plan, style)
        yield from _deletes(plan, style)
    yield from blast_radius_lines(plan.blast_radius, style)
    yield from backtest_lines(plan.backtest, style)
    yield from _blocks(plan, style)
    if not plan.changes:
        yield style.paint(no_changes(plan), "bold")
        return
    yield f"{effect_line(plan)} Plan id {plan.plan_id}"
    yield style.paint(summary_line(plan), "bold")


def _groups(plan: Plan) -> Iterator[str]:
    changes = plan.changes
    yield from _group("Action", (change.action.value for change in changes))
    yield from _group("Direction", (DIRECTIONS[change.direction] for change in changes))
    if any(change.origin is not None for change in changes):
        yield from _group("Origin", (change.origin.value if change.origin else "none" for change in changes))
    yield from _group("Owner", (inert(change.owner) if change.owner else "(none)" for change in changes))
    yield from _group("File", (inert(change.location.file) if change.location else "(none)" for change in changes))
    yield from _group("Quota", (spell_name(row.key) for change in changes for row in change.changes))
    yield ""


def _group(title: str, words: Iterable[str]) -> Iterator[str]:
    """Yield a line with the most frequent words."""
    counts = Counter(words)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{number:,} {word}" for word, number in ordered[:MOST_GROUPS]]
    rest = ordered[MOST_GROUPS:]
    if rest:
        parts.append(f"{sum(number for _, number in rest):,} in {len(rest):,} others")
    yield f"{title:<11}{', '.join(parts)}"


def _largest(plan: Plan, style: Style) -> Iterator[str]:
    rows = (
        (-effect.magnitude(row.key), change.entity.address, row, effect)
        for change in plan.changes
        for row, effect in zip(change.changes, change.effects, strict=True)
    )
    largest = nsmallest(MOST_LARGEST, rows, key=lambda each: each[:2])
    shown = [each for each in largest if each[0] < 0]
    if not shown:
        return
    yield style.paint("Largest changes of effective limits:", "bold")
    for _, address, row, effect in shown:
        note = effect_text(row, effect)
        yield f"    {address} {spell_name(row.key)} = {values_text(row, effect)}{f'   {note}' if note else ''}"
    yield ""


def _deletes(plan: Plan, style: Style) -> Iterator[str]:
    """Yield what is deleted, in the words of the plan, which tools look for."""
    deleted = [change for change in plan.changes if change.action is Action.DELETE]
    for change in deleted[:MOST_DELETES]:
        yield f"  # {style.paint(change.entity.address, 'bold')} will be destroyed"
    if len(deleted) > MOST_DELETES:
        yield f"  # and {len(deleted) - MOST_DELETES:,} more entities (list: without --summary)"
    if deleted:
        yield ""


def _blocks(plan: Plan, style: Style) -> Iterator[str]:
    blocking = [finding for finding in plan.findings if finding.blocking]
    yield from render_findings(blocking, style, most=MOST_BLOCKS)
    others = len(plan.findings) - len(blocking)
    if others:
        yield f"{counted(others, 'other finding')} (list: without --summary)."
    if plan.findings:
        yield ""
