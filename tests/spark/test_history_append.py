"""A history holds what its snapshots hold, in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotaform.errors import ConnectError
from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas, same_values
from tests.builder import PRODUCER, REQUEST
from tests.spark.history_oracle import Taken, last_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")
START = datetime(2026, 11, 20, 9, tzinfo=UTC)
ENTITIES = st.sampled_from([Entity(user="alice"), Entity(user=None), Entity(user="", client_id="<default>")])
VALUES = st.dictionaries(st.sampled_from([PRODUCER, REQUEST]), st.sampled_from([0.0, -0.0, NAN, 1.0, 2.0]), min_size=1)
HELD = st.dictionaries(ENTITIES, VALUES, max_size=3)


def hour(number: int) -> datetime:
    """A moment."""
    return START + timedelta(hours=number)


@st.composite
def appends(draw: st.DrawFn) -> list[list[Taken]]:
    """What is appended one after the other: each time some clusters, of which some failed, at whatever times."""
    rounds: list[list[Taken]] = []
    for _ in range(3):
        taken: dict[tuple[str, datetime], Taken] = {}
        for number in draw(st.lists(st.integers(0, 15), min_size=12, max_size=24)):
            cluster, at = f"cluster-{number}", hour(draw(st.integers(0, 6)))
            made = Taken(cluster, draw(st.sampled_from(["id", "other"])), at, draw(st.none() | HELD))
            # What a snapshot of a known time holds does not matter: it is not looked at.
            taken.setdefault((cluster, at), made)
        rounds.append(list(taken.values()))
    return rounds


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


def empty_history(spark: SparkSession) -> DataFrame:
    """A history without a snapshot."""
    from quotaform.spark.schemas import HISTORY

    return spark.createDataFrame([], HISTORY)


def with_appended(history: DataFrame, quotas: DataFrame) -> DataFrame:
    """The history with snapshots in it."""
    from quotaform.spark.history.merge import appended, new_readings, reading_rows, readings

    new = new_readings(quotas, readings(history))
    known = history.where("entity_key IS NULL")
    rows = appended(history, quotas, new).unionByName(reading_rows(history.sparkSession, new)).unionByName(known)
    return rows.localCheckpoint()


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


def quotas_at(rows: Sequence[Mapping[str, Any]], at: datetime) -> list[dict[str, Any]]:
    """What `as_of` returns, of rows that are here: a query for each moment takes long."""
    taken: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["entity_key"] is None and row["valid_from"] <= at:
            known = taken.get(row["cluster"])
            if known is None or known["read_at"] < row["valid_from"]:
                taken[row["cluster"]] = {**row, "read_at": row["valid_from"]}
    held = [
        {**taken[row["cluster"]], **{name: row[name] for name in ("entity_key", "entity", "key", "value")}}
        for row in rows
        if row["entity_key"] is not None
        and row["valid_from"] <= at
        and (row["valid_to"] is None or at < row["valid_to"])
    ]
    return [*taken.values(), *held]


def same_quotas(one: Quotas, other: Quotas) -> bool:
    """Whether a broker would hold the same."""
    return one.keys() == other.keys() and all(same_values(one[entity], other[entity]) for entity in one)


def require_same(history: DataFrame, taken: Sequence[Taken], moments: Sequence[datetime]) -> None:
    """Compare the history with the oracle at some moments; at one of them by a query."""
    from quotaform.spark.history.as_of import as_of

    rows = history.toArrow().to_pylist()
    middle = moments[len(moments) // 2]
    require_held(held_by(as_of(history, middle).toArrow().to_pylist()), taken, middle)
    for at in moments:
        require_held(held_by(quotas_at(rows, at)), taken, at)


def require_held(found: Held, taken: Sequence[Taken], at: datetime) -> None:
    """Compare what a history says with the last good snapshots."""
    expected = last_at(taken, at)
    assert {name: row[:2] for name, row in found.items()} == {
        name: (each.cluster_id, each.read_at) for name, each in expected.items()
    }
    for name, each in expected.items():
        assert same_quotas(found[name][2], each.quotas or {}), (name, at)


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(rounds=appends())
def test_at_any_time_it_holds_the_last_good_snapshot_of_each_cluster(
    spark: SparkSession, rounds: list[list[Taken]]
) -> None:
    history = empty_history(spark)
    for taken in rounds:
        history = with_appended(history, quotas_of(spark, taken))
    every = [each for taken in rounds for each in taken]
    require_same(history, every, [hour(number) for number in range(-1, 8)])
    require_rows_of_one_value_joined(history)


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
