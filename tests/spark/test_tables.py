"""Desired quotas and clusters in tables: what is planned of them is what files with the same content give."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.app.rendering import Document
from quotaform.app.repository.repository import Repository
from quotaform.errors import InvalidFilesError
from quotaform.model.entity import Entity
from quotaform.spark.job.cluster_job import task_count
from quotaform.spark.job.partition import by_place
from quotaform.spark.plan import plan as plan_on_spark
from quotaform.spark.table.clusters_table import read_clusters_table
from quotaform.spark.table.desired import desired_table
from quotaform.spark.table.desired_reader import read_desired_table
from quotaform.spark.table.named_table import read_table
from quotaform.spark.table.path import located
from tests.builder import CONSUMER, PRODUCER, REQUEST
from tests.spark.engine import JSON, by_local, request_for
from tests.spark.test_fleet import ALICE, BOB, DEFAULT, fleet, take, write_config
from tests.spark.test_plan import entry, write_entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("same_time")

ODD = Entity({"user": 'CN=a b,O="x"\u2028\U0001f600', "client-id": None})


def changes(text: str) -> Any:
    """What a plan file says of changes, but for where they are declared."""
    plan = json.loads(text)
    for change in plan["changes"]:
        for field in ("location", "provenance"):
            change.pop(field, None)
    return plan["plan_id"], plan["changes"], plan["summary"], plan["declared"], plan["unmanaged"]


def test_each_entry_of_the_files_is_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.at(fleet(tmp_path), None)
    rows = desired_table(spark, repository, today=date(2026, 11, 22)).orderBy("entity_key", "key").collect()
    own = [row for row in rows if row.cluster == "own"]
    assert [(row.entity_key, row.key, row.value, row.absent) for row in own] == [
        ("user=<default>", PRODUCER, 1048576.0, None),
        ("user=alice", CONSUMER, 5.0, None),
        ("user=alice", REQUEST, 70.0, None),
        ("user=bob", None, None, "state: absent"),
    ]
    assert own[0].entity == {"user": None}
    assert (Path(own[0].provenance.file).name, own[0].provenance.layer) == ("all.yaml", None)
    assert (Path(own[1].provenance.file).name, own[1].provenance.layer) == ("more.yaml", "own")
    (problem,) = [row.problem for row in rows if row.problem is not None]
    assert (problem.severity, problem.rule, Path(problem.file).parent.name) == ("error", "bad-value", "invalid")


def test_a_plan_by_the_table_is_that_by_the_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "repository"
    path.mkdir()
    write_config(path, ["a", "b", "empty"])
    write_entries(
        path / "quotas.d/a/own.yaml",
        [
            entry(ALICE, {REQUEST: 50, PRODUCER: "unlimited"}, owner="team: a", reason="yes"),
            entry(BOB, None),
            entry(ODD, {REQUEST: 0.1}),
            entry(DEFAULT, {PRODUCER: "1MiB/s"}, expires="2027-01-01"),
        ],
    )
    write_entries(path / "quotas.d/b/own.yaml", [entry(Entity(user="<default>"), {CONSUMER: 1536})])
    write_entries(path / "quotas.d/empty/own.yaml", [])
    for name in ("a", "b", "empty"):
        take(path / "snapshots", name, {ALICE: {REQUEST: 5.0}, BOB: {REQUEST: 2.0}, DEFAULT: {PRODUCER: 5.0}})
    table = str(tmp_path / "desired.parquet")
    desired_table(spark, Repository.at(path, None), today=date(2026, 11, 22)).write.parquet(table)
    for name in ("a", "b"):
        request = request_for(path, clusters=(name,))
        (outcome,) = plan_on_spark(request, [JSON], desired_table=table)
        assert outcome.error is None, outcome.error
        text = "".join(outcome.require().documents["json"]())
        local = by_local(request)
        assert isinstance(local, str)
        assert changes(text) == changes(local)
    outcomes = plan_on_spark(request_for(path, takes_all=True), [Document("text", "text", {})], desired_table=table)
    assert [outcome.cluster for outcome in outcomes] == ["a", "b", "empty"]


def test_rows_that_cannot_be_meant_are_problems_of_their_cluster_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A value without a key, as an outer join leaves it, deleted the entity; see tests/unit/test_entry_row.py."""
    (tmp_path / "quotas.d").mkdir()
    write_config(tmp_path, ["bad", "good", "nan"])
    rows = [
        ("bad", "user=alice", None, 5.0, None),
        ("bad", None, PRODUCER, 1.0, None),
        ("bad", "user=bob", PRODUCER, 1.0, date(2020, 1, 1)),
        ("bad", "user=bob", CONSUMER, 1.0, None),
        ("good", "user=alice", PRODUCER, 1.0, None),
        ("nan", "user=alice", PRODUCER, float("nan"), None),
    ]
    for name in ("bad", "good", "nan"):
        take(tmp_path / "snapshots", name, {ALICE: {REQUEST: 5.0}})
    columns = "cluster string, entity_key string, key string, value double, expires date"
    spark.createDataFrame(rows, columns).createOrReplaceTempView("wanted")
    outcomes = plan_on_spark(request_for(tmp_path, takes_all=True), [JSON], desired_table="wanted")
    bad, good, nan = outcomes
    assert isinstance(bad.error, InvalidFilesError)
    assert [str(finding) for finding in bad.error.problems] == [
        f"table wanted, cluster bad: error: {text} [table-row]"
        for text in (
            'there is a row without entity_key (key: "producer_byte_rate"); add the entity, or remove the row',
            "user=alice: a row has the value 5 and no key; add the key, or remove the row",
            'user=bob: the rows differ in expires ("2020-01-01", null); give all of them the same',
        )
    ]
    assert good.require().digest.changes == 1
    assert 'table wanted, cluster nan: error: user=alice producer_byte_rate: "nan" is not a value' in str(nan.error)


