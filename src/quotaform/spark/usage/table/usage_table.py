"""The table `usage` that the option `--usage` names: any that has the columns of `schemas.USAGE`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import DataType, NumericType, StringType, StructType, TimestampType

from quotaform.model.text import inert
from quotaform.spark.session.options import SessionOptions
from quotaform.spark.table.local_table import require_table
from quotaform.spark.table.named_table import FILE_FORMATS, bad_table, format_of, read_table, require_columns
from quotaform.spark.usage.schemas import LATER_COLUMNS, USAGE, first_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def require_usage(name: str, session: SessionOptions) -> None:
    """Make sure that a table can be one of usage, as far as is known before Spark is started.

    Raises `InvalidFilesError` if it cannot be read, or lacks a column.
    """
    require_table(name, first_columns(USAGE), session)


def read_usage(spark: SparkSession, name: str) -> DataFrame:
    """Return `schemas.USAGE` of a table, not read yet but for its schema; other columns are left out.

    | column of `USAGE` is | the table may have |
    | --- | --- |
    | a time | a time with a time zone |
    | a number | any number |
    | a text | a text or a number, as partition columns are |

    The columns that came later are null where tables and files of earlier versions lack them.

    Args:
        name: A path of files, or the name of a table or view of the catalog.

    Raises:
        InvalidFilesError: It cannot be read, lacks a column, or has one of another type.
    """
    table = with_later_columns(name, read_table(spark, name))
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


def usage_between(usage: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    """Return the rows of a time that say when and what they measure.

    Args:
        since: The first moment; `None` for all before `until`.
        until: The moment after the last one.
    """
    if since is not None:
        usage = usage.where(f.col("ts") >= f.lit(since))
    if until is not None:
        usage = usage.where(f.col("ts") < f.lit(until))
    return usage.where(f.col("ts").isNotNull() & f.col("key").isNotNull())


def _fits(kind: DataType, wanted: DataType) -> bool:
    """Whether values of a type are those of another one, however a session converts them."""
    if isinstance(wanted, TimestampType):
        return isinstance(kind, TimestampType)
    return isinstance(kind, NumericType) or (isinstance(wanted, StringType) and isinstance(kind, StringType))
