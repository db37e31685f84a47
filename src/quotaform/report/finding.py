"""Findings as text and as Markdown: grouped by rule and by what allows them, what blocks first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring as quoted
from typing import Final, NamedTuple

from msgspec import structs

from quotaform.model import rule
from quotaform.model.finding import APPROVALS_NAME, DELETE, Finding, Location, Severity, bound_values, escaped_address
from quotaform.model.text import inert, option_of
from quotaform.report.markdown import by_prefix, code, details, fenced, shortened, words
from quotaform.report.report import Table
from quotaform.report.text import PLAIN, Style, counted

FEW: Final = 5
"""Up to so many findings say each for themselves what would allow them; of warnings of one rule, so many are shown."""


_APPROVAL: Final = f"an approval in {APPROVALS_NAME} (one entity)"
"""What lifts a block of one entity, where an option would lift those of all."""


class FindingGroup(NamedTuple):
    """Findings with the same rule, severity and permission."""

    rule: str
    severity: Severity
    permission: str  # What lifted all of them, or would; empty when nothing does
    findings: Sequence[Finding]  # At least one

    @property
    def has_heading(self) -> bool:
        """Whether rule and permission are said once, above the lines."""
        return bool(self.permission) and len(self.findings) > FEW

    @property
    def number(self) -> str:
        """How many they are, and about how many entities."""
        addresses = {finding.address for finding in self.findings}
        findings = counted(len(self.findings), "finding")
        if None in addresses:
            return findings
        entities = counted(len(addresses), "entity")
        return entities if len(addresses) == len(self.findings) else f"{findings} about {entities}"

    @property
    def lines(self) -> Sequence[Finding]:
        """One line per finding; under a heading, one per entity and place, with all messages about it."""
        if not self.has_heading:
            return self.findings
        same: dict[tuple[Location | None, str | None], list[Finding]] = {}
        for each in self.findings:
            same.setdefault((each.location, each.address), []).append(each)
        return [
            structs.replace(some[0], message="; ".join(dict.fromkeys(each.message for each in some)))
            for some in same.values()
        ]


def grouped(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Return findings that one thing allows or would allow together, in the order of the first of each."""
    groups: dict[tuple[str, Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity, _permission(finding)), []).append(finding)
    return [FindingGroup(*same, some) for same, some in groups.items()]


def first_of_each_rule(problems: Iterable[Finding]) -> list[Finding]:
    """Return the problems of files in their order: all errors, and of the warnings of each rule the first few.

    How many more there are of a rule is a finding at the end.
    """
    shown: list[Finding] = []
    more: dict[str, list[Finding]] = {}
    counts: Counter[str] = Counter()
    for each in problems:
        counts[each.rule] += each.severity is not Severity.ERROR
        if each.severity is Severity.ERROR or counts[each.rule] <= FEW:
            shown.append(each)
        else:
            more.setdefault(each.rule, []).append(each)
    for some in more.values():
        text = f"and {len(some):,} more (list: {option_of('format')} json)"
        shown.append(structs.replace(some[0], message=text, address=None, key=None, location=None))
    return shown


def _permission(finding: Finding) -> str:
    if finding.allowed_by is not None:
        return f"Allowed by: {finding.allowed_by}"
    if not finding.blocking or not finding.override:
        return ""
    is_either = finding.rule in rule.APPROVABLE and finding.allowance is not None
    return f"Allow: {f'{_APPROVAL}, or {finding.override} (all)' if is_either else finding.override}"


def approval_item(blocking: Iterable[Finding]) -> str | None:
    """Return the item of approvals.yaml that would lift the first block that nothing but an approval lifts.

    `None` when there is no such block.
    """
    protected = [finding for finding in blocking if finding.rule == rule.PROTECT.id]
    if not protected:
        return None
    needed = protected[0]
    values = bound_values(finding for finding in protected if finding.address == needed.address)
    bound = f" action: {DELETE}," if needed.key is None else f" to: {values}," if values else ""
    address = quoted(escaped_address(needed.address or ""))
    return f"- {{rule: {needed.rule}, address: {address},{bound} reason: WHY, approver: WHO, expires: YYYY-MM-DD}}"


