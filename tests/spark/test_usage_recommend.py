"""`quotaform usage recommend`: what buckets used, and the command."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from quotaform.fleet.data_source import read_clusters
from quotaform.model.entity import Entity
from quotaform.model.records.schema import gate
from quotaform.report.format import schema_builder
from quotaform.resolve.spark import unpacked
from quotaform.system.clock import Clock
from quotaform.usage.bucket.spark import packed_usage, quota_buckets
from quotaform.usage.recommend.run import bucket_use
from tests.builder import MIB, PRODUCER, REQUEST
from tests.spark.files import write_snapshot
from tests.spark.usage_oracle import Sample, usage_table
from tests.workflow.command import Repository

pytestmark = [pytest.mark.workflow, pytest.mark.usefixtures("spark")]

WINDOW = timedelta(seconds=11.5)
START = datetime(2026, 11, 1, 22, 30, tzinfo=UTC)


def sample(hours: float, user: str, rate: float, **more: Any) -> Sample:
    """A sample some hours after the first one."""
    return Sample(hours * 3600, user=user, rate=rate, **more)


def test_the_demand_of_buckets_is_that_of_each_broker(spark: SparkSession) -> None:
    """What a bucket used of a broker is in `decided-used.txt`."""
    samples = [
        *(sample(hour, "a", 6, client_id=client) for hour in range(30) for client in ("x", "y")),
        *(sample(hour, "a", 5, client_id="x", broker="2") for hour in range(3, 6)),
        *(sample(hour, "b", 0 if hour > 20 else 3, throttle_ms=9.0 if hour == 14 else None) for hour in range(12, 26)),
        *(sample(hour / 4, "b", 2, key=REQUEST, broker="2") for hour in range(9)),
    ]
    limits = quota_buckets({"lab": {Entity(user=None): {PRODUCER: 8.0, REQUEST: 8.0}}})
    recording = packed_usage(usage_table(spark, samples, START), limits).persist()
    shown: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for each in sorted(
        map(unpacked, bucket_use(recording, 90.0).toArrow()["use"].to_pylist()), key=lambda use: use.broker
    ):
        assert each.begin == each.first - WINDOW
        times = ((at - START).total_seconds() / 3600 for at in (each.first, each.last_used, each.last))
        used = each.broker, each.basis, each.samples, each.throttled
        shown[each.key, each.bucket].append((*used, *times, each.hours.bit_count()))
    assert shown == {
        (PRODUCER, "user=a"): [("1", 12, 30, 0, 0, 29, 29, 30), ("2", 5, 3, 0, 3, 5, 5, 3)],
        (PRODUCER, "user=b"): [("1", 3, 14, 1, 12, 20, 25, 14)],
        (REQUEST, "user=b"): [("2", 2, 9, 0, 0, 2, 2, 3)],
    }


QUOTAS = """\
quotas:
  - match: {user: alice}
    values: {producer_byte_rate: 10MiB/s, request_percentage: 200%}

  - match: {user: bob}
    values: {producer_byte_rate: 10MiB/s}

  # Who was that?
  - match: {user: gone}
    values: {producer_byte_rate: 5MiB/s}

  - match: {user: <default>}
    values: {producer_byte_rate: 4MiB/s}
