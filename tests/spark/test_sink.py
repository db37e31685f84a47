"""`write.format("kafka_quotas")` on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.desired.config import Cluster as Place
from quotaform.errors import QuotaformError
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox
from tests.builder import CONSUMER, PRODUCER
from tests.workflow.command import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.kafka

MIB = 2.0**20
ALICE, BOB, CAROL = (Entity(user=name) for name in ("alice", "bob", "carol"))


@pytest.fixture
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    """The shared broker: bob has two values, carol one."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        cluster = Cluster(gateway)
        cluster.wipe()
        cluster.alter({BOB: {PRODUCER: MIB, CONSUMER: MIB}, CAROL: {PRODUCER: MIB}})
        yield cluster
        cluster.wipe()


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
    from pyspark.sql.types import StructType

    from quotaform.spark.schemas import PLAN_ROWS

    return spark.createDataFrame(rows, StructType(PLAN_ROWS.fields[:-1]))


def results(spark: SparkSession, path: Path) -> dict[tuple[str, str], str]:
    return {(each.cluster, each.entity_key): each.result for each in spark.read.parquet(str(path)).collect()}


def test_rows_are_applied_and_what_holds_already_is_left_alone(
    spark: SparkSession, cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.spark.sink import write_plan_rows

    rows = [
        row(cluster.id, ALICE, None, 2 * MIB),
        row(cluster.id, BOB, MIB, 3 * MIB),
        row(cluster.id, CAROL, MIB, None),
    ]
    for result in ("applied", "already-applied"):
        write_plan_rows(table(spark, rows), places[:1], str(tmp_path / result))
        assert results(spark, tmp_path / result) == {("eu", each[2]): result for each in rows}
        assert cluster.read() == {ALICE: {PRODUCER: 2 * MIB}, BOB: {PRODUCER: 3 * MIB, CONSUMER: MIB}}


def test_a_cluster_that_is_down_or_has_changed_keeps_no_other_from_being_written(
    spark: SparkSession, cluster: Cluster, places: list[Place], sandbox: Sandbox, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    from quotaform.spark.sink import write_plan_rows

    # A second name of the broker, whose row was planned when bob had another value.
    stale = Place(name="us", bootstrap_servers=(sandbox.bootstrap_servers,))
    rows = [
        row(cluster.id, ALICE, None, MIB),
        row(cluster.id, BOB, 7 * MIB, 3 * MIB, "us"),
        row("another", ALICE, None, MIB, "down"),
    ]
    with pytest.raises(PySparkException) as raised:
        write_plan_rows(table(spark, rows), [*places, stale], str(tmp_path / "results"))
    assert "2 of 3 entities do not hold what was written (2 not-attempted)" in str(raised.value)
    assert "the cluster has changed since the plan was made, in 1 entity" in str(raised.value)
    assert results(spark, tmp_path / "results") == {
        ("eu", "user=alice"): "applied",
        ("us", "user=bob"): "not-attempted",
        ("down", "user=alice"): "not-attempted",
    }
    assert cluster.read()[BOB] == {PRODUCER: MIB, CONSUMER: MIB}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({4: None}, "key is null"),
        ({0: "us"}, "the option clusters does not have the cluster"),
        ({6: 5.0}, "is in more than one row"),
    ],
)
def test_rows_that_cannot_be_meant_are_refused_before_anything_is_written(
    spark: SparkSession, cluster: Cluster, places: list[Place], changed: dict[int, Any], message: str
) -> None:
    from quotaform.spark.sink import write_plan_rows

    good = row(cluster.id, ALICE, None, MIB)
    bad = tuple(changed.get(number, value) for number, value in enumerate(good))
    before = cluster.read()
    with pytest.raises(QuotaformError, match=message):
        write_plan_rows(table(spark, [good, bad]), places)
    assert cluster.read() == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({2: "user=mallory"}, "entity_key is not that of the entity, which is user=alice"),
        ({4: "no_such_key"}, "key is not known to this version"),
        ({6: -1.0}, "after is a value that files cannot declare"),
        ({6: None}, "before and after are the same"),
        ({7: 2}, "a task has 1 rows, but the cluster has 2; group them"),
    ],
)
def test_a_row_that_no_plan_has_is_refused_with_its_cluster(changed: dict[int, Any], message: str) -> None:
    from quotaform.spark.plan_rows import cluster_changes
    from quotaform.spark.schemas import PLAN_ROWS

    good = (*row("id", ALICE, None, MIB), 1)
    bad = dict(zip(PLAN_ROWS.names, (changed.get(n, value) for n, value in enumerate(good)), strict=True))
    with pytest.raises(QuotaformError, match=message):
        cluster_changes("eu", [bad])


def test_other_columns_and_overwriting_are_refused(spark: SparkSession, places: list[Place]) -> None:
    from pyspark.errors import PySparkException

    from quotaform.spark.source import KafkaQuotas, dump_clusters

    spark.dataSource.register(KafkaQuotas)
    frame = table(spark, [row("id", ALICE, None, MIB)])
    writer = frame.write.format("kafka_quotas").options(clusters=dump_clusters(places))
    with pytest.raises(PySparkException, match=r"missing, unknown or of another type: \['rows'\]"):
        writer.mode("append").save()
    with pytest.raises(PySparkException, match=r'write them with mode\("append"\)'):
        writer.mode("overwrite").save()
