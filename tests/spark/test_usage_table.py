"""The option `--usage`: which tables are usage, and what is said of others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from quotaform.fleet.table import make_table
from quotaform.model.errors import InvalidFilesError
from quotaform.usage.table.schema import USAGE
from quotaform.usage.table.table import read_usage
from tests.builder import PRODUCER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = (datetime(2026, 11, 1, tzinfo=UTC), 11.5, "eu", "1", PRODUCER, "alice", None, None, 5.0, None, None)


@pytest.fixture
def usage(spark: SparkSession) -> DataFrame:
    """A table of one row."""
    return make_table(spark, USAGE, [ROW])


def test_numbers_and_names_of_other_types_become_those_of_usage(
    spark: SparkSession, usage: DataFrame, tmp_path: Path
) -> None:
    folder = str(tmp_path / "usage")
    rows = usage.withColumns({"rate": f.col("rate").cast("int"), "day": f.lit("2026-11-01")})
    rows.write.partitionBy("broker", "day").parquet(folder)
    found = read_usage(spark, folder)
    assert found.schema == USAGE
    assert found.toArrow().to_pylist() == [dict(zip(USAGE.names, ROW, strict=True))]


@pytest.mark.parametrize(
    ("column", "kind", "text"),
    [
        ("ts", "timestamp_ntz", "has the column ts of type timestamp_ntz; it must be timestamp"),
        ("rate", "string", "has the column rate of type string; it must be double"),
        ("user", "binary", "has the column user of type binary; it must be string"),
    ],
)
def test_a_column_of_another_type_is_named(
    spark: SparkSession, usage: DataFrame, column: str, kind: str, text: str
) -> None:
    usage.withColumn(column, f.col(column).cast(kind)).createOrReplaceTempView("odd_usage")
    with pytest.raises(InvalidFilesError, match=text):
        read_usage(spark, "odd_usage")


def test_a_table_that_is_no_usage_is_refused_with_what_it_lacks(spark: SparkSession, usage: DataFrame) -> None:
    usage.drop("window_s", "rate").createOrReplaceTempView("other")
    with pytest.raises(InvalidFilesError, match="lacks the columns window_s, rate"):
        read_usage(spark, "other")
    with pytest.raises(InvalidFilesError, match="neither such a file nor such a table"):
        read_usage(spark, "nothing_of_this_name")
