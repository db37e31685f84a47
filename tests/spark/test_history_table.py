"""A history in Parquet: a version is whole or not there; and one in Delta Lake, whose package comes from Maven."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform.fleet.session import spark_session
from quotaform.history.spark import history_of
from quotaform.history.table import ParquetHistory, append
from quotaform.model.entity import Entity
from quotaform.model.errors import EngineError, HistoryError
from quotaform.model.moment import spell_moment
from tests.builder import PRODUCER, REQUEST
from tests.spark.files import write_snapshot
from tests.spark.test_history_append import Taken, hour, quotas_of
from tests.waiting import wait_until
from tests.workflow.command import Repository

ALICE, BOB = Entity(user="alice"), Entity(user="bob")
FIRST = Taken("lab", "id", hour(0), {ALICE: {PRODUCER: 1.0}, BOB: {REQUEST: 5.0}})
SECOND = Taken("lab", "id", hour(2), {ALICE: {PRODUCER: 2.0}})
LATE = Taken("lab", "id", hour(1), {ALICE: {PRODUCER: 2.0}, BOB: {REQUEST: 5.0}})
DOWN = Taken("prod", "", hour(2), None)


def append_to(spark: SparkSession, path: Path, *taken: Taken) -> list[str]:
    """Append snapshots and return what became of each."""
    result, failed = append(lambda: ParquetHistory(spark, str(path)), quotas_of(spark, taken))
    assert [str(error) for _, error in failed] == ["down"] * sum(each.quotas is None for each in taken)
    return [each.status for each in result.snapshots]


def rows_of(spark: SparkSession, path: Path) -> list[tuple[object, ...]]:
    """The rows of a history, sorted."""
    history = history_of(ParquetHistory(spark, str(path)).readings())
    rows = history.where("entity_key IS NOT NULL").toArrow().to_pylist()
    return sorted(
        (
            row["entity_key"],
            row["value"],
            spell_moment(row["valid_from"])[11:13],
            row["valid_to"] and spell_moment(row["valid_to"])[11:13],
        )
        for row in rows
    )


def test_a_late_snapshot_is_inserted_into_the_past_and_a_known_one_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "hi story [1]{a}=%20*"
    assert append_to(spark, path, FIRST) == ["appended"]
    assert append_to(spark, path, SECOND, DOWN) == ["appended", "failed"]
    before = rows_of(spark, path)
    assert before == [
        ("user=alice", 1.0, "09", "11"),
        ("user=alice", 2.0, "11", None),
        ("user=bob", 5.0, "09", "11"),
    ]
    assert append_to(spark, path, LATE) == ["late"]
    assert append_to(spark, path, LATE, FIRST, SECOND) == ["known"] * 3
    assert rows_of(spark, path) == [
        ("user=alice", 1.0, "09", "10"),
        ("user=alice", 2.0, "10", None),
        ("user=bob", 5.0, "09", "11"),
    ]
    assert len(list(path.iterdir())) == 3


def test_an_append_writes_what_has_changed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "history"
    users = [Entity(user=f"user-{number}") for number in range(500)]
    before = {user: {PRODUCER: 1.0, REQUEST: 50.0} for user in users}
    one_more = {**before, users[0]: {PRODUCER: 2.0}, ALICE: {PRODUCER: 1.0}}
    for number, quotas in enumerate((before, one_more, one_more)):
        append_to(spark, path, Taken("lab", "id", hour(number), quotas))
    # With a row for the snapshot. Of the user whose value changes, another one is gone.
    written = [spark.read.parquet(str(folder)).count() for folder in sorted(path.iterdir())]
    assert written == [1001, 4, 1]


@contextmanager
def file_size_limit(spark: SparkSession, limit: int) -> Iterator[None]:
    """Let the JVM write no file that is larger: to it, that is a disk that is full."""
    pid = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_an_append_that_cannot_write_its_rows_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "history"
    append_to(spark, path, FIRST)
    before = rows_of(spark, path)
    large = Taken("prod", "id", hour(2), {Entity(user=f"{number}"): {PRODUCER: number / 7} for number in range(3000)})
    with (
        file_size_limit(spark, 4096),
        pytest.raises(EngineError, match="File too large"),
        spark_session(),
    ):
        append_to(spark, path, large)
    assert rows_of(spark, path) == before
    assert [each.name for each in path.iterdir()] == ["append=00000001"]
    assert append_to(spark, path, large) == ["appended"]


def test_of_two_appends_at_once_the_slower_one_begins_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    append_to(spark, path, FIRST)
    add, others = ParquetHistory.add, [SECOND]

    def after_another(table: ParquetHistory, rows: DataFrame) -> bool:
        if others:
            append_to(spark, path, others.pop())
        return add(table, rows)

    monkeypatch.setattr(ParquetHistory, "add", after_another)
    assert append_to(spark, path, LATE) == ["late"]
    assert [row[1:] for row in rows_of(spark, path)] == [(1.0, "09", "10"), (2.0, "10", None), (5.0, "09", "11")]


def test_what_is_no_history_is_refused_and_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    foreign, path = tmp_path / "foreign", tmp_path / "history"
    foreign.mkdir()
    (foreign / "part-0.parquet").write_text("mine", encoding="utf-8")
    with pytest.raises(HistoryError, match="it is not a history of quotaform"):
        append_to(spark, foreign, FIRST)
    assert [file.name for file in foreign.iterdir()] == ["part-0.parquet"]
    for each in (FIRST, SECOND):
        append_to(spark, path, each)
    (path / "append=00000001").rename(tmp_path / "moved")
    with pytest.raises(HistoryError, match="append=00000001 is missing; restore it"):
        rows_of(spark, path)
    spark.range(1).write.parquet(str(path / "append=00000001"))
    with pytest.raises(HistoryError, match="it has no column cluster string, so it is not a history"):
        append_to(spark, path, LATE)


@pytest.mark.prove
@pytest.mark.workflow
@pytest.mark.usefixtures("spark")
def test_an_append_that_is_killed_while_it_writes_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    """Also for readers of that moment: they see what was there."""
    repository, kept = Repository(tmp_path), tmp_path / "kept"
    write_snapshot(tmp_path / "lab-1.json", {Entity(user="alice"): {PRODUCER: 1.0}}, captured_at="2026-11-01T09:00:00Z")
    repository("history", "append", "lab-1.json", "--history", "kept")
    many = {Entity(user=f"u{number}"): {PRODUCER: 1024.0} for number in range(20_000)}
    write_snapshot(tmp_path / "lab-3.json", many, captured_at="2026-11-03T09:00:00Z")
    running = repository.start("history", "append", "lab-3.json", "--history", "kept", "--master", "local[1]")
    wait_until(lambda: running.is_over or list(kept.glob("_staged-*/rows")), 250)
    running.signal(signal.SIGKILL)
    assert running.end().code == -signal.SIGKILL
    assert [folder.name for folder in kept.glob("append=*")] == ["append=00000001"]
    shown = repository("history", "show", "--history", "kept", "--format", "json")
    assert (shown.code, json.loads(shown.out)["total"]) == (0, 1)
    again = repository("history", "append", "lab-3.json", "--history", "kept")
    assert again.last == "Snapshots: 1 appended, 0 late, 0 known, 0 failed."


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_a_history_and_usage_are_kept_in_delta_tables(tmp_path: Path) -> None:
    """In a process of its own: the session of the other tests has no Delta Lake."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.history_in_delta", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "table": ["appended", "failed"],
        "delta": ["appended"],
        "slower": ["late"],
        "usage": [True, "2026-11-01"],
        "foreign": "it has no column cluster string, so it is not a history",
    }
