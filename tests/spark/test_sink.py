"""`write.format("kafka_quotas")` on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quotaform.apply.ledger import cluster_lock
from quotaform.desired.config import Cluster as Place
from quotaform.fleet.data_source import PLAN_ROWS, PlanWriter, register
from quotaform.fleet.table import row_batch
from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError
from quotaform.plan.receipt_file import load_receipt_file
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, MIB, PRODUCER
from tests.workflow.command import Cluster

pytestmark = pytest.mark.kafka

ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    """The shared broker: bob has two values, carol one."""
    cluster.alter({BOB: {PRODUCER: MIB, CONSUMER: MIB}, CAROL: {PRODUCER: MIB}})
    return cluster


@pytest.fixture
def repository(sandbox: Sandbox, tmp_path: Path) -> Path:
    """Of the broker under two names, and of one that is down."""
    brokers = {"eu": sandbox.bootstrap_servers, "us": sandbox.bootstrap_servers, "down": "127.0.0.1:1"}
    clusters = "".join(f"  {name}: {{bootstrap_servers: ['{servers}']}}\n" for name, servers in brokers.items())
    (tmp_path / "quotaform.yaml").write_text(f"clusters:\n{clusters}", encoding="utf-8")
    return tmp_path


Row = tuple[Any, ...]


def row(cluster_id: str, entity: Entity, before: float | None, after: float | None, name: str = "eu") -> Row:
    return (name, cluster_id, entity.address, dict(entity.parts), PRODUCER, before, after)


def table(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, PLAN_ROWS)


def write(spark: SparkSession, repository: Path, rows: list[Row], receipts: Path | None = None) -> None:
    """Write rows in one task."""
    register(spark)
    options = {"repository": str(repository), **({} if receipts is None else {"receipts": str(receipts)})}
    table(spark, rows).coalesce(1).write.format("kafka_quotas").options(**options).mode("append").save()


def test_rows_are_applied_and_what_holds_already_is_left_alone(
    spark: SparkSession, cluster: Cluster, repository: Path
) -> None:
    rows = [
        row(cluster.id, ALICE, None, 2 * MIB),
        row(cluster.id, BOB, MIB, 3 * MIB),
        row(cluster.id, CAROL, MIB, None),
    ]
    for result in ("applied", "already-applied"):
        write(spark, repository, rows, repository / result)
        assert cluster.read() == {ALICE: {PRODUCER: 2 * MIB}, BOB: {PRODUCER: 3 * MIB, CONSUMER: MIB}}
        (path,) = (repository / result).iterdir()
        receipt = load_receipt_file(path)
        assert receipt.cluster.id == cluster.id
        assert {each.entity: each.result.value for each in receipt.results} == dict.fromkeys(
            (ALICE, BOB, CAROL), result
        )


def test_a_cluster_that_is_down_or_has_changed_or_is_locked_keeps_no_other_from_being_written(
    spark: SparkSession, cluster: Cluster, repository: Path
) -> None:
    rows = [
        row(cluster.id, ALICE, None, MIB),
        # Planned when bob had another value.
        row(cluster.id, BOB, 7 * MIB, 3 * MIB, "us"),
        row("another", ALICE, None, MIB, "down"),
        row(cluster.id, ALICE, None, MIB, "unknown"),
    ]
    with pytest.raises(PySparkException) as raised:
        write(spark, repository, rows)
    assert "3 of 4 entities do not hold what was written (3 not-attempted)" in str(raised.value)
    assert "the cluster has changed since the plan was made, in 1 entity" in str(raised.value)
    assert "the options name no cluster unknown, but" in str(raised.value)
    assert cluster.read() == {ALICE: {PRODUCER: MIB}, BOB: {PRODUCER: MIB, CONSUMER: MIB}, CAROL: {PRODUCER: MIB}}
    change = [row(cluster.id, BOB, MIB, 3 * MIB)]
    with cluster_lock(repository, "eu", cluster.id), pytest.raises(PySparkException, match="another apply"):
        write(spark, repository, change)
    assert cluster.read()[BOB] == {PRODUCER: MIB, CONSUMER: MIB}
    write(spark, repository, change)
    assert cluster.read()[BOB] == {PRODUCER: 3 * MIB, CONSUMER: MIB}


def test_a_frame_is_written_by_its_options(
    spark: SparkSession, cluster: Cluster, sandbox: Sandbox, tmp_path: Path
) -> None:
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
    cluster: Cluster, sandbox: Sandbox, tmp_path: Path
) -> None:
    before = cluster.read()
    place = Place(name="eu", bootstrap_servers=(sandbox.bootstrap_servers,))
    writer = PlanWriter([place], str(tmp_path / "driver"))
    (tmp_path / "driver").rmdir()
    with pytest.raises(QuotaformError, match=r"does not see the folder .*driver of the option receipts"):
        writer.write(iter([row_batch(PLAN_ROWS, [row(cluster.id, ALICE, None, MIB)])]))
    assert cluster.read() == before
