"""What `quotaform usage record` writes without Spark is the table that Spark reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quotaform.usage.record.run import UsageDirectory
from quotaform.usage.sample import UsageRow
from quotaform.usage.table.schema import USAGE
from quotaform.usage.table.table import read_usage

pytestmark = pytest.mark.spark

ROWS = [
    UsageRow(1795370209.123456, 11.5, "lab", "1", "producer_byte_rate", 'a"\n*', "", None, 5.0, None),
    UsageRow(0.5, 11.5, "007/%a", None, "connection_creation_rate", None, None, "::1", None, 3.0),
]


def test_spark_reads_the_rows_that_were_recorded_and_no_file_that_is_not_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = UsageDirectory(tmp_path / "usage")
    for row in ROWS:
        [path] = table.write([row])
    (path.parent / ".part-x.parquet.tmp").write_bytes(b"PAR1 half")
    found = read_usage(spark, str(tmp_path / "usage"))
    assert found.schema == USAGE
    rows = found.selectExpr("unix_micros(ts) / 1e6", *(f"`{name}`" for name in USAGE.names[1:])).collect()
    assert sorted(map(tuple, rows)) == sorted(map(tuple, ROWS))
