"""Findings in Markdown: what blocks in a caution, the rest as notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quotaform.model.finding import Finding
from quotaform.views.markdown import code, words
from quotaform.views.plan.change_table import by_prefix
from quotaform.views.style import counted

_MOST_RULES: Final = 30
_LONGEST_MESSAGE: Final = 600
_SHORT_MESSAGE: Final = 150
_FEW: Final = 5


def block_lines(blocking: Sequence[Finding]) -> Iterator[str]:
    """Yield a caution with everything that blocks."""
    if blocking:
        yield from _caution(len(blocking), (f"- {_finding(finding)}" for finding in blocking))


def grouped_block_lines(blocking: Sequence[Finding], most: int = 0) -> Iterator[str]:
    """Yield a caution with the first findings of each rule that blocks, and how many more there are.

    Args:
        blocking: What blocks.
        most: How many findings of a rule are shown; with 0 it fits however many there are.
    """
    if not blocking:
        return
    by_rule: dict[str, list[Finding]] = {}
    for finding in blocking:
        by_rule.setdefault(finding.rule, []).append(finding)
    shown = list(by_rule.items())[:_MOST_RULES]
    lines = [line for rule, findings in shown for line in _rule_lines(rule, findings, most)]
    if len(by_rule) > len(shown):
        lines.append(f"- and {len(by_rule) - len(shown):,} more rules")
    yield from _caution(len(blocking), lines)


def _caution(number: int, lines: Iterable[str]) -> Iterator[str]:
    yield "> [!CAUTION]\n"
    yield f"> **{number:,} blocked: nothing will be applied until this is resolved.**\n>\n"
    yield from (f"> {line}\n" for line in lines)
    yield "\n"


def _rule_lines(rule: str, findings: Sequence[Finding], most: int) -> Iterator[str]:
    if len(findings) <= max(1, most):
        yield from (f"- {_finding(finding, _LONGEST_MESSAGE if most else _SHORT_MESSAGE)}" for finding in findings)
        return
    yield from (f"- {_finding(finding)}" for finding in findings[:most])
    rest = findings[most:]
    addresses = [finding.address for finding in rest if finding.address is not None]
    where = ", ".join(f"{shown} ({len(some):,})" for shown, some in by_prefix(addresses, _FEW))
    more = "more " if most else ""
    yield f"- **{len(rest):,}** {more}{code(rule, 60)}{f': {where}' if where else ''}{_override(findings[0])}"


def _finding(finding: Finding, longest: int = _LONGEST_MESSAGE) -> str:
    where = ""
    if finding.location is not None:
        where += f"{code(str(finding.location))}: "
    if finding.address is not None:
        where += f"{code(finding.address)}: "
    message = finding.message if len(finding.message) <= longest else f"{finding.message[: longest - 1]}…"
    return f"{code(finding.rule, 60)} {where}{words(message)}{_override(finding)}"


def _override(finding: Finding) -> str:
    return f" Allow: {code(finding.override)}" if finding.override else ""


def removed_lines(removed: Sequence[Finding], most: int) -> Iterator[str]:
    """Yield the entities that the files declared before and do not declare any more, the first ones if many."""
    if not removed:
        return
    stay = "stays" if len(removed) == 1 else "stay"
    yield f"#### Removed from the files, {stay} on the cluster: {counted(len(removed), 'entity', 'entities')}\n\n"
    for finding in removed[:most]:
        yield f"- {code(finding.address or '')}: {words(finding.message)}\n"
    if len(removed) > most:
        yield f"- {'and ' if most else ''}{len(removed) - most:,}{' more' if most else ''} (list: `quotaform plan`)\n"
    yield "\n"


def note_lines(findings: Sequence[Finding], most: int, others: Sequence[str] = ()) -> Iterator[str]:
    """Yield notes as a list, the first ones if there are many, and then others, which are Markdown already."""
    for finding in findings[:most]:
        yield f"- {finding.severity}: {_finding(finding)}\n"
    if len(findings) > most:
        yield f"- and {counted(len(findings) - most, 'more finding')}\n"
    yield from (f"- {other}\n" for other in others)
    if findings or others:
        yield "\n"
