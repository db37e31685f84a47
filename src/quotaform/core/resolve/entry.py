"""Quota entries on their level of precedence, and what a request has of those that it meets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quotaform.model.entity import Entity
from quotaform.model.precedence import Level
from quotaform.model.quotas import Values


class Effective(NamedTuple):
    """What limits a request for one quota key.

    Attributes:
        value: The limit; `None` when nothing limits it.
        source: The entity match whose value it is; `None` when nothing limits it.
        level: The level of precedence that won; `None` when nothing limits it.
    """

    value: float | None = None
    source: Entity | None = None
    level: Level | None = None


NO_LIMIT: Final = Effective()
"""Nothing limits the request."""


NO_NAMES: Final[Mapping[str, int]] = {}
"""No name differs; one object, because that is so of nearly every request."""


class Resolved(NamedTuple):
    """What limits a request for one quota key, and what would if that were not there.

    Attributes:
        value: The limit; `None` when nothing limits it.
        source: The entity match whose value it is; `None` when nothing limits it.
        overridden: The entries that hold the key and lost, in order of precedence.
        level: The level of precedence that won; `None` when nothing limits it.
        differs: Of a request without a user or a client-id, entity type to the number of names that resolve to another
            value than a name that no quota mentions; types without such names are left out.
    """

    value: float | None = None
    source: Entity | None = None
    overridden: tuple[Effective, ...] = ()
    level: Level | None = None
    differs: Mapping[str, int] = NO_NAMES

    @property
    def source_name(self) -> str | None:
        """The name that KIP-248 gave to the source, such as `DefaultClientInUser`."""
        return self.level.source if self.level else None

    @property
    def effective(self) -> Effective:
        """The same without the entries that lost."""
        return Effective(self.value, self.source, self.level)

    @property
    def entries(self) -> tuple[Effective, ...]:
        """All entries that hold the key, in order of precedence: the winner, then those that lost to it."""
        return () if self.source is None else (self.effective, *self.overridden)


NOT_LIMITED: Final = Resolved()
"""Nothing limits the request, and there is nothing to override."""

_new: Final = tuple.__new__


class QuotaEntry:
    """The quotas of one entity on their level of precedence.

    Attributes:
        values: Its quotas.
        is_shared: Whether requests of several names in the first column meet it.
        alone: What a request has that meets no other entry with these keys; `None` until `resolve_alone` was called.
    """

    __slots__ = ("_effective", "alone", "entity", "is_shared", "level", "values")

    def __init__(self, level: Level, entity: Entity, values: Values, is_shared: bool) -> None:
        self.level, self.entity, self.values = level, entity, values
        self.is_shared = is_shared
        self._effective: dict[str, Effective] | None = None
        self.alone: dict[str, Resolved] | None = None

    def effective(self, key: str, value: float) -> Effective:
        """What a request has that the entry wins one of its keys for; one object for all who share the entry."""
        if not self.is_shared:
            return _new(Effective, (value, self.entity, self.level))
        if self._effective is None:
            self._effective = {}
        found = self._effective.get(key)
        if found is None:
            found = self._effective[key] = Effective(value, self.entity, self.level)
        return found

    def resolve_alone(self) -> dict[str, Resolved]:
        """Make `alone`, once for many requests."""
        self.alone = {key: Resolved(value, self.entity, (), self.level) for key, value in self.values.items()}
        return self.alone


def effective(entries: Iterable[QuotaEntry], key: str) -> Effective:
    """What limits a request for one quota key, of the entries that it meets: the first that holds the key."""
    for entry in entries:
        value = entry.values.get(key)
        if value is not None:
            return entry.effective(key, value)
    return NO_LIMIT
