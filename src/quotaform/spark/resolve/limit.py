"""Principals beside what limits them: a value, a level and entities per quota key, all in one row.

Each group of levels takes one join, of which the principals are the streamed side: the entries are broadcast, and the
principals stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.entity import Entity
from quotaform.model.precedence import LEVELS, Level
from quotaform.spark.resolve.address import is_plain
from quotaform.spark.resolve.level import NAME_COLUMNS, RANKS, reaches
from quotaform.spark.resolve.survey import QuotaSurvey
from quotaform.spark.resolve.table import (
    LevelGroup,
    by_canonical_name,
    entity_column,
    level_groups,
    level_table,
    name_column,
    respelled_type,
    value_column,
)
from quotaform.spark.schemas import CLUSTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CANONICAL_PREFIX: Final = "canonical_"
"""With the column of names after it: the column that has their canonical spelling."""


class Limits:
    """What limits principals by one state of the quotas, as columns beside them.

    Attributes:
        keys: The quota keys; a column is told by the place of its key.
    """

    def __init__(
        self, quotas: DataFrame, survey: QuotaSurvey, keys: Sequence[str], columns: Sequence[str], prefix: str
    ) -> None:
        """Prepare.

        Args:
            prefix: What the names of the new columns begin with; the principals have none such.
        """
        self.keys: Final = tuple(keys)
        self.survey: Final = survey
        self._quotas = quotas
        self._prefix = prefix
        self._columns = tuple(columns)
        self._by_cluster = CLUSTER in columns
        self._groups = [
            group
            for group in level_groups(survey, keys)
            if all(NAME_COLUMNS[entity_type] in columns for entity_type in group.named)
        ]

    @property
    def groups(self) -> tuple[LevelGroup, ...]:
        """The groups of levels whose entries are joined."""
        return tuple(group for group in self._groups if group.named or self._by_cluster)

    @property
    def respelled_types(self) -> tuple[str, ...]:
        """The entity types whose names are needed in canonical spelling; see `CANONICAL_PREFIX`."""
        return tuple(kind for group in self._groups if (kind := respelled_type(group)) is not None)

    def beside(self, principals: DataFrame, broadcast_limit: int) -> DataFrame:
        """Return the principals with the columns of every level.

        Args:
            broadcast_limit: How many bytes a table may have to be broadcast.
        """
        for group in self.groups:
            principals = self._joined(principals, group, "broadcast" if group.size <= broadcast_limit else "merge")
        return principals

    def _joined(self, principals: DataFrame, group: LevelGroup, hint: str) -> DataFrame:
        prefix, kind = self._prefix, respelled_type(group)
        table = level_table(self._quotas, group, self.keys, prefix, self._by_cluster)
        if kind is None:
            return self._left_join(principals, table, group, prefix, "", hint)
        column = name_column(prefix, kind)
        found = self._left_join(
            principals, by_canonical_name(table, kind, prefix), group, prefix, CANONICAL_PREFIX, hint
        )
        if not group.is_respelled:
            return found
        # An entry that spells the name as the principal does comes before one in canonical spelling.
        exact = f"{prefix}exact_"
        odd = level_table(self._quotas, group, self.keys, exact, self._by_cluster)
        odd = odd.where(~is_plain(kind, f.col(name_column(exact, kind))))
        found = self._left_join(found, odd, group, exact, "", hint, marker=f"{exact}found")
        columns = [each for each in table.columns if each not in (column, f"{prefix}{CLUSTER}")]
        exactly = {each: f"{exact}{each.removeprefix(prefix)}" for each in columns}
        return found.select(
            *(each for each in found.columns if each not in columns and not each.startswith(exact)),
            *(
                f.when(f.col(f"{exact}found"), f.col(exactly[each])).otherwise(f.col(each)).alias(each)
                for each in columns
            ),
        )

    def _left_join(
        self,
        principals: DataFrame,
        table: DataFrame,
        group: LevelGroup,
        prefix: str,
        spelling: str,
        hint: str,
        marker: str | None = None,
    ) -> DataFrame:
        pairs = {f"{spelling}{NAME_COLUMNS[each]}": name_column(prefix, each) for each in group.named}
        if self._by_cluster:
            pairs[CLUSTER] = f"{prefix}{CLUSTER}"
        condition = reduce(and_, [f.col(left) == f.col(right) for left, right in pairs.items()])
        marked = table.withColumn(marker, f.lit(True)) if marker else table
        return principals.join(marked.hint(hint), condition, "left").drop(*pairs.values())

    def levels(self, key: str) -> list[Level]:
        """Return the levels that hold a key and that the principals can meet, by precedence."""
        found = {level for group in self._groups for level in group.levels}
        return [level for level in LEVELS if level in found and key in self.survey.keys_of(level.source)]

    def value(self, place: int) -> Column:
        """Return the value of a key by its place; null when nothing limits the principal."""
        values = [value for _, value in self._candidates(place)]
        return f.coalesce(*values) if values else f.lit(None).cast("double")

    def rank(self, place: int) -> Column:
        """Return the rank of the level that wins a key (`level.RANKS`); null when nothing limits the principal."""
        found: Column | None = None
        for level, value in self._candidates(place):
            when = f.when if found is None else found.when
            found = when(value.isNotNull(), RANKS[level.source])
        return f.lit(None).cast("int") if found is None else found

    def entities(self) -> dict[int, Column]:
        """Return the columns with the entity keys, by the rank of their level."""
        found = {}
        for group in self._groups:
            for level in group.levels:
                found[RANKS[level.source]] = (
                    f.col(entity_column(self._prefix, level))
                    if group in self.groups
                    else f.lit(Entity(dict.fromkeys(level.defaults)).address)
                )
        return found

    def _candidates(self, place: int) -> list[tuple[Level, Column]]:
        return [(level, self._level_value(level, place)) for level in self.levels(self.keys[place])]

    def _level_value(self, level: Level, place: int) -> Column:
        if level.named or self._by_cluster:
            value = f.col(value_column(self._prefix, level, place))
        else:
            value = f.lit(self.survey.levels[level.source].defaults[self.keys[place]])
        condition = reaches(level, self._columns)
        return value if condition is None else f.when(condition, value)
