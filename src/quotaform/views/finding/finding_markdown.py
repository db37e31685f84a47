"""Findings in Markdown: what blocks in a caution, the rest as notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quotaform.model.allowance import ALLOW
from quotaform.model.finding import Finding
from quotaform.views.address_group import by_prefix
from quotaform.views.finding.finding_group import (
    APPROVAL,
    APPROVAL_EXAMPLE,
    FEW,
    FindingGroup,
    Line,
    approval_item,
    grouped,
)
from quotaform.views.markdown import code, fenced, words
from quotaform.views.style import counted

_LABEL: Final = f"In quotaform's CI workflows, the label `quotas-allow:RULE` gives `{ALLOW} RULE`."
_MOST_RULES: Final = 30
_LONGEST_MESSAGE: Final = 600
_SHORT_MESSAGE: Final = 150
_LONGEST_ITEM: Final = 500
_ALL: Final = 1 << 40


def block_lines(blocking: Sequence[Finding], most: int = _ALL, heading: str | None = None) -> Iterator[str]:
    """Yield a caution with what blocks: of each rule the first lines, and how many more there are.

    `most` is how many lines of a rule are shown; with 0 the caution fits however many there are. `heading` is its first
    line; that of a plan without one.
    """
    if not blocking:
        return
    groups = grouped(blocking)
    shown = groups if most == _ALL else groups[:_MOST_RULES]
    lines = [line for group in shown for line in _group_lines(group, most)]
    if len(groups) > len(shown):
        lines.append(f"- and {len(groups) - len(shown):,} more rules")
    yield "> [!CAUTION]\n"
    yield f"> **{heading or _blocked_by(len(blocking))}**\n>\n"
    yield from (f"> {line}\n" for line in lines)
    if any(finding.allowance is not None for finding in blocking):
        yield f">\n> {_LABEL}\n"
    yield from _approval_lines(blocking)
    yield "\n"


def _blocked_by(number: int) -> str:
    they = "it is" if number == 1 else "they are"
    return f"Blocked by {counted(number, 'finding')}: nothing will be applied until {they} resolved."


def _approval_lines(blocking: Sequence[Finding]) -> Iterator[str]:
    """Yield what to write into approvals.yaml, unless its address is too long for a comment."""
    item = approval_item(blocking)
    if item is not None and len(item) <= _LONGEST_ITEM:
        yield f">\n> {words(APPROVAL_EXAMPLE)}\n>\n"
        yield from (f"> {line}\n" for line in fenced(item, "yaml").splitlines())


def _group_lines(group: FindingGroup, most: int) -> Iterator[str]:
    """Yield the items of a list, of which one with a heading has a list of its own."""
    lines, longest = group.lines, _LONGEST_MESSAGE if most else _SHORT_MESSAGE
    name, end = code(group.rule, 60), _permission(group)
    if group.has_heading:
        about = f"{name} {group.number}"
        yield f"- {about}{end}" if most else f"- {about}{_places(lines)}{end}"
        yield from (f"  - {_text(line, longest)}" for line in lines[:most])
        if 0 < most < len(lines):
            yield f"  - and {len(lines) - most:,} more{_places(lines[most:])}"
        return
    few = max(1, most)
    shown = lines if len(lines) <= few else lines[:most]
    for line in shown:
        is_about_all = line.location is None and line.address is None
        yield f"- {name}{':' if is_about_all else ''} {_text(line, longest, has_end=bool(end))}{end}"
    if rest := lines[len(shown) :]:
        yield f"- **{len(rest):,}** {'more ' if shown else ''}{name}{_places(rest)}{end}"


def _places(lines: Iterable[Line]) -> str:
    """Return about what the lines are that are not shown."""
    addresses = [line.address for line in lines if line.address is not None]
    where = ", ".join(f"{shown} ({len(some):,})" for shown, some in by_prefix(addresses, FEW))
    return f": {where}" if where else ""


def _text(line: Line, longest: int, *, has_end: bool = False) -> str:
    where = "".join(f"{code(str(place))}: " for place in (line.location, line.address) if place is not None)
    message = line.message.removesuffix(".") if has_end else line.message
    return f"{where}{words(message if len(message) <= longest else f'{message[: longest - 1]}…')}"


def _permission(group: FindingGroup) -> str:
    """Return what lifted the findings of a group, or would, as a sentence behind another one."""
    if group.permission is None:
        return ""
    word, what, is_approvable = group.permission
    text = code(what) if what.startswith(ALLOW) else words(what)
    return f". {word}: {f'{words(APPROVAL)}, or {text} (all)' if is_approvable else text}"


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


def note_lines(items: Sequence[str], most: int, others: Sequence[str] = ()) -> Iterator[str]:
    """Yield notes as a list: the first items of `note_items` and how many more there are, then others."""
    yield from items[:most]
    if len(items) > most:
        yield f"- and {counted(len(items) - most, 'more note')}\n" if most else f"- {counted(len(items), 'note')}\n"
    yield from (f"- {other}\n" for other in others)
    if items or others:
        yield "\n"


def note_items(findings: Iterable[Finding]) -> list[str]:
    """Return findings as items of a list, each with the list that it may have of its own; of a rule the first few."""
    items: list[str] = []
    for group in grouped(findings):
        for line in _group_lines(group, FEW):
            if line.startswith("- "):
                items.append(f"- {group.severity}: {line[2:]}\n")
            else:
                items[-1] += f"{line}\n"
        if len(group.lines) > FEW:
            items[-1] = f"{items[-1][:-1]} (list: `--format json`)\n"
    return items
