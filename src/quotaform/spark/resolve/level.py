"""The levels of precedence as columns: where a principal's names are, and on which level an entity is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.entity import KNOWN_TYPES
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level, Precedence

if TYPE_CHECKING:
    from pyspark.sql import Column

NAME_COLUMNS: Final = {row.name: row.parameter for row in KNOWN_TYPES.values()}
"""Entity type to the column of `schemas.PRINCIPALS` in which its name is."""

PRECEDENCE_OF: Final = {level.source: precedence for precedence in PRECEDENCES for level in precedence.levels}
"""The precedence that has a level, by the level's source."""

LEVEL_OF: Final = {level.source: level for level in LEVELS}
"""The levels by source."""

RANKS: Final = {level.source: rank for rank, level in enumerate(LEVELS)}
"""A number of its own for each level, whichever precedence has it."""


def source_of(entity: Column) -> Column:
    """Return the source of the level that an entity (`entity` of `schemas.QUOTAS`) is on; null for none."""
    found = f.when(is_on(entity, LEVELS[0]), LEVELS[0].source)
    for level in LEVELS[1:]:
        found = found.when(is_on(entity, level), level.source)
    return found


def is_on(entity: Column, level: Level) -> Column:
    """Return whether an entity is on a level; it is not if no request meets it because a name is empty."""
    holds = f.size(entity) == len(level.entity_types)
    for entity_type in level.entity_types:
        holds &= f.map_contains_key(entity, entity_type)
    for entity_type in level.named:
        holds &= entity[entity_type].isNotNull()
        if entity_type in level.non_empty:
            holds &= entity[entity_type] != ""
    for entity_type in level.defaults:
        holds &= entity[entity_type].isNull()
    return holds


def is_of(precedence: Precedence, columns: Sequence[str]) -> Column | None:
    """Return whether a principal is of a kind; `None` when all are, and a false literal when none is."""
    own = [NAME_COLUMNS[each] for each in precedence.columns if NAME_COLUMNS[each] in columns]
    others = [
        NAME_COLUMNS[each]
        for other in PRECEDENCES
        if other is not precedence
        for each in other.columns
        if NAME_COLUMNS[each] in columns
    ]
    if not others:
        return None
    if not own:
        return f.lit(False)
    # A row without any name is a client that no quota mentions: every request has a user.
    if precedence is PRECEDENCES[0]:
        return _all_null(others)
    return ~_all_null(own)


def _all_null(columns: list[str]) -> Column:
    found = f.col(columns[0]).isNull()
    for column in columns[1:]:
        found &= f.col(column).isNull()
    return found


def reaches(level: Level, columns: Sequence[str]) -> Column | None:
    """Return which of the principals that join a level's entries meet them; `None` for all.

    Joining takes care of the names of `Level.named`: entries have no empty name where the level requires one.
    """
    condition = None if level.named else is_of(PRECEDENCE_OF[level.source], columns)
    for entity_type in level.non_empty:
        column = NAME_COLUMNS[entity_type]
        if entity_type not in level.named and column in columns:
            is_named = f.col(column).isNull() | (f.col(column) != "")
            condition = is_named if condition is None else condition & is_named
    return condition
