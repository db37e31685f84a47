"""The option `--usage`, the tables of usage and those that `usage record` writes, and their buckets."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from quotaform.fleet.table import located, make_table, read_table
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quotas import Quotas
from quotaform.usage.bucket.bucket import SeriesBuckets
from quotaform.usage.record.run import UsageDirectory
from quotaform.usage.sample import UsageRow
from quotaform.usage.table.schema import USAGE
from quotaform.usage.table.table import read_usage
from tests.builder import PRODUCER
from tests.property.test_series_bucket import CHANGES, KEYS, SERIES
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import Sample, usage_table

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


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELD: dict[str, tuple[Quotas, Quotas]] = {f"c{number}": change for number, change in enumerate(CHANGES[:40])}


@pytest.mark.parametrize("is_changed", [False, True])
def test_each_series_has_its_bucket_under_the_quotas_of_its_cluster(spark: SparkSession, is_changed: bool) -> None:
    from quotaform.usage.bucket.spark import buckets

    rows = [
        Sample(0.0, None, cluster, "1", key, *names, 1.0, None)
        for cluster, key, names in product((*HELD, None, "other"), KEYS, SERIES)
    ]
    series = usage_table(spark, rows)
    after = quota_table(spark, {cluster: after for cluster, (_, after) in HELD.items()})
    before = quota_table(spark, {cluster: before for cluster, (before, _) in HELD.items()}) if is_changed else None
    found: dict[Any, dict[str, Any]] = {
        (row.pop("cluster"), row.pop("key"), (row.pop("user"), row.pop("client_id"), row.pop("ip"))): row
        for row in buckets(series, after, before).toArrow().to_pylist()
    }
    assert len(found) == len(rows)
    for cluster in (*HELD, None, "other"):
        earlier, later = HELD.get(cluster or "", ({}, {}))
        known = SeriesBuckets(later, earlier if is_changed else None)
        for key, names in product(KEYS, SERIES):
            expected = known.of(names, key)._asdict()
            assert found[cluster, key, tuple(names)] == {"entity_key": expected.pop("entity"), **expected}


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_path_means_the_files_that_the_command_sees_whatever_the_default_file_system_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four ways to give Spark a path agreed where `fs.defaultFS` is this machine's, and nowhere else."""
    monkeypatch.chdir(tmp_path)
    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    try:
        spark.range(3).coalesce(1).write.parquet(located("data/rows"))
        assert (tmp_path / "data/rows/_SUCCESS").is_file()
        assert read_table(spark, "data/rows").count() == 3
    finally:
        spark.conf.unset("fs.defaultFS")
