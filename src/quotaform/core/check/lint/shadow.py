"""Which entries leave another one no request at all.

An entry of a stronger level wins for every request that an entry matches if it asks for nothing more: it names only
what that one names, and takes an empty name wherever that one does. Entries that name something else, however many,
leave some name to it: names are without number.
"""

from __future__ import annotations

from typing import Final

from quotaform.model.entity import Entity
from quotaform.model.precedence import PRECEDENCES, Level, Match, level_of

_COVERING: Final[dict[str, tuple[Level, ...]]] = {
    level.source: tuple(
        stronger
        for stronger in precedence.levels
        if stronger.number < level.number
        and set(stronger.named) <= set(level.named)
        and set(stronger.non_empty) <= set(level.non_empty)
    )
    for precedence in PRECEDENCES
    for level in precedence.levels
}
"""The levels whose entries win for every request of an entry, by the source of its level."""

_COVERED_TYPES: Final = frozenset(
    level.entity_types[0] for each in PRECEDENCES for level in each.levels if _COVERING[level.source]
)
"""The first types of entities that can be shadowed: nearly all have another one, and need no further look."""


def shadowing_entities(entity: Entity) -> tuple[Entity, ...]:
    """Return the entities that win for every request that an entity matches, the strongest first.

    For each quota key: those that hold it. An entity without any is never shadowed.

    >>> [each.address for each in shadowing_entities(Entity(client_id="etl"))]
    ['user=<default>,client-id=etl', 'user=<default>,client-id=<default>', 'user=<default>']
    >>> shadowing_entities(Entity(user="alice"))
    ()
    """
    if entity.parts[0][0] not in _COVERED_TYPES:
        return ()
    level = level_of(entity)
    if level is None or not (covering := _COVERING[level.source]):
        return ()
    names = entity.names
    return tuple(
        [
            Entity.of([(kind, names[kind] if match is Match.EXACT else None) for kind, match in stronger.matches])
            for stronger in covering
        ]
    )