APPROVAL_EXAMPLE: Final = f"An approval is an item of {APPROVALS_NAME}, such as"
"""The words before an `approval_item`."""


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
    listed: str = f"{option_of('format')} json",
) -> Iterator[str]:
    """Yield lines: what blocks first, under its own heading, then the others.

    Entities that are no longer declared have a heading of their own, see `render_removed`.

    `heading`: what stands above what blocks. `most`: how many lines of a rule that blocks are shown. `most_others`: how
    many of another rule. `listed`: what shows the lines that are left out.
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
                yield from _text_group_lines(group, width, style, number, listed)
    if (item := approval_item(blocking)) is not None:
        yield APPROVAL_EXAMPLE
        yield f"    {item}"


def _text_group_lines(group: FindingGroup, width: int, style: Style, most: int, listed: str) -> Iterator[str]:
    begin = f"  {style.paint(f'{group.rule:<{width}}', _COLOURS[group.severity])}  "
    end = f"   {group.permission}" if group.permission else ""
    if group.has_heading:
        yield f"{begin}{group.number}{end}"
        begin, end = "    ", ""
        needed = group.findings[0].allowance
        if needed is not None and needed.rule != group.rule:  # It follows from what the other rule has counted.
            most = min(most, FEW)
    lines = group.lines
    for line in lines[:most]:
        where = "".join(f"{place}: " for place in (line.location, line.address) if place)
        yield f"{begin}{where}{line.message}{end}"
    if len(lines) > most:
        yield f"{begin}and {len(lines) - most:,} more (list: {listed})"


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
        yield f"    and {len(removed) - _MOST_REMOVED:,} more (list: {option_of('format')} json)"
    yield ""


_LABEL: Final = f"In quotaform's CI workflows, the label `quotas-allow:RULE` gives `{option_of('allow')} RULE`."
_MOST_RULES: Final = 30
_LONGEST_MESSAGE: Final = 600
_SHORT_MESSAGE: Final = 150
_LONGEST_ITEM: Final = 500
_ALL: Final = 1 << 40


def block_lines(blocking: Sequence[Finding], heading: str, most: int) -> Iterator[str]:
    """Yield a caution with what blocks: of each rule the first lines, and how many more there are.

    `most` is how many lines of a rule are shown; with 0 the caution fits however many there are. `heading` is its first
    line; that of a plan if it is empty.
    """
    if not blocking:
        return
    groups = grouped(blocking)
    shown = groups if most == _ALL else groups[:_MOST_RULES]
    lines = [line for group in shown for line in _markdown_group_lines(group, most)]
    if len(groups) > len(shown):
        lines.append(f"- and {len(groups) - len(shown):,} more rules")
    yield "> [!CAUTION]\n"
    they = "it is" if len(blocking) == 1 else "they are"
    blocked = f"Blocked by {counted(len(blocking), 'finding')}: nothing will be applied until {they} resolved."
    yield f"> **{heading or blocked}**\n>\n"
    yield from (f"> {line}\n" for line in lines)
    if any(finding.allowance is not None for finding in blocking):
        yield f">\n> {_LABEL}\n"
    item = approval_item(blocking)
    if item is not None and len(item) <= _LONGEST_ITEM:  # Else its address is too long for a comment.
        yield f">\n> {words(APPROVAL_EXAMPLE)}\n>\n"
        yield from (f"> {line}\n" for line in fenced(item, "yaml").splitlines())
    yield "\n"


def _markdown_group_lines(group: FindingGroup, most: int) -> Iterator[str]:
    """Yield the items of a list, of which one with a heading has a list of its own."""
    lines, longest = group.lines, _LONGEST_MESSAGE if most else _SHORT_MESSAGE
    name = code(group.rule, 60)
    what = group.findings[0].allowed_by or group.findings[0].override or ""
    shown = code(what) if what.startswith(option_of("allow")) else words(what)
    end = f". {group.permission.replace(what, shown)}" if group.permission else ""
    if group.has_heading:
        about = f"{name} {group.number}"
        yield f"- {about}{end}" if most else f"- {about}{_places(lines)}{end}"
        yield from (f"  - {_markdown_line(line, longest)}" for line in lines[:most])
        if 0 < most < len(lines):
            yield f"  - and {len(lines) - most:,} more{_places(lines[most:])}"
        return
    few = lines if len(lines) <= max(1, most) else lines[:most]
    for line in few:
        is_about_all = line.location is None and line.address is None
        yield f"- {name}{':' if is_about_all else ''} {_markdown_line(line, longest, has_end=bool(end))}{end}"
    if rest := lines[len(few) :]:
        yield f"- **{len(rest):,}** {'more ' if few else ''}{name}{_places(rest)}{end}"


def _places(lines: Iterable[Finding]) -> str:
    """Return about what the lines are that are not shown."""
    addresses = [line.address for line in lines if line.address is not None]
    where = ", ".join(f"{shown} ({len(some):,})" for shown, some in by_prefix(addresses, FEW))
    return f": {where}" if where else ""


def _markdown_line(line: Finding, longest: int, *, has_end: bool = False) -> str:
    where = "".join(f"{code(str(place))}: " for place in (line.location, line.address) if place is not None)
    message = line.message.removesuffix(".") if has_end else line.message
    return f"{where}{words(shortened(message, longest))}"


def findings_table(findings: Iterable[Finding]) -> Table:
    """Return findings as the table of a page, what blocks first."""
    ordered = sorted(findings, key=lambda each: (not each.blocking, each.rule, each.address or ""))
    rows = tuple(
        (
            each.address or "-", each.rule, "blocks" if each.blocking else each.severity.value, inert(each.message),
            f"allowed by {each.allowed_by}" if each.allowed_by else each.override or "-", str(each.location or "-"),
        )
        for each in ordered
    )  # fmt: skip
    return Table("Findings", ("entity", "rule", "severity", "finding", "override", "place"), rows)


def removed_lines(removed: Sequence[Finding], most: int) -> Iterator[str]:
    """Yield the entities that the files declared before and do not declare any more, the first ones if many."""
    if not removed:
        return
    stay = "stays" if len(removed) == 1 else "stay"
    yield f"#### Removed from the files, {stay} on the cluster: {counted(len(removed), 'entity')}\n\n"
    for finding in removed[:most]:
        yield f"- {code(finding.address or '')}: {words(finding.message)}\n"
    if len(removed) > most:
        yield f"- {'and ' if most else ''}{len(removed) - most:,}{' more' if most else ''} (list: `quotaform plan`)\n"
    yield "\n"


def note_lines(findings: Sequence[Finding], most: int) -> Iterator[str]:
    """Yield findings as a list that is folded: the first ones, and how many more there are; of a rule the first few."""
    items: list[str] = []
    for group in grouped(findings):
        for line in _markdown_group_lines(group, FEW):
            if line.startswith("- "):
                items.append(f"- {group.severity}: {line[2:]}\n")
            else:  # of the list that an item may have of its own
                items[-1] += f"{line}\n"
        if len(group.lines) > FEW:
            items[-1] = f"{items[-1][:-1]} (list: `{option_of('format')} json`)\n"
    shown, left = items[:most], len(items) - most
    if left > 0:
        shown.append(f"- and {counted(left, 'more note')}\n" if most else f"- {counted(left, 'note')}\n")
    if shown:
        yield details(f"Notes ({len(items):,})", "".join(shown))