"""


@pytest.fixture(scope="module")
def recording(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five days of usage of three users, of whom one is new."""
    hours = range(5 * 24)
    samples = [sample(hour, "alice", (6.1 if hour == 70 else 2.1) * MIB) for hour in hours]
    samples += [sample(hour, "bob", 2 * MIB) for hour in hours if hour > 100]
    samples += [sample(hour, "eve", 4 * MIB, throttle_ms=30.0) for hour in hours]
    folder = tmp_path_factory.mktemp("recording") / "usage"
    usage_table(spark, samples, START).write.parquet(str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path, recording: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A cluster of three users, of whom one is not there any more, and the recording, the day after it ended."""
    monkeypatch.setattr(Clock, "now", lambda _: START + timedelta(days=6))
    made = Repository(tmp_path)
    quotas: dict[Entity, dict[str, float]] = {
        Entity(user="alice"): {PRODUCER: 10 * MIB, REQUEST: 200.0},
        Entity(user="bob"): {PRODUCER: 10 * MIB},
        Entity(user="gone"): {PRODUCER: 5 * MIB},
        Entity(user=None): {PRODUCER: 4 * MIB},
    }
    write_snapshot(tmp_path / "lab.json", quotas)
    made.config("clusters: {lab: {snapshot: lab.json}}\n")
    made.quotas(QUOTAS, "a.yaml")
    copytree(recording, tmp_path / "usage")
    return made


OPTIONS = (
    *("usage", "recommend", "--usage", "usage"),
    *("--min-history", "3d", "--unused-after", "4d", "--min-samples", "9"),
)


def test_the_command_writes_what_is_proposed_and_a_plan_shows_just_that(
    repository: Repository, spark: SparkSession
) -> None:
    done = repository(
        *(*OPTIONS, "--create", "--write", "--no-backtest"),
        *("--out", "json=found.json", "--out", "markdown=found.md", "--out", "parquet=rows"),
    )
    assert done.code == 0, done.err
    # The words of every table are those of `tests/golden`.
    for text in (
        "    # p99 of 5 days, 4 MiB/s on Friday 2026-11-06, x 1.5\n    # of user=eve on broker 1, 120 samples\n",
        "File changed: quotas.d/a.yaml\nFile changed: quotas.d/recommended.yaml\n",
        "\nRecommended: 1 to add, 0 to change, 1 to remove; 2 kept, 2 undecided.\n",
    ):
        assert text in done.out, done.out
    found = json.loads(repository.read("found.json"))
    assert found["backtest"] is None
    assert gate(schema_builder("usage-recommend")).is_valid(found)
    rows = spark.read.parquet(str(repository.path / "rows")).collect()
    assert len(rows) == sum(found["summary"].values()) == len(found["proposals"]) + len(found["others"])
    assert "| `user=eve` | `lab` | `producer_byte_rate` | create |" in repository.read("found.md")
    assert repository("validate").code == 0
    assert repository("fmt", "--check").code == 0
    plan = json.loads(repository("plan", "--format", "json").out)
    assert {(change["address"], key["key"], key["before"], key["after"]) for change in plan["changes"]
            for key in change["keys"]} == {
        (row["address"], row["key"], row["before"], row["after"]) for row in found["proposals"]
    }  # fmt: skip


def test_a_diff_is_printed_and_nothing_written_also_if_another_cluster_cannot_be_read(repository: Repository) -> None:
    before = repository.read("quotas.d/a.yaml")
    folder = repository.path / "quotas.d/lab"
    folder.mkdir()
    (repository.path / "quotas.d/a.yaml").rename(folder / "a.yaml")
    clusters = "clusters: {lab: {snapshot: lab.json}, far: {snapshot: far.json}}\n"
    (repository.path / "quotaform.yaml").write_text(clusters, encoding="utf-8")
    done = repository(*OPTIONS, "--diff", "--all", "--no-backtest")
    assert (done.code, repository.read("quotas.d/lab/a.yaml")) == (3, before)
    assert "Error: far: far.json" in done.err
    assert "-    values: {producer_byte_rate: 4MiB/s}\n+    values: {producer_byte_rate: 6MiB/s}\n" in done.out
    assert '+    state: absent\n+    reason: "not used from 2026-11-02 to 2026-11-06 (2026-11-07)"' in done.out
    assert "Recommended: 0 to add, 1 to change, 1 to remove; 1 kept, 2 undecided.\n" in done.err


def test_what_may_be_used_of_a_broker_that_is_not_recorded_is_not_removed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a cluster that runs, it is known how many brokers there are; `tests/unit` has what else keeps a value."""

    def read(*given: Any) -> DataFrame:
        return read_clusters(*given).withColumn("brokers", lit(2))

    monkeypatch.setattr("quotaform.usage.recommend.run.read_clusters", read)
    done = repository(*OPTIONS, "--no-backtest", "--select", "user=gone")
    assert "not used, but only 1 of 2 brokers recorded (1)\n" in done.out, done.said


def test_a_new_entry_has_all_values_of_an_entity_however_few_proposals_are_made(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of entities were cut off at the most proposals there may be, and a plan deleted the others."""
    monkeypatch.setattr("quotaform.usage.recommend.run.MOST_PROPOSALS", 1)
    held = {PRODUCER: 10 * MIB, REQUEST: 200.0, "consumer_byte_rate": 7 * MIB}
    write_snapshot(repository.path / "lab.json", {Entity(user="gone"): {PRODUCER: MIB}, Entity(user="alice"): held})
    (repository.path / "quotas.d/a.yaml").write_text("quotas: []\n", encoding="utf-8")
    done = repository(*OPTIONS, "--no-backtest", "--headroom", "1", "--select", "user=alice", "--write")
    assert done.code == 0, done.said
    plan = json.loads(repository("plan", "--format", "json").out)
    changed = [(change["address"], key["key"]) for change in plan["changes"] for key in change["keys"]]
    assert changed == [("user=alice", PRODUCER)]
    several = repository(*OPTIONS, "--no-backtest", "--headroom", "1", "--write")
    assert (several.code, "proposals are more than the 1 of a change; choose some" in several.err) == (64, True)


def test_the_backtest_beside_the_proposals_is_that_of_the_written_files(repository: Repository) -> None:
    options = (*OPTIONS, "--headroom", "1", "--percentile", "p50", "--create")
    shown = repository(*options, "--write", "--format", "json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert gate(schema_builder("usage-recommend")).is_valid(found)
    (beside,) = found["backtest"]["clusters"]
    # One sample is far above the median; it covers a window of some ten seconds.
    throttled = {row["bucket"]: row["throttled_s"]["estimate"] for row in beside["changed"]["rows"]}
    assert throttled["user=alice"] > 5
    assert (found["backtest"]["unwritten"], found["backtest"]["other_changes"]) == (0, 0)
    tested = json.loads(repository("usage", "backtest", "--usage", "usage", "--top", "10", "--format", "json").out)
    assert tested["clusters"] == [beside]


def test_without_files_that_can_be_read_there_are_proposals_and_no_backtest(repository: Repository) -> None:
    (repository.path / "quotas.d/a.yaml").write_text("quotas: 1\n", encoding="utf-8")
    done = repository(*OPTIONS)
    assert (done.code, "Recommended: 0 to add, 1 to change, 1 to remove;" in done.out) == (0, True), done.said
    assert "Warning: no backtest of the proposals: " in done.err
    assert "quotas.d/a.yaml:1:9: error: " in done.err
