"""`write.format("kafka_quotas")` on a real broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.desired.config import Cluster as Place
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, PartialError, QuotaformError
from quotaform.plan.receipt_file import load_receipt_file
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER
from tests.workflow.command import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.kafka

MIB = 2.0**20
ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    """The shared broker: bob has two values, carol one."""
    cluster.alter({BOB: {PRODUCER: MIB, CONSUMER: MIB}, CAROL: {PRODUCER: MIB}})
    return cluster


@pytest.fixture
def places(sandbox: Sandbox) -> list[Place]:
    """The broker, and one that is down."""
    return [
        Place(name="eu", bootstrap_servers=(sandbox.bootstrap_servers,)),
        Place(name="down", bootstrap_servers=("127.0.0.1:1",)),
    ]


Row = tuple[Any, ...]


def row(cluster_id: str, entity: Entity, before: float | None, after: float | None, name: str = "eu") -> Row:
    return (name, cluster_id, entity.address, dict(entity.parts), PRODUCER, before, after)


def table(spark: SparkSession, rows: list[Row]) -> DataFrame:
    from quotaform.fleet.plan_rows import PLAN_ROWS

    return spark.createDataFrame(rows, PLAN_ROWS)


def results(spark: SparkSession, path: Path) -> list[tuple[str, str, str]]:
    """Return all rows: an entity that is there twice is one too many."""
    found = spark.read.parquet(str(path)).select("cluster", "entity_key", "result").collect()
    return sorted((each[0], each[1], each[2]) for each in found)


def test_rows_are_applied_and_what_holds_already_is_left_alone(
    spark: SparkSession, cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.fleet.plan_rows import write_plan_rows

    rows = [
        row(cluster.id, ALICE, None, 2 * MIB),
        row(cluster.id, BOB, MIB, 3 * MIB),
        row(cluster.id, CAROL, MIB, None),
    ]
    for result in ("applied", "already-applied"):
        write_plan_rows(table(spark, rows), places[:1], str(tmp_path / result), str(tmp_path / f"receipts-{result}"))
        assert results(spark, tmp_path / result) == [("eu", each[2], result) for each in rows]
        assert cluster.read() == {ALICE: {PRODUCER: 2 * MIB}, BOB: {PRODUCER: 3 * MIB, CONSUMER: MIB}}
    (path,) = (tmp_path / "receipts-applied").iterdir()
    receipt = load_receipt_file(path)
    assert receipt.cluster.id == cluster.id
    assert {each.entity: each.result.value for each in receipt.results} == dict.fromkeys((ALICE, BOB, CAROL), "applied")


def test_a_cluster_that_is_down_or_has_changed_or_is_locked_keeps_no_other_from_being_written(
    spark: SparkSession, cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.apply.lock import cluster_lock
    from quotaform.fleet.plan_rows import write_plan_rows

    # Other names of the broker: one whose row was planned when bob had another value; one that is locked.
    stale, locked = replace(places[0], name="us"), replace(places[0], name="ap", folder=tmp_path)
    rows = [
        row(cluster.id, ALICE, None, MIB),
        row(cluster.id, BOB, 7 * MIB, 3 * MIB, "us"),
        row("another", ALICE, None, MIB, "down"),
        row(cluster.id, BOB, MIB, 3 * MIB, "ap"),
    ]
    with cluster_lock(tmp_path, "ap", cluster.id), pytest.raises(PartialError) as raised:
        write_plan_rows(table(spark, rows), [*places, stale, locked], str(tmp_path / "results"))
    assert "2 of 3 entities do not hold what was written (2 not-attempted)" in str(raised.value)
    assert "the cluster has changed since the plan was made, in 1 entity" in str(raised.value)
    assert results(spark, tmp_path / "results") == [
        ("down", "user=alice", "not-attempted"),
        ("eu", "user=alice", "applied"),
        ("us", "user=bob", "not-attempted"),
    ]
    assert cluster.read()[BOB] == {PRODUCER: MIB, CONSUMER: MIB}
    with cluster_lock(tmp_path, "ap", cluster.id), pytest.raises(ApplyRunningError, match="ap"):
        write_plan_rows(table(spark, rows[3:]), [locked])
    write_plan_rows(table(spark, rows[3:]), [locked])
    assert cluster.read()[BOB] == {PRODUCER: 3 * MIB, CONSUMER: MIB}


def test_a_frame_is_written_by_its_options(
    spark: SparkSession, cluster: Cluster, sandbox: Sandbox, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    from quotaform.fleet.data_source import register

    register(spark)
    rows = [row(cluster.id, ALICE, None, MIB), row(cluster.id, CAROL, MIB, None), row(cluster.id, BOB, None, 5.0)]
    options = {"bootstrap_servers": sandbox.bootstrap_servers, "cluster": "eu", "receipts": str(tmp_path / "receipts")}

    def writer(frame: DataFrame) -> Any:
        return frame.repartition("cluster").write.format("kafka_quotas").options(**options)

    writer(table(spark, rows[:2])).mode("append").save()
    assert cluster.read() == {ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: MIB, CONSUMER: MIB}}
    assert len(list((tmp_path / "receipts").iterdir())) == 1
    with pytest.raises(PySparkException, match="1 of 1 entities do not hold what was written"):
        writer(table(spark, rows[2:])).mode("append").save()
    with pytest.raises(PySparkException, match=r'write them with mode\("append"\)'):
        writer(table(spark, rows)).mode("overwrite").save()
    with pytest.raises(PySparkException, match=r"missing, unknown or of another type: \['key'\]"):
        writer(table(spark, rows).drop("key")).mode("append").save()


def test_an_executor_that_does_not_see_the_folder_of_receipts_writes_nothing(
    cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.fleet.plan_rows import PLAN_ROWS, RowApplier
    from quotaform.fleet.table import row_batch

    before = cluster.read()
    applier = RowApplier.of(places, None, str(tmp_path / "driver"))
    (tmp_path / "driver").rmdir()
    with pytest.raises(QuotaformError, match=r"does not see the folder .*driver of the option receipts"):
        applier.results([row_batch(PLAN_ROWS, [row(cluster.id, ALICE, None, MIB)])])
    assert cluster.read() == before


def test_rows_of_an_unknown_cluster_are_refused_before_anything_is_written(
    spark: SparkSession, cluster: Cluster, places: list[Place]
) -> None:
    from quotaform.fleet.plan_rows import write_plan_rows

    before = cluster.read()
    rows = [row(cluster.id, ALICE, None, MIB), row(cluster.id, ALICE, None, MIB, "us")]
    with pytest.raises(QuotaformError, match="there are rows of cluster us, which is not given"):
        write_plan_rows(table(spark, rows), places)
    assert cluster.read() == before
