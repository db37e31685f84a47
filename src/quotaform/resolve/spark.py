"""What limits principals, for any number of them: principals joined with quotas, a row per principal and quota key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from re import compile as regex
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.entity import Entity
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.resolve.spark_quotas import (
    CLUSTER,
    DOUBLE,
    INTEGER,
    NAME_COLUMNS,
    PRINCIPALS,
    RANKS,
    TEXT,
    LevelGroup,
    QuotaSurvey,
    by_canonical_name,
    entity_column,
    is_of,
    is_plain,
    level_groups,
    level_table,
    name_column,
    reaches,
    respelled_type,
    struct,
    survey,
    value_column,
    with_canonical,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


RESOLVED: Final = struct(
    struct(cluster=TEXT), PRINCIPALS, key=TEXT, value=DOUBLE, source=TEXT, level=INTEGER, entity_key=TEXT, bucket=TEXT
)
"""What limits principals, a row per principal and key, as `quotaform.resolve.spark` makes it.

| column | content |
| --- | --- |
| cluster | that of the principal or of the quotas; null when neither has one |
| value | the limit; null, as all that follow, when nothing limits the principal |
| source, level | the name that KIP-248 gave to the level of precedence that won, and its number |
| entity_key | the entity match whose value it is |
| bucket | the entity types whose names distinguish one rate from another, such as `user,client-id` |
"""

BEFORE: Final = struct(before_value=DOUBLE, before_source=TEXT, before_level=INTEGER, before_entity_key=TEXT)
"""What limits a principal as long as a plan is not applied; further columns of `RESOLVED`."""


# Principals with what limits them: a value, a level and entities per quota key, all in one row.
#
# Each group of levels takes one join, of which the principals are the streamed side: the entries are broadcast, and the
# principals stay where they are.

CANONICAL_PREFIX: Final = "canonical_"
"""With the column of names after it: the column that has their canonical spelling."""


class Limits:
    """What limits principals by one state of the quotas, as further columns.

    Attributes:
        keys: The quota keys; a column is told by the place of its key.
    """

    def __init__(
        self, quotas: DataFrame, survey: QuotaSurvey, keys: Sequence[str], columns: Sequence[str], prefix: str
    ) -> None:
        """Prepare."""
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

    def join(self, principals: DataFrame, broadcast_limit: int) -> DataFrame:
        """Return the principals with the columns of every level."""
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


_AFTER: Final = "quota_"
_BEFORE: Final = "before_"


def _ignore(_: str) -> None:
    pass


def resolved(
    principals: DataFrame,
    quotas: DataFrame,
    *,
    keys: Sequence[str] = (),
    before: DataFrame | None = None,
    limited_only: bool = False,
    warn: Callable[[str], None] = _ignore,
) -> DataFrame:
    """Return `RESOLVED`: what `quotaform.core.resolve` finds, for any number of principals.

    There are as many rows as principals times quota keys that are valid for them, equal principals included. Of other
    keys (those that this version does not know) there is a row where an entry limits the principal, or if one asks
    for the key.

    | principals have a cluster | the quotas are of | a principal is resolved |
    | --- | --- | --- |
    | yes | any clusters | on its cluster; it is left out if that was not read |
    | no | several clusters | on each of them |
    | no | one cluster or none | on that |

    One Spark job looks through the quotas at once (`survey`), and they are read again when the result is, several
    times: they should be a table or persisted.

    `principals`: `PRINCIPALS`; columns may be missing, and others are ignored, but for `cluster`. `keys`: The
    quota keys that are wanted; empty for all. `before`: `QUOTAS` as they are as long as a plan is not applied;
    the result then has the columns `BEFORE` as well. `limited_only`: Whether to leave out the rows of keys that
    nothing limits. `warn`: Called with a sentence when entries are too many to be broadcast
    (`broadcast.broadcast_limit`), so that principals have to be shuffled.
    Raises `EngineError` or `ValueError`.
    """
    after_survey = survey(quotas)
    before_survey = survey(before) if before is not None else QuotaSurvey()
    rows = _requests(principals, after_survey)
    wanted = tuple(keys) or tuple(sorted({*after_survey.keys, *before_survey.keys}, key=key_order))
    found = [Limits(quotas, after_survey, wanted, rows.columns, _AFTER)]
    if before is not None:
        found.append(Limits(before, before_survey, wanted, rows.columns, _BEFORE))
    for entity_type in dict.fromkeys(kind for limits in found for kind in limits.respelled_types):
        column = NAME_COLUMNS[entity_type]
        rows = with_canonical(rows, entity_type, column, f"{CANONICAL_PREFIX}{column}")
    limit = broadcast_limit(principals.sparkSession)
    for limits in found:
        for group in limits.groups:
            if group.size > limit:
                warn(shuffle_note(group, limit))
        rows = limits.join(rows, limit)
    return _RowPerKey(rows, found, asked=keys, limited_only=limited_only, clusters=after_survey.clusters).table()


def _requests(principals: DataFrame, survey: QuotaSurvey) -> DataFrame:
    """Return the columns that say who asks, with `cluster` only if that has to be joined."""
    names = [column for column in PRINCIPALS.names if column in principals.columns]
    if not names:
        raise ValueError(f"principals have one or more of the columns {', '.join(PRINCIPALS.names)}")
    columns = [f.col(column).cast("string").alias(column) for column in names]
    clusters = survey.clusters
    if CLUSTER in principals.columns and clusters:
        return principals.select(CLUSTER, *columns).where(f.col(CLUSTER).isin(*clusters))
    if len(clusters) > 1:
        return principals.select(f.explode(f.array(*map(f.lit, clusters))).alias(CLUSTER), *columns)
    return principals.select(*columns)


class _RowPerKey:
    """Turns principals with what limits them into a row per key."""

    def __init__(
        self,
        rows: DataFrame,
        found: Sequence[Limits],
        *,
        asked: Sequence[str],
        limited_only: bool,
        clusters: Sequence[str],
    ) -> None:
        self._rows = rows
        self._columns = rows.columns
        self._found = found
        self._asked = frozenset(asked)
        self._limited_only = limited_only
        self._clusters = clusters

    def table(self) -> DataFrame:
        """Return `RESOLVED`, with `BEFORE` if there is something to compare with."""
        places = [place for place, key in enumerate(self._found[0].keys) if self._is_needed(key)]
        kept = [each for each in (CLUSTER, *PRINCIPALS.names) if each in self._columns]
        entities = [limits.entities() for limits in self._found]
        wide = self._rows.select(
            *kept,
            *(
                column.alias(f"{name}_{number}_{place}")
                for number, limits in enumerate(self._found)
                for place in places
                for name, column in (("value", limits.value(place)), ("rank", limits.rank(place)))
            ),
            *(
                column.alias(f"entity_{number}_{rank}")
                for number, columns in enumerate(entities)
                for rank, column in columns.items()
            ),
        )
        numbers = range(len(self._found))
        cells = [f"{name}_{number}" for number in numbers for name in ("value", "rank")]
        stacked = f.stack(
            f.lit(len(places)),
            *(
                column
                for place in places
                for column in (f.lit(self._found[0].keys[place]), *(f.col(f"{cell}_{place}") for cell in cells))
            ),
        ).alias("key", *cells)
        long = wide.select("*", stacked)
        if (condition := self._kept()) is not None:
            long = long.where(condition)
        return long.select(*self._result(entities)).select(*self._schema)

    @property
    def _schema(self) -> list[str]:
        return [*RESOLVED.names, *(BEFORE.names if len(self._found) > 1 else ())]

    def _is_needed(self, key: str) -> bool:
        """Whether there can be a row with a key."""
        if any(limits.levels(key) for limits in self._found):
            return True
        return not self._limited_only and any(True for _ in self._expected([key]))

    def _expected(self, keys: Sequence[str]) -> Iterator[tuple[list[str], Column | None]]:
        """Yield keys of which there is a row even if nothing limits a principal, and of which principals."""
        others = [key for key in keys if key not in QUOTA_KEYS and key in self._asked]
        if others:
            yield others, None
        for precedence in PRECEDENCES:
            own = [key for key in keys if key in precedence.keys]
            if own and any(NAME_COLUMNS[each] in self._columns for each in precedence.columns):
                yield own, is_of(precedence, self._columns)

    def _kept(self) -> Column | None:
        """Return which rows are kept; `None` for all."""
        is_limited = f.col("rank_0").isNotNull()
        for number in range(1, len(self._found)):
            is_limited |= f.col(f"rank_{number}").isNotNull()
        if self._limited_only:
            return is_limited
        needed = [key for key in self._found[0].keys if self._is_needed(key)]
        condition, certain = is_limited, set()
        for keys, is_kind in self._expected(needed):
            if is_kind is None:
                certain.update(keys)
            row = f.col("key").isin(keys)
            condition |= row if is_kind is None else row & is_kind
        return None if certain.issuperset(needed) else condition

    def _result(self, entities: Sequence[Mapping[int, Column]]) -> Iterator[Column]:
        if CLUSTER in self._columns:
            yield f.col(CLUSTER)
        else:
            yield f.lit(self._clusters[0] if self._clusters else None).cast("string").alias(CLUSTER)
        for column in PRINCIPALS.names:
            yield f.col(column) if column in self._columns else f.lit(None).cast("string").alias(column)
        yield f.col("key")
        ranks = entities[0].keys()
        yield f.col("value_0").alias("value")
        yield _by_rank("rank_0", {rank: f.lit(LEVELS[rank].source) for rank in ranks}).alias("source")
        yield _by_rank("rank_0", {rank: f.lit(LEVELS[rank].number) for rank in ranks}, "int").alias("level")
        yield _by_rank("rank_0", {rank: f.col(f"entity_0_{rank}") for rank in ranks}).alias("entity_key")
        yield _by_rank("rank_0", {rank: f.lit(",".join(LEVELS[rank].bucket)) for rank in ranks}).alias("bucket")
        if len(self._found) > 1:
            ranks = entities[1].keys()
            yield f.col("value_1").alias("before_value")
            yield _by_rank("rank_1", {rank: f.lit(LEVELS[rank].source) for rank in ranks}).alias("before_source")
            yield _by_rank("rank_1", {rank: f.lit(LEVELS[rank].number) for rank in ranks}, "int").alias("before_level")
            yield _by_rank("rank_1", {rank: f.col(f"entity_1_{rank}") for rank in ranks}).alias("before_entity_key")


def _by_rank(rank: str, columns: Mapping[int, Column], kind: str = "string") -> Column:
    """Return the column of the level that won; null when none did."""
    found: Column | None = None
    for number, column in columns.items():
        found = (f.when if found is None else found.when)(f.col(rank) == number, column)
    return (f.lit(None) if found is None else found).cast(kind)


THRESHOLD: Final = "spark.sql.autoBroadcastJoinThreshold"

DEFAULT_LIMIT: Final = 128 * 1024 * 1024
"""More than Spark's own 10 MiB: the other side is principals, which are many. It fits a driver of 1 GiB, Spark's
default, and is about half a million entities."""

_SIZE = regex(r"(-?[0-9]+) *(?:([kmgtp])b?|b)?").fullmatch


def broadcast_limit(spark: SparkSession) -> int:
    """Return how many bytes a table may have to be broadcast.

    | spark.sql.autoBroadcastJoinThreshold | limit |
    | --- | --- |
    | -1, which turns broadcasts off | none is broadcast |
    | up to `DEFAULT_LIMIT`, as in a session that says nothing | `DEFAULT_LIMIT` |
    | larger | the same |
    """
    found = _SIZE((spark.conf.get(THRESHOLD) or "").strip().lower())
    if found is None:
        return DEFAULT_LIMIT
    size = int(found[1]) << (10 * (" kmgtp".index(found[2] or " ")))
    return max(DEFAULT_LIMIT, size) if size >= 0 else -1


def shuffle_note(group: LevelGroup, limit: int) -> str:
    """Say that the principals are shuffled because the entries of a group are too many."""
    named = " and ".join(group.named) or "cluster"
    if limit < 0:
        return f"the quotas by {named} are not broadcast, and principals are shuffled: {THRESHOLD} is -1"
    return (
        f"the quotas by {named} take about {_mebibytes(group.size)} MiB, more than the {_mebibytes(limit)} MiB that "
        f"are broadcast, so principals are shuffled; with enough memory, raise {THRESHOLD}"
    )


def _mebibytes(size: int) -> str:
    return f"{-(-size // (1 << 20)):,}"
