"""Quotas as tables to join: per combination of names that levels are found by, one table with all these levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quotaform.model.precedence import LEVELS, Level
from quotaform.spark.resolve.address import CANONICAL, with_canonical
from quotaform.spark.resolve.level import NAME_COLUMNS, RANKS, is_on
from quotaform.spark.resolve.survey import QuotaSurvey
from quotaform.spark.schemas import CLUSTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroup:
    """Levels whose entries are found by the same names.

    Attributes:
        named: The entity types, as `Level.named`.
        levels: The levels, by precedence.
        size: How many bytes their entries take when they are broadcast, about.
        is_respelled: Whether names of the entries may be in another spelling than the canonical one.
    """

    named: tuple[str, ...]
    levels: tuple[Level, ...]
    size: int
    is_respelled: bool


def level_groups(survey: QuotaSurvey, keys: Sequence[str]) -> Iterator[LevelGroup]:
    """Yield the groups of levels that hold any of the keys."""
    held = [level for level in LEVELS if not survey.keys_of(level.source).isdisjoint(keys)]
    for named in dict.fromkeys(level.named for level in held):
        levels = tuple(level for level in held if level.named == named)
        found = [survey.levels[level.source] for level in levels]
        yield LevelGroup(
            named=named,
            levels=levels,
            size=sum(each.size for each in found),
            is_respelled=any(each.is_respelled for each in found),
        )


def value_column(prefix: str, level: Level, place: int) -> str:
    """Name the column that has a level's value of a key, by the place of the key."""
    return f"{prefix}value_{RANKS[level.source]}_{place}"


def entity_column(prefix: str, level: Level) -> str:
    """Name the column that has the key of a level's entity."""
    return f"{prefix}entity_{RANKS[level.source]}"


def name_column(prefix: str, entity_type: str) -> str:
    """Name the column of a table that holds the names of a type."""
    return f"{prefix}{NAME_COLUMNS[entity_type]}"


def level_table(quotas: DataFrame, group: LevelGroup, keys: Sequence[str], prefix: str, by_cluster: bool) -> DataFrame:
    """Return the entries of a group, one row per combination of names.

    Args:
        by_cluster: Whether the column `prefix + cluster` is wanted, and rows per cluster.
    """
    names = [f.col("entity")[each].alias(name_column(prefix, each)) for each in group.named]
    cluster = [f.col(CLUSTER).alias(f"{prefix}{CLUSTER}")] if by_cluster else []
    is_wanted = reduce(or_, [is_on(f.col("entity"), level) for level in group.levels]) & f.col("value").isNotNull()
    if respelled_type(group) is None:
        is_wanted &= f.col("key").isin(list(keys))
    # Of several spellings an entry is chosen whatever keys it holds.
    levels = [is_on(f.col("entity"), level).alias(_level_column(level)) for level in group.levels]
    rows = quotas.where(is_wanted).select(*cluster, *names, *levels, "entity_key", "key", "value")
    by = [*(f"{prefix}{CLUSTER}" for _ in cluster), *(name_column(prefix, each) for each in group.named)]
    columns = [column for level in group.levels for column in _level_columns(level, keys, prefix)]
    return rows.groupBy(*by).agg(*columns)


def _level_column(level: Level) -> str:
    return f"is_{RANKS[level.source]}"


def _level_columns(level: Level, keys: Sequence[str], prefix: str) -> Iterator[Column]:
    is_level = f.col(_level_column(level))
    yield f.max(f.when(is_level, f.col("entity_key"))).alias(entity_column(prefix, level))
    for place, key in enumerate(keys):
        # There is one value at most.
        yield f.max(f.when(is_level & (f.col("key") == key), f.col("value"))).alias(value_column(prefix, level, place))


def by_canonical_name(table: DataFrame, entity_type: str, prefix: str) -> DataFrame:
    """Return a level table whose names are canonical: of several spellings of one name, the entry that is meant.

    That is the one in canonical spelling; without it, the first by code points.

    Args:
        table: A level table of entries that name one type.
    """
    column, canonical = name_column(prefix, entity_type), f"{prefix}canonical"
    by = [each for each in (f"{prefix}{CLUSTER}",) if each in table.columns]
    others = [each for each in table.columns if each not in (*by, column)]
    spelled = with_canonical(table, entity_type, column, canonical)
    best = f.min_by(f.struct(*others), f.struct(f.col(column) != f.col(canonical), f.col(column)))
    return (
        spelled.groupBy(*by, canonical)
        .agg(best.alias("best"))
        .select(*by, f.col(canonical).alias(column), *(f.col("best")[each].alias(each) for each in others))
    )


def respelled_type(group: LevelGroup) -> str | None:
    """Return the type that a group names whose names have several spellings."""
    return next((each for each in group.named if each in CANONICAL), None)
