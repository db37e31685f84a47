"""Drift that is known and accepted for a time: `drift_ignore` of quotaform.yaml.

It concerns drift and its alerts and nothing else: a plan shows, and an apply reverts, what is ignored here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from quotaform.core.check import rule
from quotaform.core.scope import Pattern, Scope
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.model.location import Location
from quotaform.model.text import quote

_SOON: Final = timedelta(days=7)
"""How long before the end of an ignore it is announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftIgnore:
    """One item of `drift_ignore`.

    Attributes:
        match: The entities whose drift is ignored.
        keys: The quota keys whose drift is ignored; empty for all of them.
        reason: Why, in the words of the file.
        expires: The day (UTC) from which on it ignores nothing.
    """

    match: Pattern
    reason: str
    expires: date
    keys: frozenset[str] = frozenset()
    location: Location | None = None
    _entities: Scope = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entities", Scope(include=(self.match,)))

    def covers(self, entity: Entity, key: str) -> bool:
        """Whether it ignores that a key of an entity differs, unless it has expired."""
        return (not self.keys or key in self.keys) and self._entities.contains(entity)


def active_ignores(ignores: Iterable[DriftIgnore], today: date) -> tuple[DriftIgnore, ...]:
    """Return the ignores that have not expired."""
    return tuple(each for each in ignores if today < each.expires)


def check_ignores(ignores: Iterable[DriftIgnore], used: Collection[int], today: date) -> Iterator[Finding]:
    """Yield what to know about ignores: expired, about to expire, or without use.

    `used` holds the ids (`id`) of those that ignored something.
    """
    for each in ignores:
        reason = quote(each.reason)
        if today >= each.expires:
            yield rule.DRIFT_IGNORE_EXPIRED.finding(
                f"this drift_ignore ({reason}) expired {each.expires} and ignores nothing; remove it, or set a later "
                "date",
                location=each.location,
            )
            continue
        if today >= each.expires - _SOON:
            yield rule.DRIFT_IGNORE_EXPIRES.finding(
                f"this drift_ignore ({reason}) expires {each.expires}; what it ignores counts as drift from then on",
                location=each.location,
            )
        if id(each) not in used:
            yield rule.DRIFT_IGNORE_UNUSED.finding(
                f"this drift_ignore ({reason}) ignores nothing at present; remove it if it is no longer needed",
                location=each.location,
            )
