"""What a plan does to one entity: its rows, what they do to effective limits, and what they are due to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from quotaform.core.change import Action, Change
from quotaform.core.effects import Direction, Effect
from quotaform.core.origin import Origin, key_origin
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.entry import Cause
from quotaform.model.location import Location
from quotaform.model.quotas import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """The changes of one entity, which the broker makes all or not at all.

    Attributes:
        before: All values that the cluster holds, empty when the entity is not there.
        after: All values that it will hold, empty when the entity will be gone.
        changes: One row per key that changes, in the order of the keys.
        effects: What each row does to the effective limit.
        reason: Why, in the words of the files; for a deletion `state: absent` or `expired DATE`, or why it is pruned.
        cause: What in the files it follows from; the other texts are about the entry if there is one.
        origin: What it is due to; `None` without a base to compare with, see `quotaform.core.origin`.
        base: What the base declares for the entity, empty when it must not exist; `None` when the base does not declare
            it, and without a base.
        owner: Whose entry it is, in the words of the files.
        expires: The day (UTC) from which on the entry will count as absent.
    """

    entity: Entity
    before: Values
    after: Values
    changes: tuple[Change, ...]
    effects: tuple[Effect, ...]
    reason: str | None = None
    cause: Cause = Cause.ENTRY
    origin: Origin | None = None
    base: Values | None = None
    owner: str | None = None
    location: Location | None = None
    expires: date | None = None

    @property
    def action(self) -> Action:
        """What happens to the entity."""
        if not self.before:
            return Action.CREATE
        return Action.UPDATE if self.after else Action.DELETE

    @property
    def direction(self) -> Direction:
        """What happens to the effective limits, taken together."""
        taken = Direction.NONE
        for change, effect in zip(self.changes, self.effects, strict=True):
            direction = effect.direction(change.key)
            if taken is Direction.NONE:
                taken = direction
            elif direction is not taken and direction is not Direction.NONE:
                return Direction.MIXED
        return taken

    @property
    def becomes_unlimited(self) -> bool:
        """Whether an effective limit becomes unlimited."""
        return any(
            effect.becomes_unlimited(change.key) for change, effect in zip(self.changes, self.effects, strict=True)
        )

    def origin_of(self, row: Change) -> Origin | None:
        """Return what one of the rows is due to; `None` without a base."""
        if self.origin is None or self.base is None:
            return self.origin
        return key_origin(self.base.get(row.key), row)

    def alteration(self) -> Alteration:
        """What to send for it: what the rows say."""
        ops = {change.key: change.after for change in self.changes}
        # Of a created entity both are the same, and there may be very many of them in memory.
        return Alteration(self.entity, self.after if self.after == ops else ops)
