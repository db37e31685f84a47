"""Clients that share a name and measure themselves: all of them are kept, and what they used is added up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from tests.builder import CONSUMER
from tests.spark.test_resolved import quota_table
from tests.spark.test_usage_headroom import START, usage_table
from tests.spark.usage_oracle import Sample
from tests.workflow.command import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

MB = 1e6
CONSUMERS = 10
PUSHES = 60
LIMIT = {Entity(client_id="reports"): {CONSUMER: 8 * MB}}


def consumed(at: float, instance: str | None, rate: float, throttle_ms: float | None = None) -> Sample:
    """What a consumer of the group `reports` said of its last minute."""
    return Sample(at, 60.0, "lab", None, CONSUMER, None, "reports", None, rate, throttle_ms, instance)


def group(consumers: int = CONSUMERS, rate: float = MB) -> list[Sample]:
    """An hour of a group of consumers, each of which pushes each minute, at another second."""
    return [
        consumed(60.0 * push + 6.0 * number, f"c{number}", rate)
        for push in range(PUSHES)
        for number in range(consumers)
    ]


def headroom_of(spark: SparkSession, usage: DataFrame, quotas: Quotas) -> dict[str, Any]:
    """The one row of `headroom`."""
    from quotaform.spark.usage.bucket.bucket import buckets, recorded_series
    from quotaform.spark.usage.bucket.member import numbered
    from quotaform.spark.usage.bucket.recorded import recorded, recorded_size
    from quotaform.spark.usage.headroom.headroom import headroom

    series = recorded(usage).persist()
    found = numbered(series, buckets(recorded_series(series), quota_table(spark, {"lab": quotas}))).persist()
    rows: list[dict[str, Any]] = headroom(usage, found, *recorded_size(series)).toArrow().to_pylist()
    [row] = rows
    return row


def test_headroom_of_a_group_of_consumers_is_that_of_all_of_them(spark: SparkSession) -> None:
    """The rate of one consumer at a time was taken for that of all."""
    row = headroom_of(spark, usage_table(spark, group()), LIMIT)
    assert (row["p50"], row["p99"], row["max"]) == (10 * MB, 10 * MB, 10 * MB)
    assert (row["used_ratio"], row["members"], row["top_member_share"]) == (1.25, 1, 1.0)
    assert (row["top_member"], row["bucket"]) == ("client-id=reports", "client-id=reports")
    assert row["is_coarse"]
    # The first window, and then until the last push.
    assert row["recorded_s"] == pytest.approx(60.0 + 60.0 * (PUSHES - 1) + 6.0 * (CONSUMERS - 1), abs=60.0)


def test_a_row_that_was_ingested_twice_counts_once(spark: SparkSession) -> None:
    rows = group()
    once, twice = (headroom_of(spark, usage_table(spark, each), LIMIT) for each in (rows, [*rows, *rows]))
    assert once == twice


def test_clients_that_measured_at_one_time_are_all_counted(spark: SparkSession) -> None:
    rows = [consumed(60.0 * push, f"c{number}", MB) for push in range(5) for number in range(3)]
    row = headroom_of(spark, usage_table(spark, rows), LIMIT)
    assert (row["samples"], row["p50"], row["max"]) == (5, 3 * MB, 3 * MB)


def test_a_consumer_that_ended_counts_no_more(spark: SparkSession) -> None:
    rows = [each for each in group(2) if each.instance == "c0" or each.at < 1800]
    row = headroom_of(spark, usage_table(spark, rows), LIMIT)
    assert (row["p50"], row["max"]) == (2 * MB, 2 * MB)
    ended = [each._replace(rate=MB / 2) if each.instance == "c1" and each.at < 60 else each for each in rows]
    assert headroom_of(spark, usage_table(spark, ended), LIMIT)["max"] == 2 * MB
    later = usage_table(spark, [each for each in rows if each.at >= 1830])
    assert headroom_of(spark, later, LIMIT)["max"] == MB


def test_throttled_time_of_one_consumer_is_not_cut_by_the_pushes_of_others(spark: SparkSession) -> None:
    """An average that stays is an old one: at the times at which others pushed, that of one consumer did not change."""
    rows = [
        each._replace(throttle_ms=100.0 + each.at) if each.instance == "c3" and 600 <= each.at < 1200 else each
        for each in group(rate=MB / 100)
    ]
    row = headroom_of(spark, usage_table(spark, rows), LIMIT)
    assert row["throttled_s"] == pytest.approx(600.0)


def test_members_with_instances_are_beside_those_of_other_names(spark: SparkSession) -> None:
    """A bucket of a user with two client-ids, one of which has two instances."""
    rows = [
        each._replace(user="alice", client_id=client, instance=instance, rate=rate)
        for each in group(1)
        for client, instance, rate in (("a", "x", 2 * MB), ("a", "y", 3 * MB), ("b", None, 4 * MB))
    ]
    row = headroom_of(spark, usage_table(spark, rows), {Entity(user="alice"): {CONSUMER: 8 * MB}})
    assert (row["members"], row["top_member"], row["max"]) == (2, "user=alice,client-id=a", 9 * MB)
    assert row["top_member_share"] == pytest.approx(5 / 9)


def backtest_of(spark: SparkSession, samples: Sequence[Sample], limit: float) -> dict[str, Any]:
    """The one row of `backtest`."""
    from quotaform.spark.usage.bucket.recorded import recorded, recorded_size
    from quotaform.spark.usage.replay.backtest import backtest
    from quotaform.spark.usage.replay.demand import members

    usage = usage_table(spark, samples)
    quotas = quota_table(spark, {"lab": {Entity(client_id="reports"): {CONSUMER: limit}}})
    series = recorded(usage).persist()
    found = members(series, quotas, quotas).persist()
    rows: list[dict[str, Any]] = backtest(usage, found, *recorded_size(series)).toArrow().to_pylist()
    [row] = rows
    return row


def test_a_backtest_holds_the_sum_against_the_limit(spark: SparkSession) -> None:
    over, under = (backtest_of(spark, group(), limit) for limit in (9.5 * MB, 12 * MB))
    assert over["throttled_s_high"] > 3500
    assert (over["over_max"], under["over_max"]) == (pytest.approx(10 / 9.5), pytest.approx(10 / 12))
    assert under["throttled_s_high"] == 0
    # It is of all brokers together, so what is said of one is an upper bound.
    assert over["is_coarse"]
    assert over["throttled_s"] is None


def test_a_sum_is_replayed_as_that_of_one_client(spark: SparkSession) -> None:
    """Ten that push at other times have used as much as one of ten times their rate, also in its estimates."""
    whole = [
        consumed(6.0 * number, None, (12 if 100 <= number < 200 else 5) * MB)._replace(broker="1", window_s=6.0)
        for number in range(400)
    ]
    parts = [
        consumed(60.0 * push + 6.0 * number, f"c{number}", (1.2 if 10 <= push < 20 else 0.5) * MB)._replace(broker="1")
        for push in range(40)
        for number in range(CONSUMERS)
    ]
    one, ten = (backtest_of(spark, rows, 10 * MB) for rows in (whole, parts))
    # Each of the ten sees the beginning and the end of the ten minutes in windows of its own.
    assert ten["throttled_s"] == pytest.approx(one["throttled_s"], rel=0.1)
    assert ten["delay_s_max"] == pytest.approx(one["delay_s_max"], rel=0.1)


def test_what_the_windows_of_a_client_do_not_cover_is_in_the_upper_bound(spark: SparkSession) -> None:
    """The samples of a client before and after bound it, however many others push in between."""
    busy = [consumed(300.0 * push, "busy", (0 if push % 2 else 9) * MB) for push in range(10)]
    idle = [
        consumed(300.0 * push + 60.0 * number, f"idle{number}", 0.0) for push in range(10) for number in range(1, 4)
    ]
    alone, together = (backtest_of(spark, rows, 8.5 * MB)["throttled_s_high"] for rows in (busy, busy + idle))
    # All but the minutes of which the samples without traffic are; what waits then is gone soon.
    assert alone == pytest.approx(9 * 300 - 5 * 60, rel=0.1)
    assert alone <= together <= 10 * 300


def test_what_a_quota_is_sized_by_is_the_sum(spark: SparkSession) -> None:
    from quotaform.spark.usage.bucket.bucket import buckets, recorded_series
    from quotaform.spark.usage.bucket.member import numbered
    from quotaform.spark.usage.bucket.recorded import recorded
    from quotaform.spark.usage.recommend.bucket_day import bucket_days

    usage = usage_table(spark, [each._replace(broker="1") for each in group()])
    series = recorded(usage).persist()
    found = numbered(series, buckets(recorded_series(series), quota_table(spark, {"lab": LIMIT}))).persist()
    [day] = bucket_days(usage, found, 0, 0, 99.0).toArrow().to_pylist()
    assert (day["broker"], day["basis"]) == ("1", 10 * MB)


def test_a_curve_is_the_sum(spark: SparkSession) -> None:
    from quotaform.spark.usage.picture.curve import entity_curves

    wanted = [("lab", Entity(client_id="reports"), CONSUMER)]
    [found] = entity_curves(usage_table(spark, group()), wanted).values()
    assert set(found.values[CONSUMERS - 1 : -CONSUMERS]) == {10 * MB}


# Ingest


def push(instance: str, name: str, points: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """What a client pushes (KIP-714), with nanoseconds."""
    attributes = {"client_id": "reports", "client_instance_id": instance, "cluster": "lab"}
    data_points = [
        {
            "timeUnixNano": str(int((START.timestamp() + at) * 1e9)),
            "asDouble": value,
            "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
        }
        for at, value in points
    ]
    kind = {"sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": data_points}}
    if name.endswith("rate"):
        kind = {"gauge": {"dataPoints": data_points}}
    scope = {"metrics": [{"name": f"org.apache.kafka.consumer.fetch.manager.bytes.consumed.{name}", **kind}]}
    return {"resourceMetrics": [{"scopeMetrics": [scope]}]}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a cluster."""
    made = Repository(tmp_path)
    made.config("clusters:\n  lab: {bootstrap_servers: ['127.0.0.1:1']}\n")
    return made


