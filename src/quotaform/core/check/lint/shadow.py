"""Which entries leave another one no request at all.

Of the requests that an entry matches, one meets the fewest others: it has names that no other quota mentions, and an
empty client-id if the entry asks for none. What wins for that request wins for all of them: the others meet the same
entries, and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from quotaform.core.check.lint.fact import LintFacts
from quotaform.core.resolve.entry import effective
from quotaform.core.resolve.index import QuotaIndex
from quotaform.core.resolve.request import barest
from quotaform.model.entity import Entity
from quotaform.model.precedence import LEVELS, Match, level_of

_NOT_SHADOWED: Final[Mapping[str, Entity]] = {}


def shadowed_keys(facts: LintFacts, entity: Entity, keys: Iterable[str]) -> Mapping[str, Entity]:
    """Return the keys that no request has from an entity, each with the entity that every request has it from.

    `facts` is what the cluster holds. `keys` are quota keys of it.
    """
    level = level_of(entity)
    if level is None or level.source not in _shadowed_sources():
        return _NOT_SHADOWED
    entries = facts.index.entries(barest(entity))
    found = ((key, effective(entries, key)) for key in keys)
    return {
        key: winner.source
        for key, winner in found
        if winner.source is not None and winner.level is not None and winner.level.number < level.number
    }


@lru_cache(maxsize=1)
def _shadowed_sources() -> frozenset[str]:
    """Return the levels whose entries can be shadowed: such an entry loses when each level has an entry.

    Nearly all entities are of another level, and need no look at what the cluster holds.
    """
    entities = [
        Entity.of([(kind, "any" if match is Match.EXACT else None) for kind, match in level.matches])
        for level in LEVELS
    ]
    index = QuotaIndex({entity: {"any": 1.0} for entity in entities})
    return frozenset(
        level.source
        for level, entity in zip(LEVELS, entities, strict=True)
        if effective(index.entries(barest(entity)), "any").source != entity
    )
