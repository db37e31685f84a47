"""Clients that share a name and measure themselves: all of them are kept, and what they used is added up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform.model.entity import Entity
from quotaform.resolve.spark import unpacked
from quotaform.spark import backtest, headroom
from quotaform.usage.bucket.spark import entity_curves, packed_usage, quota_buckets
from quotaform.usage.recommend.run import bucket_use
from quotaform.usage.table.table import read_usage
from tests.builder import CONSUMER
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import START, Sample, usage_table
from tests.workflow.command import Repository

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


def of_alice() -> list[Sample]:
    """A user with two client-ids, one of which has two instances."""
    return [
        each._replace(user="alice", client_id=client, instance=instance, rate=rate)
        for each in group(1)
        for client, instance, rate in (("a", "x", 2 * MB), ("a", "y", 3 * MB), ("b", None, 4 * MB))
    ]


MEASURED: Final[dict[str, list[Sample]]] = {
    "group": group(),
    "twice": [*group(), *group()],
    "alice": of_alice(),
}
"""Recordings by what is special about them: each is a cluster."""


def whole_table(spark: SparkSession, recordings: Mapping[str, Sequence[Sample]]) -> DataFrame:
    return usage_table(spark, [row._replace(cluster=name) for name, rows in recordings.items() for row in rows])


def test_headroom_of_a_group_of_consumers_is_that_of_all_of_them(spark: SparkSession) -> None:
    """The rate of one consumer at a time was taken for that of all."""
    usage = whole_table(spark, MEASURED).persist()
    held = {name: {Entity(user="alice"): {CONSUMER: 8 * MB}} if name == "alice" else LIMIT for name in MEASURED}
    rows = headroom(usage, quota_table(spark, held)).where("bucket IS NOT NULL").toArrow().to_pylist()
    assert len(rows) == len(MEASURED)
    headroom_of = {row.pop("cluster"): row for row in rows}
    row = headroom_of["group"]
    assert (row["p50"], row["p99"], row["max"]) == (10 * MB, 10 * MB, 10 * MB)
    assert (row["used_ratio"], row["members"], row["top_member_share"]) == (1.25, 1, 1.0)
    assert (row["top_member"], row["bucket"]) == ("client-id=reports", "client-id=reports")
    assert row["is_coarse"]
    # The first window, and then until the last push.
    assert row["recorded_s"] == pytest.approx(60.0 + 60.0 * (PUSHES - 1) + 6.0 * (CONSUMERS - 1), abs=60.0)
    # Rows that come twice count once.
    assert headroom_of["twice"] == row
    # Members with instances are beside those of other names.
    row = headroom_of["alice"]
    assert (row["members"], row["top_member"], row["max"]) == (2, "user=alice,client-id=a", 9 * MB)
    assert row["top_member_share"] == pytest.approx(5 / 9)


def one_client() -> list[Sample]:
    """What ten clients use, by one."""
    return [
        consumed(6.0 * number, None, (12 if 100 <= number < 200 else 5) * MB)._replace(broker="1", window_s=6.0)
        for number in range(400)
    ]


def ten_clients() -> list[Sample]:
    """Each has a tenth of the rate of the one, and pushes at other times."""
    return [
        consumed(60.0 * push + 6.0 * number, f"c{number}", (1.2 if 10 <= push < 20 else 0.5) * MB)._replace(broker="1")
        for push in range(40)
        for number in range(CONSUMERS)
    ]


BUSY: Final = [consumed(300.0 * push, "busy", (0 if push % 2 else 9) * MB) for push in range(10)]
IDLE: Final = [
    consumed(300.0 * push + 60.0 * number, f"idle{number}", 0.0) for push in range(10) for number in range(1, 4)
]
REPLAYED: Final[dict[str, tuple[list[Sample], float]]] = {
    "over": (group(), 9.5 * MB),
    "under": (group(), 12 * MB),
    "one": (one_client(), 10 * MB),
    "ten": (ten_clients(), 10 * MB),
    "alone": (BUSY, 8.5 * MB),
    "with idle ones": (BUSY + IDLE, 8.5 * MB),
}
"""Recordings, each of a cluster, and the limit there."""


def test_a_backtest_replays_the_sum_of_all_clients(spark: SparkSession) -> None:
    usage = whole_table(spark, {name: rows for name, (rows, _) in REPLAYED.items()}).persist()
    limits = {name: {Entity(client_id="reports"): {CONSUMER: limit}} for name, (_, limit) in REPLAYED.items()}
    quotas = quota_table(spark, limits)
    rows = backtest(usage, quotas, quotas).toArrow().to_pylist()
    found = {row["cluster"]: row for row in rows}
    assert len(found) == len(rows) == len(REPLAYED)

    over, under = found["over"], found["under"]
    assert over["throttled_s_high"] > 3500
    assert (over["over_max"], under["over_max"]) == (pytest.approx(10 / 9.5), pytest.approx(10 / 12))
    assert under["throttled_s_high"] == 0
    # It is of all brokers together, so what is said of one is an upper bound.
    assert over["is_coarse"]
    assert over["throttled_s"] is None

    # Ten that push at other times have used as much as one of ten times their rate; each of the ten sees the beginning
    # and the end of the ten minutes in windows of its own.
    for name in ("throttled_s", "delay_s_max"):
        assert found["ten"][name] == pytest.approx(found["one"][name], rel=0.1)

    # The samples of a client before and after bound it, however many others push in between: all but the minutes of
    # which the samples without traffic are; what waits then is gone soon.
    alone, together = (found[name]["throttled_s_high"] for name in ("alone", "with idle ones"))
    assert alone == pytest.approx(9 * 300 - 5 * 60, rel=0.1)
    assert alone <= together <= 10 * 300


def test_what_a_quota_is_sized_by_and_a_curve_are_the_sum(spark: SparkSession) -> None:
    usage = usage_table(spark, [each._replace(broker="1") for each in group()]).persist()
    recording = packed_usage(usage, quota_buckets({"lab": LIMIT})).persist()
    [used] = map(unpacked, bucket_use(recording, 99.0).toArrow()["use"].to_pylist())
    assert (used.broker, used.basis) == ("1", 10 * MB)
    [curve] = entity_curves(usage, [("lab", Entity(client_id="reports"), CONSUMER)]).values()
    assert set(curve.values[CONSUMERS - 1 : -CONSUMERS]) == {10 * MB}


# Ingest


def push(instance: str, at: float, value: float) -> dict[str, Any]:
    """The rate that a client pushes (KIP-714), with nanoseconds."""
    attributes = {"client_id": "reports", "client_instance_id": instance, "cluster": "lab"}
    point = {
        "timeUnixNano": str(int((START.timestamp() + at) * 1e9)),
        "asDouble": value,
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in attributes.items()],
    }
    name = "org.apache.kafka.consumer.fetch.manager.bytes.consumed.rate"
    metrics = [{"name": name, "gauge": {"dataPoints": [point]}}]
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a cluster."""
    made = Repository(tmp_path)
    made.config("clusters:\n  lab: {bootstrap_servers: ['127.0.0.1:1']}\n")
    return made


