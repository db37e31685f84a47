"""`spark.read.format("kafka_quotas")`, and that what Spark says of a path or a table forges no output."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quotaform.desired.config import Cluster
from quotaform.fleet.data_source import read_clusters, read_snapshots, register
from quotaform.model.entity import Entity
from tests.builder import PRODUCER, REQUEST
from tests.spark.files import write_snapshot
from tests.unit.test_hostile_text import Place, place, run_with_each_option


def test_each_cluster_is_a_partition_and_one_that_is_down_stops_no_other(spark: SparkSession, tmp_path: Path) -> None:
    both = Entity(user=None, client_id="etl")
    full = write_snapshot(tmp_path / "full.json", {both: {PRODUCER: 2.0**63, REQUEST: float("nan")}})
    empty = write_snapshot(tmp_path / "empty.json", {})
    quotas = read_clusters(
        spark,
        [
            Cluster(name="full", snapshot=full),
            Cluster(name="down", bootstrap_servers=("127.0.0.1:1",)),
            Cluster(name="empty", snapshot=empty),
        ],
    )
    assert quotas.rdd.getNumPartitions() == 3
    rows = {(row.cluster, row.key): row for row in quotas.collect()}
    assert len(rows) == 4
    assert rows["full", PRODUCER][:6] == (
        "full",
        "3JxQ0v7pT2a",
        "user=<default>,client-id=etl",
        {"user": None, "client-id": "etl"},
        PRODUCER,
        2.0**63,
    )
    assert repr(rows["full", REQUEST].value) == "nan"
    taken = quotas.where("cluster <> 'down'").select("read_at").distinct().toArrow().column("read_at").to_pylist()
    assert [at.astimezone(UTC) for at in taken] == [datetime(2026, 11, 20, 9, 12, 44, tzinfo=UTC)]
    assert rows["down", None].read_at is None
    assert {row.brokers for row in rows.values()} == {None}
    assert rows["empty", None][:6] == ("empty", "3JxQ0v7pT2a", None, None, None, None)
    assert rows["down", None].cluster_id is None
    assert rows["down", None].failure.kind == "ConnectError"
    assert "127.0.0.1:1" in rows["down", None].failure.message


def test_a_session_reads_the_clusters_of_a_repository_by_one_line(spark: SparkSession, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "lab.json", {Entity(user="a"): {PRODUCER: 1.0, REQUEST: 2.0}})
    (tmp_path / "quotaform.yaml").write_text(
        "clusters: {lab: {snapshot: lab.json}, down: {bootstrap_servers: ['127.0.0.1:1']},\n"
        "  pinned: {snapshot: lab.json, cluster_id: another}}\n"
    )
    register(spark)
    register(spark)
    quotas = spark.read.format("kafka_quotas").option("repository", str(tmp_path)).load()
    found = {(row.cluster, row.key, row.failure and row.failure.kind) for row in quotas.collect()}
    lab = {("lab", PRODUCER, None), ("lab", REQUEST, None)}
    assert found == {*lab, ("down", None, "ConnectError"), ("pinned", None, "ClusterIdError")}
    own = quotas.where("cluster = 'lab' AND key = 'request_percentage'").select("value")
    assert [row.value for row in own.collect()] == [2.0]
    assert quotas.where("cluster = 'nowhere'").collect() == []
    assert {(row.cluster, row.key, row.failure and row.failure.kind) for row in quotas.collect()} == found
    with pytest.raises(PySparkException, match="kafka_quotas has no option servers; the options are repository, "):
        spark.read.format("kafka_quotas").option("servers", "a:1").load().collect()
    # Columns that the caller named failed in the tasks, with the traceback of an internal error.
    for columns in ("cluster string", "key string, cluster string"):
        with pytest.raises(PySparkException, match="kafka_quotas has columns of its own; leave out the schema"):
            spark.read.schema(columns).format("kafka_quotas").option("repository", str(tmp_path)).load().collect()
    same = spark.read.schema(quotas.schema).format("kafka_quotas").option("repository", str(tmp_path)).load()
    assert same.columns == quotas.columns


def test_a_snapshot_that_does_not_say_when_it_was_taken_is_a_failure(spark: SparkSession, tmp_path: Path) -> None:
    for name, at in (("good.json", "2026-11-20T09:12:44Z"), ("odd.json", "yesterday")):
        text = write_snapshot(tmp_path / name, {}).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("2026-11-20T09:12:44Z", at), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("good.json", "odd.json", "missing.json")]
    rows = {Path(row.file).name: row for row in read_snapshots(spark, files).collect()}
    assert (rows["good.json"].cluster, rows["good.json"].failure) == ("lab", None)
    assert rows["odd.json"].cluster is None
    assert 'captured_at: "yesterday" is not a time in ISO 8601' in rows["odd.json"].failure.message
    assert "there is no such file" in rows["missing.json"].failure.message


__all__ = ["place"]

STARTS_SPARK = (
    "plan",
    "drift",
    "history append",
    "usage ingest",
    "usage headroom",
    "usage backtest",
    "usage recommend",
)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", STARTS_SPARK)
def test_an_argument_forges_no_output(path: str, place: Place) -> None:
    """With a session; `tests/unit` has every shape of every option, without one."""
    run_with_each_option(f"quotaform {path}", place, ("{}",))
