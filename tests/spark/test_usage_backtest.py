"""The backtest of small recordings, against loops over each bucket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform.model.entity import Entity, parse_address
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.records.schema import gate
from quotaform.report.format import schema_builder
from quotaform.spark import backtest
from quotaform.usage.table.table import usage_of
from tests.builder import CONNECTION, CONSUMER, MIB, MUTATION, PRODUCER, REQUEST
from tests.property.test_series_bucket import replayed as made_of
from tests.spark.files import write_snapshot
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import START, Sample, usage_table
from tests.workflow.command import Repository


def sample(at: float, rate: float | None, **more: Any) -> Sample:
    """A sample of alice on the cluster prod."""
    return Sample(at, rate=rate, **({"cluster": "prod", "user": "alice"} | more))


def quotas_table(spark: SparkSession, values: Mapping[str, Mapping[str, float]]) -> DataFrame:
    """Return `schemas.QUOTAS` of the cluster prod, from address to key to value."""
    return quota_table(spark, {"prod": {parse_address(address): dict(keys) for address, keys in values.items()}})


def replayed(
    spark: SparkSession,
    samples: Sequence[Sample],
    after: Mapping[str, Mapping[str, float]],
    before: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[tuple[str, str, str | None], dict[str, Any]]:
    """Return the rows of `schemas.BACKTEST` by bucket, key and broker."""
    usage, old = usage_table(spark, samples), quotas_table(spark, after if before is None else before)
    rows = backtest(usage, old, quotas_table(spark, after)).toArrow().to_pylist()
    return {(row["bucket"], row["key"], row["broker"]): row for row in rows}


LIMITS = {
    "user=<default>": {PRODUCER: 100.0, CONSUMER: 300_000.0, REQUEST: 50.0, MUTATION: 5.0},
    "ip=<default>": {CONNECTION: 10.0},
}


def test_what_is_found_of_a_bucket_is_in_its_row(spark: SparkSession) -> None:
    """What is found is proven in `tests/property`, and what the samples of a bucket are by the oracle of headroom."""
    samples = [
        *(
            sample(minute * 60.0, 15.0 if minute < 5 else 5.0, key=CONNECTION, user=None, ip="10.0.0.1")
            for minute in range(10)
        ),
        *(sample(minute * 60.0, 10.0, key=MUTATION, broker=broker) for minute in range(10) for broker in ("1", "2")),
    ]
    found = replayed(spark, samples, LIMITS)
    assert found.keys() == {("ip=10.0.0.1", CONNECTION, "1"), ("user=alice", MUTATION, None)}
    for (_, key, _), row in found.items():
        rates = {each.at: each.rate or 0.0 for each in samples if each.key == key}
        wanted = made_of(rates, row["limit"], QUOTA_KEYS[key])
        assert (row["samples"], row["over_max"]) == (10, max(rates.values()) / row["limit"])
        for variant, wait in wanted.waits.items():
            assert row[f"throttled_s{variant}"] == pytest.approx(wait.waited.sum())
            assert row[f"delay_s_max{variant}"] == pytest.approx(wait.delay[wait.waited > 0].max())
        times = [at for at, waited in zip(rates, wanted.waits[""].waited, strict=True) if waited > 0]
        assert row["first_throttled"] == START + timedelta(seconds=times[0])
        assert row["backlog_s"] == pytest.approx(wanted.backlog_s[-1])
        assert row["refused"] == (pytest.approx(5 * (11.5 + 4 * 60)) if key == CONNECTION else None)


@pytest.fixture(scope="module")
def recording(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of usage."""
    samples = [
        *(sample(minute * 60.0, (8 if 10 <= minute < 20 else 1) * MIB, cluster="lab") for minute in range(60)),
        *(
            sample(minute * 60.0, 12 * MIB, user="bob", cluster="lab", throttle_ms=100.0 + minute)
            for minute in range(60)
        ),
        sample(0.0, 1.0, user="zoe", cluster="prod"),
    ]
    folder = tmp_path_factory.mktemp("recording") / "usage"
    usage_table(spark, samples).write.parquet(str(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path, recording: Path) -> Repository:
    """A cluster with a limit of 10 MiB/s for everybody, files that lower that of alice, and the recording."""
    made = Repository(tmp_path)
    quotas = {Entity(user=None): {PRODUCER: 10 * MIB}, Entity(user="alice"): {PRODUCER: 10 * MIB}}
    write_snapshot(tmp_path / "lab.json", quotas)
    made.config("clusters: {lab: {snapshot: lab.json}}\n")
    made.quotas("quotas: [{match: {user: alice}, values: {producer_byte_rate: 4MiB/s}}]\n")
    copytree(recording, tmp_path / "usage")
    return made


def test_the_command_says_who_would_have_been_throttled_when_and_for_how_long(
    repository: Repository, spark: SparkSession
) -> None:
    options = ("usage", "backtest", "--usage", "usage", "--cluster", "lab")
    outs = ("json=found.json", "markdown=found.md", "parquet=rows", "html=found.html")
    done = repository(*options, *(word for out in outs for word in ("--out", out)))
    assert done.code == 0, done.err
    # The words are those of `tests/golden`.
    assert "  10 MiB/s      4 MiB/s      throttled for 23m 15s (2m 35s to 25m 31s)\n" in done.out
    assert "demand hidden for 59m 11s, 59m 11s recorded\n" in done.out
    found = json.loads(repository.read("found.json"))
    assert gate(schema_builder("usage-backtest")).is_valid(found)
    assert found["not_tested"] == ["prod"]
    [tested] = found["clusters"]
    assert [tested[kind]["affected"] for kind in ("changed", "unchanged")] == [1, 1]
    rows = spark.read.parquet(str(repository.path / "rows")).collect()
    assert {row["bucket"]: row["is_changed"] for row in rows} == {"user=alice": True, "user=bob": False}
    assert "| `user=alice` | `lab` | `1` | `producer_byte_rate` |" in repository.read("found.md")
    assert "would throttle" in repository.read("found.html")


def test_a_plan_has_its_backtest_and_keeps_its_id(repository: Repository) -> None:
    plain = repository("plan", "--out", "json=plain.json")
    done = repository("plan", "--backtest", "usage", "--out", "json=plan.json", "--out", "markdown=plan.md")
    assert (plain.code, done.code) == (0, 0), done.err
    assert "Backtest: 1 bucket with changed limits: 1 would have been throttled" in done.out
    assert "\nBacktest: 1 bucket with changed limits:" in repository.read("plan.md")
    saved = json.loads(repository.read("plan.json"))
    assert gate(schema_builder("plan")).is_valid(saved)
    assert saved["plan_id"] == json.loads(repository.read("plain.json"))["plan_id"]
    [row] = saved["backtest"]["changed"]["rows"]
    assert row["bucket"] == "user=alice"
    shown = repository("show", "plan.json")
    assert "Backtest: 1 bucket with changed limits:" in shown.out
    again = repository(
        "usage", "backtest", "plan.json", "--usage", "usage", "--snapshot", "lab.json", "--format", "json"
    )
    assert again.code == 0, again.err
    assert json.loads(again.out)["clusters"][0]["changed"]["rows"] == [row]


def test_usage_belongs_to_one_cluster_or_to_none(spark: SparkSession) -> None:
    usage = usage_table(spark, [sample(0.0, 1.0, cluster=name) for name in ("lab", None, "prod")])

    def names(selected: Sequence[str]) -> list[str | None]:
        rows, clusters = usage_of(usage, ["lab"], selected)
        return [clusters.name_of(name) for name in rows.toArrow().column("cluster").to_pylist()]

    assert names(["lab"]) == ["lab", "lab"]
    # The other cluster that was selected could not be read: the row may be of that one.
    assert names(["lab", "prod"]) == ["lab"]


def test_what_a_recording_cannot_tell_apart_has_an_upper_bound_alone(spark: SparkSession) -> None:
    busy = [sample(minute * 60.0, 90.0) for minute in range(10)]
    idle = [sample(minute * 60.0, 5.0, user="bob") for minute in range(10)]
    free = [sample(minute * 60.0, 70.0, user="eve", broker="2") for minute in range(10)]
    before = {"user=alice": {PRODUCER: 100.0}, "user=bob": {PRODUCER: 100.0}}
    new = {f"user={user},client-id=app": {PRODUCER: 10.0} for user in ("alice", "bob", "eve")}
    found = replayed(spark, [*busy, *idle, *free], {**before, **new}, before)
    alice, bob, eve = (
        found[f"user={user}", PRODUCER, broker] for user, broker in (("alice", "1"), ("bob", "1"), ("eve", "2"))
    )
    assert all(row["is_coarse"] and row["is_changed"] for row in (alice, bob, eve))
    # Whatever part of it the client has: all of it would wait under the limit of the client.
    for row in (alice, eve):
        assert (row["throttled_s"], row["throttled_s_low"], row["delay_s_max"]) == (None, 0.0, None)
        assert row["throttled_s_high"] == pytest.approx(11.5 + 9 * 60)
    assert (bob["throttled_s"], bob["throttled_s_high"]) == (0.0, 0.0)


def test_series_that_a_plan_joins_are_added_up_once_per_time(spark: SparkSession) -> None:
    times = [minute * 60.0 for minute in range(10)]
    rows = [sample(at, 60.0, user=None, client_id=client) for at in times for client in ("a", "b")]
    apart = [sample(at, None, user=None, client_id="a", throttle_ms=50.0) for at in times[:5]]
    before = {"client-id=<default>": {PRODUCER: 100.0}}
    after = {"client-id=<default>": {PRODUCER: 50.0}}
    # A recording that was ingested twice, with throttle times in rows of their own.
    found = replayed(spark, [*rows, *rows, *apart], after, before)
    row = found["client-id=a", PRODUCER, "1"]
    assert (row["samples"], row["over_max"]) == (10, pytest.approx(1.2))
    # The gauge keeps its value while nothing new is throttled.
    assert row["recorded_throttled_s"] == pytest.approx(11.5)
    assert row["hidden_s"] == pytest.approx(11.5 + 4 * 60)
    joined = [sample(at, 60.0, user="u", client_id=client) for at in times for client in ("a", "b")]
    found = replayed(spark, [*joined, *joined], {"user=u": {PRODUCER: 100.0}}, {"user=u": {PRODUCER: 200.0}})
    assert [key[0] for key in found] == ["user=u"]
    [row] = found.values()
    assert (row["samples"], row["over_max"]) == (10, pytest.approx(1.2))
    assert row["throttled_s"] == pytest.approx(11.5 + 9 * 60)


def test_the_usage_is_shuffled_once(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    usage = usage_table(spark, [sample(0.0, 60.0)])
    quotas = quotas_table(spark, LIMITS)
    backtest(usage, quotas, quotas).explain()
    [shuffle] = [line for line in capsys.readouterr().out.splitlines() if " Exchange " in line]
    assert "hashpartitioning(cluster" in shuffle
    assert "REPARTITION_BY_NUM" in shuffle
