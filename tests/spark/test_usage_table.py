"""The option `--usage`, the tables of usage and those that `usage record` writes, their buckets and curves."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random

import numpy
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from quotaform.fleet.table import located, make_table, read_table
from quotaform.model.entity import Entity
from quotaform.model.errors import InvalidFilesError
from quotaform.model.quotas import Quotas
from quotaform.report.report import Curve, curve_of
from quotaform.usage.bucket.bucket import SeriesBuckets
from quotaform.usage.bucket.spark import entity_curves, packed_usage, quota_buckets
from quotaform.usage.record.run import write_rows
from quotaform.usage.sample import Series, UsageRow
from quotaform.usage.table.files import with_date
from quotaform.usage.table.schema import SERIES, USAGE
from quotaform.usage.table.table import EVERY_CLUSTER, plain_files, read_usage, usage_of
from tests.builder import PRODUCER, REQUEST
from tests.property.test_series_bucket import CHANGES, KEYS
from tests.property.test_series_bucket import SERIES as SERIES_NAMES
from tests.spark.usage_oracle import START as FIRST
from tests.spark.usage_oracle import Sample, usage_table

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
    usage.drop("window_s", "rate").createOrReplaceTempView("cut_usage")
    with pytest.raises(InvalidFilesError, match="lacks the columns window_s, rate"):
        read_usage(spark, "cut_usage")
    with pytest.raises(InvalidFilesError, match="neither such a file nor such a table"):
        read_usage(spark, "nothing_of_this_name")


ROWS = [
    UsageRow(1795370209.123456, 11.5, "lab", "1", "producer_byte_rate", 'a"\n*', "", None, 5.0, None),
    UsageRow(0.5, 11.5, "007/%a", None, "connection_creation_rate", None, None, "::1", None, 3.0),
]


def test_spark_reads_the_rows_that_were_recorded_and_no_file_that_is_not_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    for row in ROWS:
        [path] = write_rows(tmp_path / "usage", [row])
    (path.parent / ".part-x.parquet.tmp").write_bytes(b"PAR1 half")
    found = read_usage(spark, str(tmp_path / "usage"))
    assert found.schema == USAGE
    rows = found.selectExpr("unix_micros(ts) / 1e6", *(f"`{name}`" for name in USAGE.names[1:])).collect()
    assert sorted(map(tuple, rows)) == sorted(map(tuple, ROWS))


FIND = quota_buckets({})
NAMES = ("cluster", "key", "user", "client_id", "ip")
HELD: dict[str | None, tuple[Quotas, Quotas]] = {f"c{number}": change for number, change in enumerate(CHANGES[:40])}


@pytest.mark.parametrize("is_changed", [False, True])
def test_each_series_has_its_bucket_under_the_quotas_of_its_cluster(spark: SparkSession, is_changed: bool) -> None:
    rows = [
        Sample(0.0, None, cluster, "1", key, *names, 1.0, None)
        for cluster, key, names in product((*HELD, None, "other"), KEYS, SERIES_NAMES)
    ]
    after = {cluster: after for cluster, (_, after) in HELD.items()}
    before = {cluster: before for cluster, (before, _) in HELD.items()} if is_changed else None
    packed = packed_usage(usage_table(spark, rows), quota_buckets(after, before))
    found = {tuple([row[name] for name in NAMES]): row for row in packed.toArrow().to_pylist()}
    assert len(found) == len(rows)
    for cluster in (*HELD, None, "other"):
        earlier, later = HELD.get(cluster, ({}, {}))
        known = SeriesBuckets(later, earlier if is_changed else None)
        for key, names in product(KEYS, SERIES_NAMES):
            expected = known.of(Series(cluster, "1", key, *names))._asdict()
            row = found[cluster, key, *names]
            assert {name: row[name] for name in expected} == expected


def samples_of(packed: DataFrame) -> list[str]:
    """What was packed, a line for each sample."""
    found = []
    for row in packed.toArrow().to_pylist():
        kinds = {"at": "int64", **dict.fromkeys(("rate", "window_s", "throttle_ms"), "float64")}
        columns = [numpy.frombuffer(row[name], kind).tolist() for name, kind in kinds.items()]
        assert (row["first"], row["last"], row["samples"]) == (min(columns[0]), max(columns[0]), len(columns[0]))
        found += [repr((*(row[name] for name in SERIES), *sample)) for sample in zip(*columns, strict=True)]
    return sorted(found)


@pytest.mark.parametrize("times", [(None, None), (FIRST + timedelta(minutes=1), FIRST + timedelta(days=1, minutes=2))])
def test_files_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, times: tuple[datetime | None, datetime | None]
) -> None:
    folder = tmp_path / "usage=1 %"
    rows = [
        Sample(86_400.0 * day + 60.0 * minute, None, cluster, "1", "k", "alice", None, None, rate, 7.0, instance)
        for day, minute in product(range(3), range(4))
        for cluster, rate, instance in (("7", 1.0, None), ("ü b%/=", -1.0, "x"), (None, float("nan"), "y"))
    ]
    with_date(usage_table(spark, rows)).write.partitionBy("date", "cluster").parquet(str(folder))
    earlier = usage_table(spark, [row._replace(broker="2", cluster="old") for row in rows])
    earlier.write.mode("append").parquet(str(folder))
    usage = read_usage(spark, str(folder), *times)
    files = plain_files(usage, str(folder), EVERY_CLUSTER, *times)
    assert files is not None
    assert samples_of(packed_usage(usage, FIND, files=files)) == samples_of(packed_usage(usage, FIND))
    # Files of other days and clusters are not read.
    of_one, clusters = usage_of(usage, ["7"], ["7", "old"])
    found = plain_files(usage, str(folder), clusters, *times)
    assert found is not None
    read = {Path(path).parent.name for each in found.tasks for path, _, _ in each}
    assert read == {"cluster=7", folder.name}
    assert samples_of(packed_usage(of_one, FIND, clusters, found)) == samples_of(packed_usage(of_one, FIND))


def test_files_that_only_spark_can_read_are_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    usage = usage_table(spark, [Sample(0.0, None, "7", "1", "k", "alice", rate=1.0)])
    usage.write.partitionBy("broker").parquet(str(tmp_path / "folders"))
    usage.withColumn("user", f.lit(7)).write.parquet(str(tmp_path / "numbers"))
    for name in ("folders", "numbers"):
        assert plain_files(read_usage(spark, str(tmp_path / name)), str(tmp_path / name)) is None


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


START = datetime(2026, 11, 1, 9, tzinfo=UTC)
ALICE = Entity(user="alice")
APP = Entity(user="alice", client_id="app")
BOB = Entity(user="bob")
NOBODY = Entity(user="nobody")


def usage_rows(minutes: int) -> list[Sample]:
    """Two brokers that measure alice and her client app, and clients of bob; some rows twice or without a rate."""
    random = Random(5)
    rows: list[Sample] = []
    for minute in range(minutes):
        for broker in ("1", "2"):
            for user, client in (("alice", None), ("alice", "app"), ("bob", "one"), ("bob", "two")):
                rate = None if random.random() < 0.1 else float(random.randrange(1000))
                row = Sample(60.0 * minute, broker=broker, user=user, client_id=client, rate=rate)
                rows.extend([row] * random.choice((1, 1, 2)))
    alice = Sample(0.0, user="alice", rate=1e9)
    odd = [alice._replace(rate=rate) for rate in (float("nan"), float("inf"))]
    return [*rows, alice._replace(cluster="other"), alice._replace(key=REQUEST), *odd]


def oracle(rows: list[Sample], user: str, client: str | None, slot_s: int) -> list[tuple[datetime, float]]:
    """The points of a bucket, by loops: of a user without a client of its own, all of its clients are added up."""
    once: dict[tuple[float, str | None, str | None], float] = {}
    has_own = any(row.user == user and row.client_id == client for row in rows)
    for row in rows:
        is_meant = row.user == user and (row.client_id == client if has_own else True)
        if row.cluster == "lab" and row.key == PRODUCER and is_meant and row.rate is not None and 0 <= row.rate < 1e300:
            once[row.at, row.broker, row.client_id] = row.rate
    sums: dict[tuple[float, str | None], float] = defaultdict(float)
    for (at, broker, _), rate in once.items():
        sums[at, broker] += rate
    found: dict[int, tuple[datetime, float]] = {}
    for (seconds, _), rate in sorted(sums.items()):
        when = START + timedelta(seconds=seconds)
        slot = int(when.timestamp()) // slot_s
        found[slot] = (when, max(rate, found[slot][1] if slot in found else 0.0))
    return [found[slot] for slot in sorted(found)]


@pytest.mark.parametrize("most", [2000, 7])
def test_a_curve_has_the_highest_rate_of_each_slot(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("quotaform.usage.bucket.spark.MOST_POINTS", most)
    rows = usage_rows(40)
    wanted = [("lab", entity, PRODUCER) for entity in (ALICE, APP, BOB, NOBODY, Entity(user=None))]
    found = entity_curves(usage_table(spark, rows, START), wanted)
    slot_s = -(-(39 * 60 + 1) // most)
    expected = {
        ("lab", entity, PRODUCER): oracle(rows, user, client, slot_s)
        for entity, user, client in ((ALICE, "alice", None), (APP, "alice", "app"), (BOB, "bob", None))
    }
    assert {key: list(zip(each.times, each.values, strict=True)) for key, each in found.items()} == expected
    assert all(len(each.times) <= most + 1 for each in found.values())
    assert {each.step_s for each in found.values()} <= ({60.0} if most == 2000 else {335.0, 360.0})


def test_an_empty_recording_has_no_curves(spark: SparkSession) -> None:
    assert entity_curves(usage_table(spark, usage_rows(1), START).limit(0), [("lab", ALICE, PRODUCER)]) == {}
    assert curve_of([], 60.0) == Curve()
