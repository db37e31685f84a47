"""How many problems of files are shown: the first hundred, and that there are more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quotaform.model import rule
from quotaform.model.finding import Finding, Severity, by_place

MAX_PROBLEMS: Final = 100
"""How many errors are shown, and how many warnings and notes."""


class FindingList:
    """Findings up to a limit: a file of a million mistakes has a hundred problems, and a line that says so."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self.errors: list[Finding] = []  # the first errors that were added
        self.others: list[Finding] = []  # the first warnings and notes that were added
        self._has_more_errors = False
        self._has_more_others = False
        self.extend(findings)

    @property
    def is_full(self) -> bool:
        """Whether there are more errors than are shown, so that looking for others is of no use."""
        return self._has_more_errors

    def add(self, finding: Finding) -> bool:
        """Add a finding, if there is room, and return whether there was."""
        if finding.rule == rule.MORE_PROBLEMS.id:
            self._has_more_errors = True
        elif finding.rule == rule.MORE_WARNINGS.id:
            self._has_more_others = True
        elif finding.severity is Severity.ERROR:
            if len(self.errors) < MAX_PROBLEMS:
                self.errors.append(finding)
                return True
            self._has_more_errors = True
        elif len(self.others) < MAX_PROBLEMS:
            self.others.append(finding)
            return True
        else:
            self._has_more_others = True
        return False

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings, if there is room."""
        for finding in findings:
            self.add(finding)

    def all(self) -> list[Finding]:
        """Return what is shown, sorted by place; at the end, whether there are more."""
        return by_place([*self.errors, *self.others]) + self.marks()

    def marks(self) -> list[Finding]:
        """Return what says that there are more than are shown."""
        findings: list[Finding] = []
        if self._has_more_errors:
            text = f"and more: only the first {MAX_PROBLEMS} problems are shown; correct them and check again"
            findings.append(rule.MORE_PROBLEMS.finding(text))
        if self._has_more_others:
            findings.append(rule.MORE_WARNINGS.finding(f"and more: only the first {MAX_PROBLEMS} warnings are shown"))
        return findings


def first_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first findings by place, at most as many as are shown; at the end, whether there are more."""
    return FindingList(by_place(findings)).all()
