"""What a person approves for one entity although a rule would block it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from quotaform.model.entity import Entity
from quotaform.model.location import Location
from quotaform.model.text import inert

APPROVALS_NAME: Final = "approvals.yaml"
"""The file of approvals, beside quotaform.yaml."""

MOST_DAYS: Final = 30
"""How many days ahead an approval may expire."""

MOST_APPROVALS: Final = 1000
"""How many approvals the file may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An item of approvals.yaml.

    Attributes:
        rule: The id of the rule.
        entity: The only entity that it is for.
        reason: Why, in the words of the file.
        approver: Who approved it.
        expires: The day (UTC) from which on it lifts nothing.
        location: Where it is written, if it comes from the file.
    """

    rule: str
    entity: Entity
    reason: str
    approver: str
    expires: date
    location: Location | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"approval of {inert(self.approver)}, until {self.expires}"