def found_rows(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    from quotaform.spark.usage.table.usage_table import read_usage

    rows = read_usage(spark, str(folder)).select("ts", "rate", "instance", "broker").toArrow().to_pylist()
    return sorted(((row["ts"] - START).total_seconds(), *list(row.values())[1:]) for row in rows)


def write_lines(path: Path, documents: Sequence[object]) -> None:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents), encoding="utf-8")


def test_two_clients_at_one_nanosecond_are_two_rows(spark: SparkSession, repository: Repository) -> None:
    """They were rows of one series, of which a table of rows of buckets kept the larger one."""
    write_lines(repository.path / "push.json", [push("a", "rate", [(0, 5.0)]), push("b", "rate", [(0, 7.0)])])
    done = repository("usage", "ingest", "push.json", "--usage", "usage")
    assert "2 read = 2 written (2 rows) + 0 dropped + 0 quarantined" in done.said
    expected = [(0.0, 5.0, "a", None), (0.0, 7.0, "b", None)]
    assert found_rows(spark, repository.path / "usage") == expected
    # The table is a recording, too.
    again = repository("usage", "ingest", "usage", "usage", "--usage", "copy")
    assert "4 read = 2 written (2 rows) + 2 dropped" in again.said
    assert found_rows(spark, repository.path / "copy") == expected
    rows = spark.read.parquet(str(repository.path / "usage")).coalesce(1)
    rows.write.csv(str(repository.path / "csv"), header=True)
    [file] = (repository.path / "csv").glob("*.csv")
    assert repository("usage", "ingest", str(file), "--usage", "of-csv").code == 0
    assert found_rows(spark, repository.path / "of-csv") == expected


