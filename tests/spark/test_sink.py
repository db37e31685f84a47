"""`write.format("kafka_quotas")` on a real broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.desired.config import Cluster as Place
from quotaform.fleet.plan_rows import Written, require_written, summary_of
from quotaform.model.entity import Entity
from quotaform.model.errors import ApplyRunningError, PartialError, QuotaformError
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
    from pyspark.sql.types import StructType

    from quotaform.fleet.plan_rows import PLAN_ROWS

    return spark.createDataFrame(rows, StructType(PLAN_ROWS.fields[:-1]))


def results(spark: SparkSession, path: Path) -> list[tuple[str, str, str]]:
    """Return all rows: an entity that is there twice is one too many."""
    found = spark.read.parquet(str(path)).select("cluster", "entity_key", "result").collect()
    return sorted((each[0], each[1], each[2]) for each in found)


def batch(rows: list[Row]) -> Any:
    """Return what a task is given."""
    import pyarrow

    from quotaform.fleet.plan_rows import PLAN_ROWS
    from quotaform.resolve.spark_quotas import arrow_schema

    columns = [dict(zip(PLAN_ROWS.names, (*each, len(rows)), strict=True)) for each in rows]
    named = [{**each, "entity": list(each["entity"].items())} for each in columns]
    return pyarrow.RecordBatch.from_pylist(named, arrow_schema(PLAN_ROWS))


def test_rows_are_applied_and_what_holds_already_is_left_alone(
    spark: SparkSession, cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.fleet.data_source import write_plan_rows

    rows = [
        row(cluster.id, ALICE, None, 2 * MIB),
        row(cluster.id, BOB, MIB, 3 * MIB),
        row(cluster.id, CAROL, MIB, None),
    ]
    for result in ("applied", "already-applied"):
        write_plan_rows(table(spark, rows), places[:1], str(tmp_path / result))
        assert results(spark, tmp_path / result) == [("eu", each[2], result) for each in rows]
        assert cluster.read() == {ALICE: {PRODUCER: 2 * MIB}, BOB: {PRODUCER: 3 * MIB, CONSUMER: MIB}}


def test_a_cluster_that_is_down_or_has_changed_keeps_no_other_from_being_written(
    spark: SparkSession, cluster: Cluster, places: list[Place], sandbox: Sandbox, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    from quotaform.fleet.data_source import write_plan_rows

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
    # Spark calls `abort` after a `commit` that fails, which wrote every result a second time.
    assert results(spark, tmp_path / "results") == [
        ("down", "user=alice", "not-attempted"),
        ("eu", "user=alice", "applied"),
        ("us", "user=bob", "not-attempted"),
    ]
    assert [path.name[:11] for path in sorted((tmp_path / "results").iterdir())] == [
        "part-00000-",
        "part-00001-",
        "part-00002-",
    ]
    assert cluster.read()[BOB] == {PRODUCER: MIB, CONSUMER: MIB}


def test_receipts_are_files_that_quotaform_reads(
    spark: SparkSession, cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    from quotaform.fleet.data_source import write_plan_rows
    from quotaform.plan.receipt_file import load_receipt_file

    rows = [row(cluster.id, ALICE, None, MIB), row(cluster.id, CAROL, MIB, None)]
    write_plan_rows(table(spark, rows), places[:1], receipts=str(tmp_path / "receipts"))
    (path,) = (tmp_path / "receipts").iterdir()
    receipt = load_receipt_file(path)
    assert receipt.cluster_id == cluster.id
    assert [(each.entity, each.result.value) for each in receipt.results] == [(ALICE, "applied"), (CAROL, "applied")]


def test_a_cluster_that_somebody_else_applies_to_is_left_out(
    spark: SparkSession, cluster: Cluster, places: list[Place], sandbox: Sandbox, tmp_path: Path
) -> None:
    from quotaform.apply.lock import cluster_lock
    from quotaform.fleet.data_source import write_plan_rows

    locked = replace(places[0], name="us", folder=tmp_path)
    rows = [row(cluster.id, ALICE, None, MIB), row(cluster.id, BOB, MIB, 3 * MIB, "us")]
    with cluster_lock(tmp_path, "us", cluster.id), pytest.raises(ApplyRunningError, match="us"):
        write_plan_rows(table(spark, rows), [places[0], locked], str(tmp_path / "results"))
    assert results(spark, tmp_path / "results") == [("eu", "user=alice", "applied")]
    assert cluster.read()[BOB] == {PRODUCER: MIB, CONSUMER: MIB}
    write_plan_rows(table(spark, rows[1:]), [locked])
    assert cluster.read()[BOB] == {PRODUCER: 3 * MIB, CONSUMER: MIB}


def test_what_a_task_has_done_is_on_record_whatever_becomes_of_the_others(
    cluster: Cluster, places: list[Place], tmp_path: Path
) -> None:
    """Results were written by the driver when all tasks had ended, so that one that failed for good took all away."""
    from pyarrow import parquet

    from quotaform.fleet.data_source import QuotaSinkWriter
    from quotaform.fleet.plan_rows import PLAN_ROWS

    writer = QuotaSinkWriter(PLAN_ROWS, places, None, results=str(tmp_path / "results"))
    rows = batch([row(cluster.id, ALICE, None, MIB)])
    first = writer.write(iter([rows]))
    # Spark runs a task again whose executor was lost before Spark heard of it.
    second = writer.write(iter([rows]))
    assert first == second == Written(counts={"applied": 1})
    writer.abort([first, None])
    assert parquet.read_table(tmp_path / "results").column("result").to_pylist() == ["applied"]
    assert [path.suffix for path in (tmp_path / "results").iterdir()] == [".parquet"]


@pytest.mark.parametrize("option", ["results", "receipts"])
def test_an_executor_that_does_not_see_the_folders_of_the_driver_writes_nothing(
    cluster: Cluster, places: list[Place], tmp_path: Path, option: str
) -> None:
    from quotaform.fleet.data_source import QuotaSinkWriter
    from quotaform.fleet.plan_rows import PLAN_ROWS

    before = cluster.read()
    options = {option: str(tmp_path / "driver")}
    writer = QuotaSinkWriter(PLAN_ROWS, places, None, **options)
    (tmp_path / "driver").rmdir()
    with pytest.raises(QuotaformError, match=f"does not see the folder .*driver of the option {option}"):
        writer.write(iter([batch([row(cluster.id, ALICE, None, MIB)])]))
    assert cluster.read() == before


def test_the_size_of_what_a_task_reports_does_not_grow_with_the_entities() -> None:
    rows = [
        {"cluster": "eu", "result": "refused" if number % 2 else "applied", "message": f"reason {number % 20}"}
        for number in range(1000)
    ]
    written = summary_of(rows)
    assert written.counts == {"applied": 500, "refused": 500}
    assert (sorted(written.reasons.values()), written.more) == ([50] * 5, 5)
    with pytest.raises(PartialError) as raised:
        require_written(
            [written, Written(), summary_of([{"cluster": None, "result": "applied", "message": None}])], "r"
        )
    assert str(raised.value).startswith(
        "500 of 1,001 entities do not hold what was written (500 refused): eu: 50 reason "
    )
    assert str(raised.value).endswith("; and for 5 more reasons; the results are in r")


def test_a_receipt_that_cannot_be_written_is_a_failure() -> None:
    with pytest.raises(PartialError, match="all is written, but 1 receipts are not: eu: disk full"):
        require_written(
            [summary_of([{"cluster": "eu", "result": "applied", "message": None}], ["eu: disk full"])], None
        )


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
    from quotaform.fleet.data_source import write_plan_rows

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
    from quotaform.fleet.plan_rows import PLAN_ROWS, cluster_changes

    good = (*row("id", ALICE, None, MIB), 1)
    bad = dict(zip(PLAN_ROWS.names, (changed.get(n, value) for n, value in enumerate(good)), strict=True))
    with pytest.raises(QuotaformError, match=message):
        cluster_changes("eu", [bad])


def test_other_columns_and_overwriting_are_refused(spark: SparkSession, places: list[Place]) -> None:
    from pyspark.errors import PySparkException

    from quotaform.fleet.data_source import KafkaQuotas, dump_clusters

    spark.dataSource.register(KafkaQuotas)
    frame = table(spark, [row("id", ALICE, None, MIB)])
    writer = frame.write.format("kafka_quotas").options(clusters=dump_clusters(places))
    with pytest.raises(PySparkException, match=r"missing, unknown or of another type: \['rows'\]"):
        writer.mode("append").save()
    with pytest.raises(PySparkException, match=r'write them with mode\("append"\)'):
        writer.mode("overwrite").save()
