"""Quotas as tables to join: levels of precedence as columns, what each level holds, names with several spellings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quotaform.model.entity import IP, KNOWN_TYPES
from quotaform.model.errors import EngineError
from quotaform.model.precedence import LEVELS, PRECEDENCES, Level, Precedence
from quotaform.model.quota_key import QUOTA_KEYS, key_order

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, Row


# Tables of the Spark engine are in long format: one row per cluster, entity and quota key. An entity is identified by
# its `entity_key`, which is `Entity.address`: canonical, unique and never null. Its names are in `entity`, where null
# is the default; they are never join columns, because NULL = NULL is not true in SQL.

TEXT: Final = StringType()
DOUBLE: Final = DoubleType()
INTEGER: Final = IntegerType()
LONG: Final = LongType()
BOOLEAN: Final = BooleanType()
TIME: Final = TimestampType()
BINARY: Final = BinaryType()
NAMES: Final = MapType(TEXT, TEXT)
"""The names of an entity by entity type."""


def struct(*begin: StructType, **columns: DataType) -> StructType:
    """Return the columns of a table: those of other tables, then these."""
    fields = [field for each in begin for field in each.fields]
    return StructType([*fields, *(StructField(name, kind) for name, kind in columns.items())])


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """Return the schema as Arrow has it, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def completed(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the columns of a schema; those that rows lack are null, and others are left out."""
    present = set(rows.columns)
    return rows.select(
        *(
            f.col(field.name) if field.name in present else f.lit(None).cast(field.dataType).alias(field.name)
            for field in schema
        )
    )


FAILURE: Final = struct(kind=TEXT, message=TEXT, remedy=TEXT, cluster=TEXT, server=TEXT, code=INTEGER, problems=TEXT)
"""The failure to read a cluster: the class of `quotaform.model.errors`, its message, the attributes of a
`ClusterError`,
and if files are invalid all problems as JSON; see `quotaform.fleet.data_source`."""

QUOTAS: Final = struct(
    cluster=TEXT,
    cluster_id=TEXT,
    entity_key=TEXT,
    entity=NAMES,
    key=TEXT,
    value=DOUBLE,
    failure=FAILURE,
    read_at=TIME,
    brokers=INTEGER,
)
"""What clusters hold, as the data source `kafka_quotas` reads it.

| cluster | rows |
| --- | --- |
| with quotas | one per entity and key |
| without any | one without an entity |
| that could not be read | one without an id and an entity, with `failure` |

`read_at` is when the cluster was read, in the time of its snapshot if it is one; null if it could not be read.
`brokers` is how many brokers the cluster has; null of a snapshot and where it is not known.
"""

CLUSTER: Final = "cluster"
"""The column by which rows are of a cluster: all tables about clusters have it, and one of principals may."""

PRINCIPALS: Final = struct(user=TEXT, client_id=TEXT, ip=TEXT)
"""Who makes requests: a row is a client (user, client-id or both) or an address (ip alone).

Null is a name that no quota mentions, and "" an empty client-id. A table may also have the column `cluster`.
"""


# Names that have several spellings, which are addresses: the canonical one, by expressions where that is enough.
#
# Nearly every name is written as `Precedence.canonical` would return it, and a regular expression tells that. Only
# names
# that it does not match go through that function, in Python, batch by batch.

CANONICAL: Final[dict[str, Callable[[str], str | None]]] = {
    entity_type: function for precedence in PRECEDENCES for entity_type, function in precedence.canonical.items()
}
"""Entity type to the function that returns the canonical spelling of a name."""


def _address_pattern() -> str:
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    group = "[1-9a-f][0-9a-f]{0,3}"
    any_group = f"(?:0|{group})"
    forms = (
        rf"{octet}(?:\.{octet}){{3}}",
        # Of two zeros in a row, or of ffff after "::" (IPv4 in IPv6), there is another spelling.
        rf"(?!(?:.*:)?0:0(?![^:])){any_group}(?::{any_group}){{7}}",
        rf"(?!::ffff:{group}:{group}(?![^:]))::(?:{group}(?::{group}){{0,5}})?",
        rf"{group}(?::{group}){{0,5}}::",
        *(rf"{group}(?::{group}){{{left}}}::{group}(?::{group}){{0,{4 - left}}}" for left in range(5)),
    )
    # "$" would also match before a line break at the end.
    return rf"^(?:{'|'.join(forms)})(?![\s\S])"


PLAIN: Final = {IP: _address_pattern()}
"""Entity type to a regular expression, for Java and for Python: what it matches is in canonical spelling.

It need not match all that is.
"""


def is_plain(entity_type: str, name: Column) -> Column:
    """Return whether a name is known to be in canonical spelling without asking `CANONICAL`."""
    return name.rlike(PLAIN[entity_type]) if entity_type in PLAIN else f.lit(False)


def with_canonical(rows: DataFrame, entity_type: str, column: str, canonical: str) -> DataFrame:
    """Return rows with a further column: the canonical spelling of a name, or the name itself when it has none.

    The rows are read twice, and no row of the first reading goes through Python.

    `column`: The column that has the names; null stays null. `canonical`: What the new column is called.
    """
    name = f.col(column)
    is_done = name.isNull() | is_plain(entity_type, name)
    schema = StructType([*rows.schema.fields, StructField(canonical, StringType())])
    respell = _respelling(CANONICAL[entity_type], column, canonical)
    return rows.where(is_done).withColumn(canonical, name).unionAll(rows.where(~is_done).mapInArrow(respell, schema))


def _respelling(
    canonical_of: Callable[[str], str | None], column: str, canonical: str
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def respell(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        for batch in batches:
            names = batch.column(column).dictionary_encode()
            spelled = pyarrow.array([canonical_of(name) or name for name in names.dictionary.to_pylist()], "string")
            yield batch.append_column(canonical, spelled.take(names.indices))

    return respell


NAME_COLUMNS: Final = {row.name: row.parameter for row in KNOWN_TYPES.values()}
"""Entity type to the column of `PRINCIPALS` in which its name is."""

PRECEDENCE_OF: Final = {level.source: precedence for precedence in PRECEDENCES for level in precedence.levels}
"""The precedence that has a level, by the level's source."""

LEVEL_OF: Final = {level.source: level for level in LEVELS}
"""The levels by source."""

RANKS: Final = {level.source: rank for rank, level in enumerate(LEVELS)}
"""A number of its own for each level, whichever precedence has it."""


def source_of(entity: Column) -> Column:
    """Return the source of the level that an entity (`entity` of `QUOTAS`) is on; null for none."""
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


MOST_KEYS: Final = 64
"""How many quota keys a level may hold: each is several columns beside every principal."""

_OVERHEAD: Final = 64
"""About as many bytes a row takes in a hash table besides its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSurvey:
    """What quotas hold on one level."""

    keys: frozenset[str]
    entities: int  # How many entities, about
    size: int  # How many bytes they take when they are broadcast, about
    is_respelled: bool  # Whether there are names of which another spelling may be the canonical one
    defaults: Mapping[str, float]  # Of a level that names nothing, in a single cluster: key to value


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSurvey:
    """What quotas hold."""

    clusters: tuple[str, ...] = ()  # The clusters that were read; empty when the quotas have no such column
    levels: Mapping[str, LevelSurvey] = field(default_factory=dict)  # The levels on which there is something, by source

    @property
    def keys(self) -> tuple[str, ...]:
        """The known quota keys and those that the quotas hold, in the order in which they print."""
        held = {key for level in self.levels.values() for key in level.keys}
        return tuple(sorted({*QUOTA_KEYS, *held}, key=key_order))

    def keys_of(self, source: str) -> frozenset[str]:
        """Return the keys that a level holds."""
        return self.levels[source].keys if source in self.levels else frozenset()


def survey(quotas: DataFrame) -> QuotaSurvey:
    """Look through quotas: one Spark job, whose result is a few rows.

    `quotas`: `QUOTAS`; `cluster` and `failure` may be missing.
    Raises `EngineError`: They hold too many unknown keys.
    """
    is_read = f.col("failure").isNull() if "failure" in quotas.columns else f.lit(True)
    cluster = f.col("cluster") if "cluster" in quotas.columns else f.lit(None).cast("string")
    rows = quotas.where(is_read).select(
        cluster.alias("cluster"),
        source_of(f.col("entity")).alias("source"),
        f.when(f.col("value").isNotNull(), f.col("key")).alias("key"),
        "value",
        f.octet_length("entity_key").alias("length"),
        _is_respelled().alias("is_respelled"),
    )
    # Counted twice: the first time by what Spark generates fast code for, which leaves few rows.
    by_cluster = rows.groupBy("cluster", "source", "key").agg(
        f.count("*").alias("entities"),
        f.sum("length").alias("length"),
        f.max("is_respelled").alias("is_respelled"),
        f.max("value").alias("value"),
    )
    found = (
        by_cluster.groupBy("source")
        .agg(
            f.collect_set("cluster").alias("clusters"),
            f.slice(f.collect_set("key"), 1, MOST_KEYS + 1).alias("keys"),
            f.sum("entities").alias("values"),
            f.sum("length").alias("length"),
            f.max("is_respelled").alias("is_respelled"),
            f.slice(f.collect_list(f.when(f.col("key").isNotNull(), f.struct("key", "value"))), 1, MOST_KEYS).alias(
                "defaults"
            ),
        )
        .collect()
    )
    if any(len(row["keys"]) > MOST_KEYS for row in found):
        raise EngineError(
            f"The quotas hold more than {MOST_KEYS} quota keys, of which this version knows {len(QUOTA_KEYS)}; "
            "remove the others."
        )
    return QuotaSurvey(
        clusters=tuple(sorted({name for row in found for name in row.clusters})),
        levels={row.source: _level(row) for row in found if row.source is not None and row["keys"]},
    )


def _level(row: Row) -> LevelSurvey:
    level, keys = LEVEL_OF[row.source], frozenset(row["keys"])
    # Exact if all entities hold the same keys.
    entities = row["values"] // len(keys)
    length = row.length // row["values"]
    return LevelSurvey(
        keys=keys,
        entities=entities,
        size=entities * (_OVERHEAD + 2 * length + 8 * len(keys)),
        is_respelled=row.is_respelled,
        defaults={} if level.named else {each.key: each.value for each in row.defaults},
    )


def _is_respelled() -> Column:
    """Return whether the entity has a name of which another spelling may be the canonical one."""
    found = f.lit(False)
    for precedence in PRECEDENCES:
        for entity_type in precedence.canonical:
            name = f.col("entity")[entity_type]
            found |= f.coalesce(~is_plain(entity_type, name), f.lit(False))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroup:
    """Levels whose entries are found by the same names."""

    named: tuple[str, ...]  # The entity types, as `Level.named`
    levels: tuple[Level, ...]  # The levels, by precedence
    size: int  # How many bytes their entries take when they are broadcast, about
    is_respelled: bool  # Whether names of the entries may be in another spelling than the canonical one


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

    `by_cluster`: Whether the column `prefix + cluster` is wanted, and rows per cluster.
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
