"""Something worth saying about a file, an entity or a plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quotaform.model.location import Location


class Severity(StrEnum):
    """How much a finding weighs: an error stops the work, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem or remark; the same value for validation, plans and drift.

    Attributes:
        rule: A short, stable name such as `duplicate-entity`.
        message: What is wrong and what to do, in one or two sentences.
        blocking: Whether a plan that holds this finding may not be applied.
        address: The address of the entity it is about, if any.
        key: The quota key it is about, if any.
        override: The flag that lifts the block, if there is one.
        location: The place in the files, if any.
    """

    rule: str
    message: str
    severity: Severity = Severity.ERROR
    blocking: bool = False
    address: str | None = None
    key: str | None = None
    override: str | None = None
    location: Location | None = None

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity}: {self.message} [{self.rule}]"
