"""Tables that are recordings: rows of metrics or of buckets, in files or in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from quotaform.core.usage.format.table_mapping import TableMapping, guess_mapping
from quotaform.core.usage.metric.origin import Origin
from quotaform.spark.table.named_table import bad_table, read_table, reason_of, require_columns
from quotaform.spark.table.path import located
from quotaform.spark.usage.ingest.source import CSV, SourceTable, separator_of
from quotaform.spark.usage.ingest.table_rows import parsed_table
from quotaform.spark.usage.schemas import USAGE, first_columns
from quotaform.spark.usage.table.usage_table import with_later_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_parsed_table(
    spark: SparkSession, source: SourceTable, mapping: TableMapping | None, origin: Origin
) -> DataFrame:
    """Return `parsed_rows.PARSED` of a table.

    Args:
        spark: The session.
        source: The table.
        mapping: What its columns are; `None` to go by their names.
        origin: What counts for rows that do not say where they are from.

    Raises:
        InvalidFilesError: It cannot be read, lacks columns, or nothing says what its columns are.
    """
    table = _csv(spark, source.name) if source.kind == CSV else read_table(spark, source.name)
    if source.kind != CSV and set(table.columns) >= set(first_columns(USAGE)):
        table = with_later_columns(source.name, table)
    chosen = guess_mapping(table.columns) if mapping is None else mapping
    if isinstance(chosen, str):
        raise bad_table(source.name, f"cannot be read: {chosen} (--mapping FILE)")
    require_columns(source.name, table, sorted(chosen.names))
    return parsed_table(table, source.name, source.kind, chosen, origin)


def _csv(spark: SparkSession, name: str) -> DataFrame:
    try:
        table = spark.read.csv(located(name), header=True, sep=separator_of(name), escape='"', mode="PERMISSIVE")
        _ = table.columns
    except (PySparkException, Py4JError) as error:
        raise bad_table(name, f"cannot be read: {reason_of(error)}") from error
    return table
