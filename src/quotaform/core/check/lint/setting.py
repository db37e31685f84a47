"""What quotaform.yaml says about lints: what they need to know, and which of their findings are known and accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from quotaform.core.scope import Pattern, Scope
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.quotas import Values

EXPIRES_WITHIN_DAYS: Final = 14
"""How many days before an entry expires that is announced, unless quotaform.yaml says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintIgnore:
    """Findings of a lint that are known and accepted.

    Attributes:
        rule: The id of the lint.
        reason: Why, in the words of the file.
        address: The entity, if it is about one.
        match: The entities, if it is about those that match; with neither it is about all.
        expires: The day (UTC) from which on it ignores nothing.
    """

    rule: str
    reason: str
    address: str | None = None
    match: Pattern | None = None
    expires: date | None = None
    location: Location | None = field(default=None, compare=False)
    _entities: Scope = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entities", Scope(include=() if self.match is None else (self.match,)))

    def covers(self, entity: Entity | None) -> bool:
        """Whether it ignores what the lint finds about an entity, or about a cluster as a whole (`None`)."""
        if entity is None:
            return self.address is None and self.match is None
        return (self.address is None or self.address == entity.address) and self._entities.contains(entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """The settings of lints.

    Attributes:
        expires_within_days: How many days before an entry expires that is announced.
        broker_principals: The users that the brokers are to each other; `None` when nobody says.
        profile_findings: What lints find in the profiles.
    """

    ignores: tuple[LintIgnore, ...] = ()
    expires_within_days: int = EXPIRES_WITHIN_DAYS
    broker_principals: tuple[str, ...] | None = None
    profile_findings: tuple[Finding, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a broker, or for some keys the whole cluster, can do.

    Attributes:
        values: By quota key, in its unit.
        places: Where each is written.
    """

    values: Values = field(default_factory=dict)
    places: Mapping[str, Location] = field(default_factory=dict, compare=False)
