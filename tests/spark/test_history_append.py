"""A history holds what its snapshots hold, in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from quotaform.core.history import Append
from quotaform.errors import ConnectError
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_values
from tests.builder import PRODUCER, REQUEST
from tests.spark.history_oracle import Taken, last_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")
START = datetime(2026, 11, 20, 9, tzinfo=UTC)
ENTITIES = (Entity(user="alice"), Entity(user=None), Entity(user="", client_id="<default>"))
KEYS = (PRODUCER, REQUEST)
VALUES = (0.0, -0.0, NAN, 1.0, 2.0)
IDS = ("id",) * 9 + ("other",)
ROUNDS, ORDERED = 5, 3
CLUSTERS = 300


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
    from quotaform.spark.schemas import QUOTAS, row_batch
    from quotaform.spark.source import failed_row, quota_rows

    rows = []
    for each in taken:
        if each.quotas is None:
            rows.append(failed_row(each.cluster, ConnectError("down")))
        else:
            rows += quota_rows(each.cluster, each.cluster_id, each.quotas, each.read_at)
    import pyarrow

    return spark.createDataFrame(pyarrow.Table.from_batches([row_batch(QUOTAS, rows)]), QUOTAS)


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
    from quotaform.spark.history.as_of import as_of

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
    """Through the append of the command, with parts that are made one at once: each cluster is a case of its own."""
    from quotaform.spark.history import parquet_table
    from quotaform.spark.history.append import append
    from quotaform.spark.history.parquet_table import ParquetHistory

    monkeypatch.setattr(parquet_table, "_MOST_FOLDERS", 3)
    monkeypatch.setattr(parquet_table, "_MOST_ENDED", 10)
    path = str(tmp_path / "history")
    rounds = made_rounds(Random(20261122))
    late = [append(lambda: ParquetHistory(spark, path), quotas_of(spark, taken)).count(Append.LATE) for taken in rounds]
    assert late[:ORDERED] == [0] * ORDERED
    assert min(late[ORDERED:]) > 50
    history = ParquetHistory(spark, path).rows().localCheckpoint()
    every = [each for taken in rounds for each in taken]
    require_same(history, every, [hour(number) for number in (-1, 0, 4, 7, 10, 11, 14)])
    require_rows_of_one_value_joined(history)


@pytest.mark.parametrize("most_changes", [0, 1_000_000])
def test_snapshots_in_order_are_merged_as_those_in_any_order_are(
    most_changes: int, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quotaform.spark.history import in_order as subject
    from quotaform.spark.history.append import merged_in_any_order
    from quotaform.spark.history.in_order import merged_in_order
    from quotaform.spark.history.new_snapshot import new_snapshots
    from quotaform.spark.schemas import HISTORY

    monkeypatch.setattr(subject, "_MOST_CHANGES", most_changes)
    random = Random(7)
    names = [f"cluster-{number}" for number in range(CLUSTERS)]
    held = spark.createDataFrame([], HISTORY)
    known: list[tuple[str, str, datetime]] = []
    for number in range(2):
        taken = [Taken(name, random.choice(IDS), hour(number), made_quotas(random)) for name in names]
        quotas = quotas_of(spark, taken)
        snapshots = [(each.cluster, each.cluster_id, each.read_at) for each in taken]
        before = spark.createDataFrame(known, "cluster string, cluster_id string, read_at timestamp")
        new = new_snapshots(before, snapshots)
        in_order = merged_in_order(held, quotas, new)
        assert (in_order.kept is None) == (most_changes == 0 or number == 0)
        found = [
            sorted(map(repr, rows.toArrow().to_pylist()))
            for rows in (in_order.rows(), merged_in_any_order(held, quotas, new))
        ]
        assert found[0] == found[1]
        held = in_order.rows().where("valid_to IS NULL").localCheckpoint()
        known += snapshots


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
