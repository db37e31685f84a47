"""An approval: a rule lifted for one entity, or for those that a pattern matches."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from quotaform.model.entity import Entity, spell_name
from quotaform.model.location import Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.text import inert
from quotaform.model.units import render_value

APPROVALS_NAME: Final = "approvals.yaml"
"""The file of approvals, next to quotaform.yaml."""

MOST_DAYS: Final = 30
"""The limit on the days until an approval expires."""

MOST_APPROVALS: Final = 1000
"""The limit on the approvals in the file."""


CHANGE: Final = "change"
"""The default action of an approval: the entity is created or updated."""

DELETE: Final = "delete"
"""The other action of an approval: the entity is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An item of approvals.yaml.

    Attributes:
        rule: The id of the rule.
        entity: The only entity that it is for; its names may be globs, see `quotaform.core.check.guard.approval`.
        cluster: The only cluster that it is for, or a glob over names; `None` for any.
        reason: Why, in the words of the file.
        approver: Who approved it.
        expires: The date (UTC) from which it has no effect.
        action: What may happen to the entity: `CHANGE` or `DELETE`.
        to: The only keys that it is for, each with the only value that may be the outcome; any if empty.
        is_new: Whether the base does not have it in this form.
        location: Where it is written, if it comes from the file.
    """

    rule: str
    entity: Entity
    cluster: str | None = None
    reason: str
    approver: str
    expires: date
    action: str = CHANGE
    to: tuple[tuple[str, float], ...] = ()
    is_new: bool = field(default=False, compare=False)
    location: Location | None = field(default=None, compare=False)

    def __str__(self) -> str:
        bound = f", {self.bound}" if self.bound else ""
        return f"approval of {inert(self.approver)}, until {self.expires}{bound}"

    @property
    def target(self) -> str:
        """What it is for: an address, and the cluster if it names one."""
        return f"{self.entity.address}{'' if self.cluster is None else f' on {spell_name(self.cluster)}'}"

    @property
    def is_for_any_value(self) -> bool:
        """Whether it is for a change to any value."""
        return self.action == CHANGE and not self.to

    @property
    def bound(self) -> str:
        """What it is for only, in words; empty if for any change."""
        if self.action == DELETE:
            return "to delete it"
        values = (f"{inert(key)} {render_value(QUOTA_KEYS.get(key), value)}" for key, value in self.to)
        return f"for {', '.join(values)}" if self.to else ""