def found_rows(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    rows = read_usage(spark, str(folder)).select("ts", "rate", "instance", "broker").toArrow().to_pylist()
    return sorted(((row["ts"] - START).total_seconds(), *list(row.values())[1:]) for row in rows)


def write_lines(path: Path, documents: Sequence[object]) -> None:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents), encoding="utf-8")


def test_two_clients_at_one_nanosecond_are_two_rows(spark: SparkSession, repository: Repository) -> None:
    """They were rows of one series, of which a table of rows of buckets kept the larger one."""
    write_lines(repository.path / "push.json", [push("a", 0, 5.0), push("b", 0, 7.0)])
    done = repository("usage", "ingest", "push.json", "--usage", "usage")
    assert "2 read = 2 written (2 rows) + 0 dropped + 0 quarantined" in done.said
    expected = [(0.0, 5.0, "a", None), (0.0, 7.0, "b", None)]
    assert found_rows(spark, repository.path / "usage") == expected
    # The table is a recording, too.
    again = repository("usage", "ingest", "usage", "./usage", "usage", "--usage", "copy")
    assert "4 read = 2 written (2 rows) + 2 dropped" in again.said
    assert found_rows(spark, repository.path / "copy") == expected
    rows = spark.read.parquet(str(repository.path / "usage")).coalesce(1)
    rows.write.csv(str(repository.path / "csv"), header=True)
    [file] = (repository.path / "csv").glob("*.csv")
    assert repository("usage", "ingest", str(file), "--usage", "of-csv").code == 0
    assert found_rows(spark, repository.path / "of-csv") == expected


def test_files_with_and_without_the_column_are_one_table(spark: SparkSession, repository: Repository) -> None:
    """Spark takes the schema of a directory from one of its files: the names of all others were lost."""
    folder = repository.path / "usage"
    lacking = usage_table(spark, [consumed(0.0, None, MB)]).drop("instance")
    having = usage_table(spark, [consumed(60.0, "c0", MB)])
    for first, second in ((lacking, having), (having, lacking)):
        first.coalesce(1).write.mode("overwrite").parquet(str(folder))
        second.coalesce(1).write.mode("append").parquet(str(folder))
        expected = [(0.0, MB, None, None), (60.0, MB, "c0", None)]
        assert found_rows(spark, folder) == expected
        copied = repository("usage", "ingest", "usage", "--usage", f"copy-{first is having}")
        assert copied.code == 0, copied.said
        assert found_rows(spark, repository.path / f"copy-{first is having}") == expected
    # A table that lacks it everywhere is read, and not added to.
    lacking.write.parquet(str(repository.path / "old"))
    assert found_rows(spark, repository.path / "old") == expected[:1]
    refused = repository("usage", "ingest", "usage", "--usage", "old")
    assert refused.code == 3
    assert "lacks the column instance" in " ".join(refused.err.split()), refused.said
