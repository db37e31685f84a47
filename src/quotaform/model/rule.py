"""A rule: the kind of a finding."""

from __future__ import annotations

from dataclasses import dataclass

from quotaform.model.allowance import ALLOW, Allowance
from quotaform.model.approval import APPROVALS_NAME
from quotaform.model.finding import Finding, Severity
from quotaform.model.location import Location


@dataclass(frozen=True, slots=True)
class FindingRule:
    """A rule: one thing that can be found in files, in a plan or on a cluster.

    The rows are in `quotaform.core.check.rule`, and every finding is made from one of them.

    Attributes:
        id: Its short, stable name, as findings show it.
        summary: What a finding of this rule means, in one sentence.
        remedy: What to do about it, in one sentence.
        severity: How much a finding weighs unless the finding says otherwise.
        is_blocking: Whether such a finding prevents a plan from being applied.
        is_allowable: Whether an allowance of the operator lifts the block.
        takes_number: Whether that takes the number up to which it does.
        is_approvable: Whether `approvals.yaml` can lift the block for one entity.
        is_lint: Whether `lints.ignore` of quotaform.yaml can ignore it.
    """

    id: str
    summary: str
    remedy: str
    severity: Severity = Severity.ERROR
    is_blocking: bool = False
    is_allowable: bool = False
    is_lint: bool = False
    takes_number: bool = False
    is_approvable: bool = False

    @property
    def override(self) -> str | None:
        """What lifts the block, in words; `None` if nothing does."""
        if self.is_allowable:
            return f"{ALLOW} {self.id}{'=N' if self.takes_number else ''}"
        return f"an approval in {APPROVALS_NAME}" if self.is_approvable else None

    def finding(
        self,
        message: str,
        *,
        severity: Severity | None = None,
        address: str | None = None,
        key: str | None = None,
        value: float | None = None,
        number: int | None = None,
        override: str | None = None,
        location: Location | None = None,
    ) -> Finding:
        """Make a finding of this rule.

        Args:
            message: What is wrong and what to do, in one or two sentences.
            severity: How much it weighs, if that is not what the rule says.
            address: The address of the entity it is about.
            key: The quota key it is about.
            value: The value that the key would have.
            number: Up to how much it must be allowed, for a rule that counts.
            override: What lifts this finding, in words, if that is not what the rule says.

        >>> str(FindingRule("no-values", "An entry has no values.", "Write some.").finding("user=a has no values"))
        'error: user=a has no values [no-values]'
        """
        is_counted = number is not None or not self.takes_number
        allowance = Allowance(self.id, number) if self.is_allowable and is_counted else None
        if override is None:
            override = self.override if allowance is None else allowance.option
        return Finding(
            rule=self.id,
            message=message,
            severity=self.severity if severity is None else severity,
            blocking=self.is_blocking,
            address=address,
            key=key,
            value=value,
            override=override,
            allowance=allowance,
            location=location,
        )
