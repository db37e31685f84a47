"""The table `resolved`: what limits principals, a row per principal and quota key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from re import compile as regex
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from quotaform.model.precedence import LEVELS, PRECEDENCES
from quotaform.model.quota_key import QUOTA_KEYS, key_order
from quotaform.spark.resolve.address import with_canonical
from quotaform.spark.resolve.level import NAME_COLUMNS, is_of
from quotaform.spark.resolve.limit import CANONICAL_PREFIX, Limits
from quotaform.spark.resolve.survey import QuotaSurvey, survey
from quotaform.spark.resolve.table import LevelGroup
from quotaform.spark.schemas import BEFORE, CLUSTER, PRINCIPALS, RESOLVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
    """Return `schemas.RESOLVED`: what `quotaform.core.resolve` finds, for any number of principals.

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

    Args:
        principals: `schemas.PRINCIPALS`; columns may be missing, and others are ignored, but for `cluster`.
        keys: The quota keys that are wanted; empty for all.
        before: `schemas.QUOTAS` as they are as long as a plan is not applied; the result then has the columns
            `schemas.BEFORE` as well.
        limited_only: Whether to leave out the rows of keys that nothing limits.
        warn: Called with a sentence when entries are too many to be broadcast (`broadcast.broadcast_limit`), so that
            principals have to be shuffled.

    Raises:
        EngineError: The quotas hold too many unknown keys.
        ValueError: The principals have none of the columns.
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
        rows = limits.beside(rows, limit)
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
    """Turns principals beside what limits them into a row per key."""

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
