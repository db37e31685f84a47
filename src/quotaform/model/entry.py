"""What the files say about one entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from quotaform.model.entity import Entity
from quotaform.model.location import Location
from quotaform.model.quotas import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One declared entity, after lists, profiles and layers were expanded.

    Attributes:
        entity: To whom it applies.
        values: Every quota key that the entity must have; empty when it must not exist.
        location: Where the entry begins.
        owner: Free text shown in plans.
        reason: Free text shown in plans.
        absent: Why the entity must not exist: `state: absent` or `expired DATE`; `None` when it must.
    """

    entity: Entity
    values: Values
    location: Location
    owner: str | None = None
    reason: str | None = None
    absent: str | None = None


Desired: TypeAlias = Mapping[Entity, Entry]
"""What the files say, by entity."""