def test_totals_of_two_clients_are_two_counters(spark: SparkSession, repository: Repository) -> None:
    documents = [
        push("a", "total", [(0, 100.0), (60, 700.0)]),
        push("b", "total", [(0, 5000.0), (60, 5060.0), (120, 5060.0)]),
    ]
    write_lines(repository.path / "push.json", documents)
    done = repository("usage", "ingest", "push.json", "--usage", "usage")
    assert "5 read = 3 written (3 rows) + 2 dropped" in done.said
    assert found_rows(spark, repository.path / "usage") == [
        (60.0, 1.0, "b", None),
        (60.0, 10.0, "a", None),
        (120.0, 0.0, "b", None),
    ]


# Tables of earlier versions


def test_files_with_and_without_the_column_are_one_table(spark: SparkSession, repository: Repository) -> None:
    """Spark takes the schema of a directory from one of its files."""
    folder = repository.path / "usage"
    earlier, later = (usage_table(spark, [consumed(at, name, MB)]) for at, name in ((0.0, None), (60.0, "c0")))
    for first, second in ((earlier.drop("instance"), later), (later, earlier.drop("instance"))):
        first.coalesce(1).write.mode("overwrite").parquet(str(folder))
        second.coalesce(1).write.mode("append").parquet(str(folder))
        expected = [(0.0, MB, None, None), (60.0, MB, "c0", None)]
        assert found_rows(spark, folder) == expected
        copied = repository("usage", "ingest", "usage", "--usage", f"copy-{first is later}")
        assert copied.code == 0, copied.said
        assert found_rows(spark, repository.path / f"copy-{first is later}") == expected
    write_lines(repository.path / "push.json", [push("a", "rate", [(120, 5.0)])])
    earlier.drop("instance").write.parquet(str(repository.path / "old"))
    done = repository("usage", "ingest", "push.json", "--usage", "old")
    assert done.code == 0, done.said
    assert found_rows(spark, repository.path / "old") == [(0.0, MB, None, None), (120.0, 5.0, "a", None)]


def test_a_table_of_the_catalog_without_the_column_is_read_and_not_added_to(
    spark: SparkSession, repository: Repository
) -> None:
    from quotaform.spark.usage.table.usage_table import read_usage

    earlier = usage_table(spark, [consumed(0.0, None, MB)]).drop("instance")
    write_lines(repository.path / "push.json", [push("a", "rate", [(60, 5.0)])])
    into = ("usage", "ingest", "push.json", "--usage", "earlier_usage", "--quarantine", "rejected")
    try:
        earlier.write.saveAsTable("earlier_usage", path=str(repository.path / "place"))
        assert [row.instance for row in read_usage(spark, "earlier_usage").collect()] == [None]
        refused = repository(*into)
        assert refused.code == 3
        remedy = "run: ALTER TABLE earlier_usage ADD COLUMNS (instance STRING)"
        assert remedy in " ".join(refused.err.split()), refused.said
        spark.sql(remedy.removeprefix("run: "))
        done = repository(*into)
        assert done.code == 0, done.said
        assert sorted(str(row.instance) for row in read_usage(spark, "earlier_usage").collect()) == ["None", "a"]
    finally:
        spark.sql("DROP TABLE IF EXISTS earlier_usage")
