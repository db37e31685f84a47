"""A history holds what its snapshots hold, in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from quotaform.fleet.data_source import failed_row, quota_rows
from quotaform.fleet.table import make_table
from quotaform.history import table as parquet_table
from quotaform.history.spark import as_of, history_of
from quotaform.history.table import ParquetHistory, append, appends_of
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError
from quotaform.model.quotas import Quotas, same_values
from quotaform.resolve.spark import QUOTAS
from tests.builder import PRODUCER, REQUEST

NAN = float("nan")
START = datetime(2026, 11, 20, 9, tzinfo=UTC)
ENTITIES = (Entity(user="alice"), Entity(user=None), Entity(user="", client_id="<default>"))
KEYS = (PRODUCER, REQUEST)
VALUES = (0.0, -0.0, NAN, 1.0, 2.0)
IDS = ("id",) * 9 + ("other",)
ROUNDS, ORDERED = 4, 2
CLUSTERS = 300


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot of a cluster, or the attempt to take one: `quotas` is `None` if it failed."""

    cluster: str
    cluster_id: str
    read_at: datetime
    quotas: Quotas | None


def last_at(taken: Iterable[Taken], at: datetime) -> dict[str, Taken]:
    """The last good snapshot of each cluster at or before a moment; of two of one time, the one that came first."""
    last: dict[str, Taken] = {}
    for each in taken:
        if each.quotas is not None and each.read_at <= at:
            known = last.get(each.cluster)
            if known is None or each.read_at > known.read_at:
                last[each.cluster] = each
    return last


def hour(number: int) -> datetime:
    """A moment."""
    return START + timedelta(hours=number)


def made_rounds(random: Random) -> list[list[Taken]]:
    """What is appended one after the other: snapshots of many clusters, each with a sequence of its own.

    The first rounds are in order. In the others some are late, repeated, several at once, missing, failed, or of a
    cluster that has got another id.
    """
    rounds: list[list[Taken]] = []
    known: dict[str, list[int]] = {}
    for number in range(ROUNDS):
        is_ordered = number < ORDERED
        taken: list[Taken] = []
        for cluster in range(CLUSTERS):
            name = f"cluster-{cluster}"
            if random.random() < 0.15:
                continue
            fresh = range(3 * number, 3 * number + 3)
            times = {random.choice(fresh)}
            if not is_ordered and random.random() < 0.5:
                times |= set(random.sample(range(3 * number + 3), random.randint(1, 2)))
            if not is_ordered and known.get(name) and random.random() < 0.3:
                times.add(random.choice(known[name]))
            for time in random.sample(sorted(times), len(times)):
                made = Taken(name, random.choice(IDS), hour(time), made_quotas(random))
                taken.append(replace(made, quotas=None) if random.random() < 0.1 else made)
                known.setdefault(name, []).append(time)
        rounds.append(taken)
    return rounds


def made_quotas(random: Random) -> Quotas:
    """What a cluster holds: of so few values that many stay the same."""
    return {
        entity: {key: random.choice(VALUES) for key in random.sample(KEYS, random.randint(1, len(KEYS)))}
        for entity in random.sample(ENTITIES, random.randint(0, len(ENTITIES)))
    }


def quotas_of(spark: SparkSession, taken: Sequence[Taken]) -> DataFrame:
    """The table of snapshots."""
    rows = []
    for each in taken:
        if each.quotas is None:
            rows.append(failed_row(each.cluster, ConnectError("down")))
        else:
            rows += quota_rows(each.cluster, each.cluster_id, each.quotas, each.read_at)
    return make_table(spark, QUOTAS, rows)


Held = dict[str, tuple[str, datetime, dict[Entity, dict[str, float]]]]
"""What clusters hold: id, time of the snapshot, and quotas."""


def held_by(rows: Iterable[Mapping[str, Any]]) -> Held:
    """Read `schemas.QUOTAS`."""
    found: Held = {}
    for row in rows:
        *_, quotas = found.setdefault(row["cluster"], (row["cluster_id"], row["read_at"], {}))
        if row["entity_key"] is not None:
            values = quotas.setdefault(Entity.of(row["entity"]), {})
            assert row["key"] not in values, "a key has two values at one time"
            values[row["key"]] = row["value"]
    return found


def same_quotas(one: Quotas, other: Quotas) -> bool:
    """Whether a broker would hold the same."""
    return one.keys() == other.keys() and all(same_values(one[entity], other[entity]) for entity in one)


def require_same(history: DataFrame, taken: Sequence[Taken], moments: Sequence[datetime]) -> None:
    """Compare the history with the oracle at some moments."""
    for at in moments:
        require_held(held_by(as_of(history, at).toArrow().to_pylist()), taken, at)


def require_held(found: Held, taken: Sequence[Taken], at: datetime) -> None:
    """Compare what a history says with the last good snapshots."""
    expected = last_at(taken, at)
    assert {name: row[:2] for name, row in found.items()} == {
        name: (each.cluster_id, each.read_at) for name, each in expected.items()
    }
    for name, each in expected.items():
        assert same_quotas(found[name][2], each.quotas or {}), (name, at)


def test_at_any_time_it_holds_the_last_good_snapshot_of_each_cluster(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the append of the command, with folders that are brought together: each cluster is a case of its own."""
    monkeypatch.setattr(parquet_table, "_MOST_FOLDERS", 3)
    monkeypatch.setattr(parquet_table, "_KEPT_S", -60)
    path = str(tmp_path / "history")
    rounds = made_rounds(Random(20261122))
    late = [append(lambda: ParquetHistory(spark, path), quotas_of(spark, taken))[0].summary.late for taken in rounds]
    assert late[:ORDERED] == [0] * ORDERED
    assert min(late[ORDERED:]) > 40
    history = history_of(ParquetHistory(spark, path).readings()).localCheckpoint()
    every = [each for taken in rounds for each in taken]
    require_same(history, every, [hour(number) for number in (-1, 1, 7, 11)])
    require_rows_of_one_value_joined(history)
    assert [folder.name for folder in appends_of(path)[0]] == ["append=00000001-00000003", "append=00000004"]


def require_rows_of_one_value_joined(history: DataFrame) -> None:
    """No row begins where one of the same value ends."""
    rows = [row for row in history.toArrow().to_pylist() if row["entity_key"] is not None]
    ends = {
        (r["cluster"], r["cluster_id"], r["entity_key"], r["key"], repr(r["value"] + 0.0), r["valid_to"]) for r in rows
    }
    for r in rows:
        start = (r["cluster"], r["cluster_id"], r["entity_key"], r["key"], repr(r["value"] + 0.0), r["valid_from"])
        assert start not in ends, start
        assert r["valid_to"] is None or r["valid_from"] < r["valid_to"]
