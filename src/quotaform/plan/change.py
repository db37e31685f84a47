"""What a plan does to one entity: its rows, their effects, and what they are due to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import StrEnum

from msgspec import Struct

from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.finding import Location
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.quotas import Action, Cause, Change, Values, same_value, same_values
from quotaform.resolve.effect import Direction, Effect

# What a change is due to: the files moved away from a base, the cluster did, or both.
#
# A base is what the files declared before: at another git revision, or when a receipt was written. Without one, no
# origin is given. For a key, with what the base declares, what the files declare now, and the live value:
#
# | | origin |
# | --- | --- |
# | the files declare the entity and the base does not | `config`: what was not managed cannot have drifted |
# | neither declares the entity, and it is pruned as at the base | `drift`: it was made on the cluster |
# | neither declares the entity, and at the base it would not be pruned | `config` |
# | the files declare what the base declares | `drift` |
# | the live value is that of the base | `config` |
# | all three differ | `both` |


class ChangeOrigin(StrEnum):
    """What a change is due to: the files moved away from the base, the cluster did, or both."""

    CONFIG = "config"
    DRIFT = "drift"
    BOTH = "both"


def entity_origin(
    base: Values | None, cause: Cause, before: Values, rows: Iterable[Change], *, prunes_more: bool = False
) -> ChangeOrigin:
    """Return what the changes of one entity are due to, taken together: of different origins it is `both`.

    `base`: what the base declares; `None` when it does not declare the entity. `prunes_more`: whether the entity is
    undeclared, and would not be pruned with the settings of the base.
    """
    if base is None:
        # What neither declares and a file would have to declare to stay was made on the cluster.
        return ChangeOrigin.DRIFT if cause is Cause.UNDECLARED and not prunes_more else ChangeOrigin.CONFIG
    if base and cause is Cause.UNDECLARED:
        live = {key: value for key, value in before.items() if key in QUOTA_KEYS}
        return ChangeOrigin.CONFIG if same_values(live, base) else ChangeOrigin.BOTH
    origins = {key_origin(base.get(row.key), row) for row in rows}
    return origins.pop() if len(origins) == 1 else ChangeOrigin.BOTH


def key_origin(declared: float | None, row: Change) -> ChangeOrigin:
    """Return what the change of one key is due to.

    `declared` is what the base declares for the key; `None` is no value.
    """
    if same_value(declared, row.after):
        return ChangeOrigin.DRIFT
    return ChangeOrigin.CONFIG if same_value(declared, row.before) else ChangeOrigin.BOTH


class EntityChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes of one entity, which the broker makes all or not at all."""

    entity: Entity
    before: Values  # All values that the cluster holds, empty when the entity is not there
    after: Values  # All values that it will hold, empty when the entity will be gone
    changes: tuple[Change, ...]  # One row per key that changes, in the order of the keys
    effects: tuple[Effect, ...]  # What each row does to the effective limit
    # Why, in the words of the files; for a deletion `state: absent` or `expired DATE`, or why it is pruned.
    reason: str | None = None
    cause: Cause = Cause.ENTRY  # What in the files it follows from; the other texts are about the entry if there is one
    # What it is due to; `None` without a base to compare with, see `quotaform.plan.change`.
    origin: ChangeOrigin | None = None
    # What the base declares for the entity, empty when it must not exist; `None` when the base does not declare it, and
    # without a base.
    base: Values | None = None
    owner: str | None = None
    location: Location | None = None
    expires: date | None = None  # The day (UTC) from which on the entry will count as absent

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

    def origin_of(self, row: Change) -> ChangeOrigin | None:
        """Return what one of the rows is due to; `None` without a base."""
        if self.origin is None or self.base is None:
            return self.origin
        return key_origin(self.base.get(row.key), row)

    def alteration(self) -> Alteration:
        """What to send for it: what the rows say."""
        ops = {change.key: change.after for change in self.changes}
        # Of a created entity both are the same, and there may be very many of them in memory.
        return Alteration(self.entity, self.after if self.after == ops else ops)
