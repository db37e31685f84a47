"""A finding about a file, an entity or a plan, and the orders in which findings are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from quotaform.model.allowance import Allowance
from quotaform.model.location import Location
from quotaform.printable import printable


class Severity(StrEnum):
    """The severity of a finding: an error stops the command, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem or note; the same value for validation, plans and drift.

    Attributes:
        rule: A short, stable name such as `duplicate-entity`.
        message: What is wrong and what to do, in one or two sentences.
        blocking: Whether it prevents a plan from being applied.
        address: The address of the entity it is about, if any.
        key: The quota key it is about, if any.
        value: The value or the effective limit that the key would have, where an approval may depend on it.
        override: What lifts the block, in words, if anything does.
        allowance: The smallest allowance that lifts it, if one does.
        allowed_by: What lifted it: an option or an approval; `None` for all other findings.
        location: The place in the files, if any.

    Its texts quote what files and clusters hold, or come from a plan file, so they are made printable here.
    """

    rule: str
    message: str
    severity: Severity = Severity.ERROR
    blocking: bool = False
    address: str | None = None
    key: str | None = None
    override: str | None = None
    allowance: Allowance | None = None
    allowed_by: str | None = None
    location: Location | None = None
    value: float | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("rule", "message", "address", "override", "allowed_by"):
            text = getattr(self, name)
            if text is not None and printable(text) is not text:
                object.__setattr__(self, name, printable(text))

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity}: {self.message} [{self.rule}]"


_WEIGHTS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
_NOWHERE = Location("")


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings in files: by file, line and column, in whatever order they were found."""

    def order(finding: Finding) -> tuple[str, int, int, str, str]:
        at = finding.location or _NOWHERE
        return at.file, at.line, at.column, finding.rule, finding.message

    return sorted(findings, key=order)


def by_weight(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings about a cluster: blocking findings, errors, warnings, notes; each by rule, address and key.

    Findings without an entity come first, in the order in which they were found.
    """

    def order(finding: Finding) -> tuple[bool, int, bool, str, str, str]:
        weight = not finding.blocking, _WEIGHTS[finding.severity]
        if finding.address is None:
            return *weight, False, "", "", ""
        return *weight, True, finding.rule, finding.address, finding.key or ""

    return sorted(findings, key=order)
