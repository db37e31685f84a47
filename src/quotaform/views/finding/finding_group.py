"""Findings of one rule that one thing allows, or would allow: shown together, with that said once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from json.encoder import encode_basestring as quoted
from typing import Final, NamedTuple

from quotaform.core.check import rule
from quotaform.core.check.guard.approval import bound_values, escaped_address
from quotaform.model.approval import APPROVALS_NAME, DELETE
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location
from quotaform.views.style import counted

FEW: Final = 5
"""Up to so many findings say each for themselves what would allow them; of warnings of one rule, so many are shown."""


APPROVAL: Final = f"an approval in {APPROVALS_NAME} (one entity)"
"""What lifts a block of one entity, where an option would lift those of all."""


class Permission(NamedTuple):
    """What lifted a block, or what would.

    Attributes:
        word: `Allowed by` or `Allow`.
        what: An option or an approval.
        is_approvable: Whether an approval would do as well, for one entity alone.
    """

    word: str
    what: str
    is_approvable: bool = False

    def __str__(self) -> str:
        return f"{self.word}: {f'{APPROVAL}, or {self.what} (all)' if self.is_approvable else self.what}"


class Line(NamedTuple):
    """What is said of one entity, or of one place.

    Attributes:
        location: The place in the files, if any.
        address: The address of the entity, if any.
        message: All messages about it.
    """

    location: Location | None
    address: str | None
    message: str


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings with the same rule, severity and permission.

    Attributes:
        findings: At least one.
    """

    findings: tuple[Finding, ...]

    @property
    def rule(self) -> str:
        """The rule of all of them."""
        return self.findings[0].rule

    @property
    def severity(self) -> Severity:
        """The severity of all of them."""
        return self.findings[0].severity

    @property
    def permission(self) -> Permission | None:
        """What lifted all of them, or would; `None` when nothing does."""
        return _permission(self.findings[0])

    @property
    def has_heading(self) -> bool:
        """Whether rule and permission are said once, above the lines."""
        return self.permission is not None and len(self.findings) > FEW

    @property
    def number(self) -> str:
        """How many they are, and about how many entities."""
        addresses = {finding.address for finding in self.findings}
        findings = counted(len(self.findings), "finding")
        if None in addresses:
            return findings
        entities = counted(len(addresses), "entity", "entities")
        return entities if len(addresses) == len(self.findings) else f"{findings} about {entities}"

    @property
    def lines(self) -> tuple[Line, ...]:
        """One line per finding; under a heading, one per entity."""
        if not self.has_heading:
            return tuple(Line(each.location, each.address, each.message) for each in self.findings)
        messages: dict[tuple[Location | None, str | None], list[str]] = {}
        for each in self.findings:
            messages.setdefault((each.location, each.address), []).append(each.message)
        return tuple(Line(*about, "; ".join(dict.fromkeys(some))) for about, some in messages.items())


def grouped(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Return findings that one thing allows or would allow together, in the order of the first of each."""
    groups: dict[tuple[str, Severity, Permission | None], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity, _permission(finding)), []).append(finding)
    return [FindingGroup(tuple(group)) for group in groups.values()]


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
        text = f"and {len(some):,} more (list: --format json)"
        shown.append(replace(some[0], message=text, address=None, key=None, location=None))
    return shown


def _permission(finding: Finding) -> Permission | None:
    if finding.allowed_by is not None:
        return Permission("Allowed by", finding.allowed_by)
    if not finding.blocking or not finding.override:
        return None
    row = rule.RULES.get(finding.rule)
    is_approvable = row is not None and row.is_approvable and finding.allowance is not None
    return Permission("Allow", finding.override, is_approvable)


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
