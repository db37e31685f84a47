"""Reading the usage table: its rows, the clusters they belong to, and the quotas that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NumericType, StringType, StructType, TimestampType

from quotaform.fleet.data_source import read_clusters, read_failure
from quotaform.fleet.table import (
    FILE_FORMATS,
    bad_table,
    format_of,
    is_nothing_there,
    read_table,
    require_columns,
)
from quotaform.model.entity import spell_name
from quotaform.model.errors import InvalidFilesError, QuotaformError
from quotaform.model.moment import spell_moment
from quotaform.model.text import inert, listed
from quotaform.resolve.spark_quotas import CLUSTER, QUOTAS, completed, struct
from quotaform.usage.table.schema import LATER_COLUMNS, PARTITIONS, RECORDED, SERIES, USAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quotaform.desired.config import Cluster


def read_usage(
    spark: SparkSession, name: str, since: datetime | None = None, until: datetime | None = None
) -> DataFrame:
    """Return `USAGE` of a table, not read yet but for its schema: rows that say when and what they measure.

    | column of `USAGE` is | the table may have |
    | --- | --- |
    | a time | a time with a time zone |
    | a number | any number |
    | a text | a text or a number, as partition columns are |

    The columns that came later are null where tables and files of earlier versions lack them.

    `name`: a path of files, or the name of a table or view of the catalog. `since`: the first moment; `None` for all
    before `until`. `until`: the moment after the last one. Raises `InvalidFilesError` if it cannot be read, lacks a
    column, or has one of another type.
    """
    whole, *beside = read_parts(spark, name, since, until)
    for part in beside:
        whole = whole.unionByName(part, allowMissingColumns=True)
    usage = as_usage(name, whole).where(f.col("ts").isNotNull() & f.col("key").isNotNull())
    if since is not None:
        usage = usage.where(f.col("ts") >= f.lit(since))
    return usage if until is None else usage.where(f.col("ts") < f.lit(until))


def read_parts(
    spark: SparkSession, name: str, since: datetime | None = None, until: datetime | None = None
) -> list[DataFrame]:
    """Return a table of usage with its own columns: of those days what is in folders by `PARTITIONS`, and the rest.

    Spark takes a cluster named 7 for a number there, and reads no files beside folders, which earlier versions wrote.
    """
    table = with_later_columns(name, read_table(spark, name))
    if format_of(name) not in FILE_FORMATS or not {*PARTITIONS} <= {*table.columns}:
        return [table]
    day = PARTITIONS[0]
    others = [each for each in table.schema if each.name not in PARTITIONS]
    rows = read_table(spark, name, struct(*others, f"{day} date", f"{CLUSTER} string"))
    # Whoever else made such a table may have the days of another time zone.
    if since is not None:
        rows = rows.where(f.col(day) >= f.lit((since.astimezone(UTC) - timedelta(days=1)).date()))
    if until is not None:
        rows = rows.where(f.col(day) <= f.lit((until.astimezone(UTC) + timedelta(days=1)).date()))
    try:
        beside = f"{name.rstrip('/')}/*.{format_of(name)}"
        return [rows, with_later_columns(beside, read_table(spark, beside))]
    except InvalidFilesError as error:
        if is_nothing_there(error):
            return [rows]
        raise


def as_usage(name: str, table: DataFrame) -> DataFrame:
    """Return `USAGE` of rows that somebody else made; `name` is what messages call them. See `read_usage`."""
    require_columns(name, table, USAGE.names)
    for field in USAGE:
        kind = table.schema[field.name].dataType
        if not _fits(kind, field.dataType):
            wanted, found = field.dataType.simpleString(), inert(kind.simpleString())
            raise bad_table(name, f"has the column {field.name} of type {found}; it must be {wanted}")
    return table.select(*(f.col(field.name).cast(field.dataType).alias(field.name) for field in USAGE))


def with_later_columns(name: str, table: DataFrame) -> DataFrame:
    """Return a table of usage with the columns that tables of earlier versions lack.

    Files of both kinds may be in one directory, of which Spark takes the schema of one.
    """
    missing = [field for field in USAGE if field.name in LATER_COLUMNS and field.name not in table.columns]
    if not missing:
        return table
    if format_of(name) in FILE_FORMATS:
        return read_table(table.sparkSession, name, StructType([*table.schema, *missing]))
    return table.withColumns({field.name: f.lit(None).cast(field.dataType) for field in missing})


def _fits(kind: DataType, wanted: DataType) -> bool:
    """Whether values of a type are those of another one, however a session converts them."""
    if isinstance(wanted, TimestampType):
        return isinstance(kind, TimestampType)
    return isinstance(kind, NumericType) or (isinstance(wanted, StringType) and isinstance(kind, StringType))


# Which cluster the rows of a usage table belong to.
#
# | rows | belong to |
# | --- | --- |
# | that name a cluster | that cluster |
# | that name none, if one cluster alone is selected | that cluster |
# | that name none otherwise | no cluster |

_MOST_NAMED = 100


def named_usage(rows: DataFrame, selected: Sequence[str]) -> DataFrame:
    """Return rows with the name of the cluster that they belong to, in the column `cluster`.

    `rows`: usage, or series of it. `selected`: the clusters that were selected, also those that could not be read.
    """
    if len(selected) != 1:
        return rows
    return rows.withColumn("cluster", f.coalesce("cluster", f.lit(selected[0])))


def usage_of(usage: DataFrame, names: Sequence[str], selected: Sequence[str]) -> DataFrame:
    """Return the rows that belong to clusters, with their names; files of other clusters need not be read.

    `selected`: as for `named_usage`.
    """
    is_theirs = f.col("cluster").isin(list(names))
    if len(selected) == 1:
        is_theirs = is_theirs | f.col("cluster").isNull()
    return named_usage(usage.where(is_theirs), selected)


def time_text(since: datetime | None, until: datetime | None) -> str:
    """Return the end of a sentence about rows that says of which time they are; empty for all times."""
    text = "" if since is None else f" from {spell_moment(since)} on"
    return text if until is None else f"{text} before {spell_moment(until)}"


def require_recorded(
    usage: DataFrame,
    name: str,
    names: Sequence[str],
    missing: Sequence[str],
    warn: Callable[[str], None],
    time: str = "",
    *,
    is_required: bool = True,
) -> None:
    """Make sure that something is recorded of one of the clusters, if that is required; warn of those without.

    `missing`: those of them of which nothing is recorded. `time`: what `time_text` returned, if the usage is of some
    time only.
    """
    if not missing:
        return
    shown = listed([spell_name(each) for each in missing])
    if len(missing) < len(names) or not is_required:
        warn(f"no usage is recorded of {shown}{time}")
        return
    known = usage.select("cluster").distinct().limit(_MOST_NAMED).toArrow().column("cluster").to_pylist()
    others = listed(sorted("rows without a cluster" if each is None else spell_name(each) for each in known))
    nothing = "it has no row of that time" if time else "it is empty"
    raise bad_table(name, f"has no row of {shown}{time}; {f'it has {others}' if others else nothing}")


def recorded(usage: DataFrame) -> DataFrame:
    """Return `RECORDED`."""
    found = usage.groupBy(*SERIES).agg(
        f.min("ts").alias("first"), f.max("ts").alias("last"), f.count("*").alias("samples")
    )
    return found.select(*RECORDED.names)


_REQUIRED: Final = ("cluster", "entity_key", "entity", "key", "value")


@dataclass(frozen=True, slots=True)
class QuotaSource:
    """Where the quotas are."""

    clusters: tuple[Cluster, ...] = ()  # The clusters to read; none if `table` is given
    table: str | None = None
    """A path of files or a table of the catalog, with columns of `QUOTAS`."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Return `QUOTAS`, not read yet; persist them, since they are read several times.

        Raises `InvalidFilesError` if the table cannot be read, lacks a column, or has one of another type.
        """
        if self.table is None:
            return read_clusters(spark, self.clusters, is_pinned=True)
        return as_quotas(self.table, read_table(spark, self.table))


def as_quotas(name: str, table: DataFrame) -> DataFrame:
    """Return `QUOTAS` of rows that somebody else made, of which some columns may be missing.

    `name`: what messages call them. Raises `InvalidFilesError` if a column is missing that must not, or has another
    type.
    """
    require_columns(name, table, _REQUIRED)
    for column in _REQUIRED:
        kind, wanted = table.schema[column].dataType.simpleString(), QUOTAS[column].dataType.simpleString()
        if kind != wanted:
            raise bad_table(name, f"has the column {column} of type {kind}; it must be {wanted}")
    return completed(table, QUOTAS)


def known_clusters(quotas: DataFrame) -> tuple[Sequence[str], tuple[tuple[str, QuotaformError], ...]]:
    """Return the names of the clusters that could be read, and those that could not, and why; both sorted.

    `quotas`: `QUOTAS`, persisted. Raises `QuotaformError` if none of the clusters could be
    read; the error of the first one.
    """
    rows = quotas.select("cluster", "failure").distinct().orderBy("cluster").toArrow().to_pylist()
    failures = tuple((row["cluster"], read_failure(row["failure"])) for row in rows if row["failure"])
    known = [row["cluster"] for row in rows if not row["failure"] and row["cluster"] is not None]
    if failures and not known:
        raise failures[0][1]
    return known, failures