@pytest.mark.parametrize(("cluster", "shown"), [("prod", '"prod"'), (None, "null")])
def test_rows_of_an_unknown_cluster_are_refused(spark: SparkSession, cluster: str | None, shown: str) -> None:
    rows = [(cluster, "user=a", PRODUCER, 1.0)]
    spark.createDataFrame(rows, "cluster string, entity_key string, key string, value double").createOrReplaceTempView(
        "wanted"
    )
    with pytest.raises(InvalidFilesError, match=f"table has rows of clusters that are not known: {shown}"):
        read_desired_table(spark, "wanted", ["lab"])


def test_numbers_that_are_no_doubles_keep_their_digits(spark: SparkSession) -> None:
    spark.sql(
        "SELECT 'lab' cluster, 'user=a' entity_key, 'producer_byte_rate' key, 9007199254740993L value"
    ).createOrReplaceTempView("wanted")
    (row,) = read_desired_table(spark, "wanted", ["lab"]).collect()
    assert row.value == "9007199254740993"


@pytest.mark.parametrize("clusters", [7, 600])
def test_the_rows_of_each_cluster_are_in_one_task_and_no_task_is_idle(spark: SparkSession, clusters: int) -> None:
    """Rows were grouped by a hash, in two tasks by default, so that clusters which are down were waited for in turn."""
    from pyspark.sql import functions as f

    # The first cluster has nearly all rows.
    rows = spark.range(2000).select(f.greatest(f.lit(0), f.col("id") - (2000 - clusters)).cast("int").alias("place"))
    placed = by_place(rows, clusters).withColumn("task", f.spark_partition_id())
    found = placed.groupBy("task").agg(f.sort_array(f.collect_set("place")).alias("places")).orderBy("task").collect()
    assert [row.task for row in found] == list(range(task_count(clusters)))
    assert [place for row in found for place in row.places] == list(range(clusters))
    sizes = {len(row.places) for row in found}
    assert max(sizes) - min(sizes) <= 1


def test_a_table_without_the_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "quotas.d").mkdir()
    write_config(tmp_path, ["lab"])
    spark.createDataFrame([("a",)], "who string").write.parquet(str(tmp_path / "desired"))
    with pytest.raises(InvalidFilesError, match="lacks the columns cluster, entity_key, key, value; it has who"):
        plan_on_spark(request_for(tmp_path), [JSON], desired_table=str(tmp_path / "desired"))
    with pytest.raises(InvalidFilesError, match="no such file or directory"):
        plan_on_spark(request_for(tmp_path), [JSON], desired_table=str(tmp_path / "nowhere.parquet"))


def test_clusters_of_a_table_are_those_of_the_configuration(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "quotas.d").mkdir()
    write_entries(tmp_path / "quotas.d/all.yaml", [entry(ALICE, {REQUEST: 50})])
    rows = [("b", "b:9092, c:9092", None, "id-b", 1), ("a", None, "snapshots/a.json", None, 2)]
    columns = "name string, bootstrap_servers string, snapshot string, cluster_id string, other int"
    spark.createDataFrame(rows, columns).write.parquet(str(tmp_path / "clusters"))
    found = read_clusters_table(spark, str(tmp_path / "clusters"), tmp_path)
    assert list(found) == ["a", "b"]
    assert found["a"].snapshot == tmp_path / "snapshots/a.json"
    assert (found["b"].bootstrap_servers, found["b"].cluster_id) == (("b:9092", "c:9092"), "id-b")
    spark.createDataFrame([("a", "not a server")], "name string, bootstrap_servers string").createOrReplaceTempView("t")
    with pytest.raises(InvalidFilesError, match='table t, cluster a: error: "not a server" is not HOST:PORT'):
        read_clusters_table(spark, "t", tmp_path)
    spark.createDataFrame(
        [("a", "x:1"), ("a", "y:1")], "name string, bootstrap_servers string"
    ).createOrReplaceTempView("t")
    with pytest.raises(InvalidFilesError, match='has "a" twice'):
        read_clusters_table(spark, "t", tmp_path)
    config = replace(Repository.at(tmp_path, None).config(), clusters=found)
    take(tmp_path / "snapshots", "a", {})
    request = replace(request_for(tmp_path, bootstrap_servers="x:1"), config=config, clusters=(found["a"],))
    (outcome,) = plan_on_spark(request, [JSON])
    assert outcome.require().digest.changes == 1


def test_a_table_may_have_more_clusters_than_quotaform_yaml(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows were read as one YAML file, so that the limits of one held."""
    monkeypatch.setattr("quotaform.desired.config_reader.MOST_CLUSTERS", 1000)
    spark.range(1001).selectExpr(
        "printf('c%04d', id) name", "array(concat('b', id, ':9092')) bootstrap_servers"
    ).createOrReplaceTempView("t")
    found = read_clusters_table(spark, "t", tmp_path)
    assert (len(found), found["c1000"].bootstrap_servers) == (1001, ("b1000:9092",))


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
