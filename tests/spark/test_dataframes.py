"""`quotaform.spark`: functions of DataFrames, with any session."""

from __future__ import annotations

import runpy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform import Repository, plan
from quotaform.model.entity import Entity
from quotaform.model.errors import HistoryError, InvalidFilesError, UsageError
from quotaform.spark import (
    BACKTEST,
    BEFORE,
    HEADROOM,
    HISTORY,
    HISTORY_CHANGES,
    LIMIT_CHANGES,
    QUOTAS,
    RESOLVED,
    backtest,
    blast_radius,
    headroom,
    history,
    history_at,
    history_changes,
    planned_quotas,
    resolve,
)
from tests.builder import PRODUCER
from tests.spark import files
from tests.spark.test_usage_backtest import quotas_table, sample
from tests.spark.usage_oracle import usage_table
from tests.workflow import command

JOB: Final = Path(__file__).parents[2] / "examples/spark/quota_report.py"
ALICE: Final = Entity(user="alice")
SAMPLES: Final = [sample(60.0 * minute, 90.0) for minute in range(10)]
LARGE, SMALL = {"user=alice": {PRODUCER: 100.0}}, {"user=alice": {PRODUCER: 50.0}}


def row(table: DataFrame, schema: Any) -> dict[str, Any]:
    """The only row of a table, whose columns are as documented."""
    assert table.columns == schema.names
    [found] = table.toArrow().to_pylist()
    return dict(found)


def test_requests_are_resolved_also_beside_earlier_quotas(spark: SparkSession) -> None:
    requests = spark.createDataFrame([("alice",)], "user string")
    quotas = quotas_table(spark, SMALL)
    found = row(
        resolve(requests, quotas.select("cluster", "entity_key", "entity", "key", "value"), keys=[PRODUCER]), RESOLVED
    )
    assert (found["value"], found["source"], found["entity_key"]) == (50.0, "User", "user=alice")
    both = resolve(requests, quotas, keys=[PRODUCER], before=quotas_table(spark, LARGE))
    assert both.columns == [*RESOLVED.names, *BEFORE.names]
    assert both.first()["before_value"] == 100.0  # type: ignore[index]
    with pytest.raises(UsageError, match='"producer_byterate" is not a quota key'):
        resolve(requests, quotas, keys=["producer_byterate"])


def test_whom_other_quotas_change_and_what_they_would_have_throttled(spark: SparkSession) -> None:
    usage, before, after = usage_table(spark, SAMPLES), quotas_table(spark, LARGE), quotas_table(spark, SMALL)
    principals = spark.createDataFrame([("alice",), ("alice",), ("bob",)], "user string")
    changed = row(blast_radius(principals, before, after), LIMIT_CHANGES)
    assert (changed["user"], changed["direction"], changed["factor"]) == ("alice", "lower", 0.5)
    used = row(headroom(usage.drop("instance"), before), HEADROOM)
    assert (used["entity_key"], used["used_ratio"], used["samples"]) == ("user=alice", 0.9, 10)
    tested = row(backtest(usage, before, after), BACKTEST)
    assert tested["limit"] == 50.0
    assert tested["throttled_s"] > 0
    assert row(backtest(usage, before, before), BACKTEST)["throttled_s"] == 0


def test_a_job_writes_tables_of_what_clusters_hold(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_snapshot(tmp_path / "prod.json", {ALICE: {PRODUCER: 100.0}}, "prod", "id", "2026-10-01T00:00:00Z")
    command.Repository(tmp_path).config(f"clusters: {{prod: {{snapshot: {tmp_path}/prod.json}}}}\n")
    usage_table(spark, SAMPLES).write.parquet(str(tmp_path / "usage"))
    monkeypatch.setattr("sys.argv", [str(JOB), str(tmp_path), str(tmp_path / "usage"), str(tmp_path / "report")])
    runpy.run_path(str(JOB), run_name="__main__")
    [used] = spark.read.parquet(str(tmp_path / "report/headroom")).collect()
    [proposed] = spark.read.parquet(str(tmp_path / "report/recommendations")).collect()
    assert (used.cluster, used.used_ratio, proposed.entity_key, proposed.before) == ("prod", 0.9, "user=alice", 100.0)


def test_plans_are_the_quotas_before_and_after_them(spark: SparkSession, tmp_path: Path) -> None:
    files.write_snapshot(tmp_path / "prod.json", {ALICE: {PRODUCER: 100.0}}, "prod", "id", "2026-10-01T00:00:00Z")
    made = command.Repository(tmp_path)
    made.config(f"clusters: {{prod: {{snapshot: {tmp_path}/prod.json}}}}\n")
    made.quotas("  - {match: {user: alice}, values: {producer_byte_rate: 50}}\n")
    plans = [outcome.require() for outcome in plan(Repository.at(tmp_path))]
    sides = [quotas.where("key IS NOT NULL").first() for quotas in planned_quotas(spark, plans)]
    assert [side and (side.entity_key, side.value) for side in sides] == [("user=alice", 100.0), ("user=alice", 50.0)]
    # Those of Spark and of files say nothing of what is unchanged: the cluster counted as one that holds nothing.
    with pytest.raises(
        UsageError, match="what the cluster holds is not in the plan of prod; use those that plan makes"
    ):
        planned_quotas(spark, [replace(each, actual=None) for each in plans])


def test_a_history_is_a_table_and_its_moments_are_quotas(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(HistoryError):
        history(spark, str(tmp_path / "none"))
    for day, value in ((1, 100.0), (2, 50.0)):
        taken = f"2026-11-{day:02}T09:00:00Z"
        files.write_snapshot(tmp_path / f"taken/{day}.json", {ALICE: {PRODUCER: value}}, "prod", "id", taken)
    assert command.Repository(tmp_path)("history", "append", "taken", "--history", "kept").code == 0
    kept = history(spark, str(tmp_path / "kept"))
    assert kept.columns == HISTORY.names
    days = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (1, 2)]
    assert row(history_at(kept, days[0]), QUOTAS)["value"] == 100.0
    changed = row(history_changes(kept, *days), HISTORY_CHANGES)
    assert (changed["before"], changed["after"]) == (100.0, 50.0)


def test_a_table_that_lacks_a_column_is_refused_by_its_name(spark: SparkSession) -> None:
    with pytest.raises(InvalidFilesError, match="quotas: error: the table lacks the column value"):
        headroom(usage_table(spark, SAMPLES), quotas_table(spark, LARGE).drop("value"))
