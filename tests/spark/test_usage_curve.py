"""Curves of usage on Spark against a slow oracle; what pages show of them is asserted elsewhere."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from quotaform.fleet.table import make_table
from quotaform.model.entity import Entity
from quotaform.report.report import Curve, curve_of
from quotaform.usage import curve
from quotaform.usage.curve import entity_curves, replay_slots
from quotaform.usage.table.schema import WAITS
from tests.builder import PRODUCER, REQUEST
from tests.spark.usage_oracle import Sample, usage_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 11, 1, 9, tzinfo=UTC)
ALICE = Entity(user="alice")
APP = Entity(user="alice", client_id="app")
BOB = Entity(user="bob")
NOBODY = Entity(user="nobody")


def usage_rows(minutes: int) -> list[Sample]:
    """Two brokers that measure alice and her client app, and clients of bob; some rows twice or without a rate."""
    random = Random(5)
    rows: list[Sample] = []
    for minute in range(minutes):
        for broker in ("1", "2"):
            for user, client in (("alice", None), ("alice", "app"), ("bob", "one"), ("bob", "two")):
                rate = None if random.random() < 0.1 else float(random.randrange(1000))
                row = Sample(60.0 * minute, broker=broker, user=user, client_id=client, rate=rate)
                rows.extend([row] * random.choice((1, 1, 2)))
    alice = Sample(0.0, user="alice", rate=1e9)
    odd = [alice._replace(rate=rate) for rate in (float("nan"), float("inf"))]
    return [*rows, alice._replace(cluster="other"), alice._replace(key=REQUEST), *odd]


def oracle(rows: list[Sample], user: str, client: str | None, slot_s: int) -> list[tuple[datetime, float]]:
    """The points of a bucket, by loops: of a user without a client of its own, all of its clients are added up."""
    once: dict[tuple[float, str | None, str | None], float] = {}
    has_own = any(row.user == user and row.client_id == client for row in rows)
    for row in rows:
        is_meant = row.user == user and (row.client_id == client if has_own else True)
        if row.cluster == "lab" and row.key == PRODUCER and is_meant and row.rate is not None and 0 <= row.rate < 1e300:
            once[row.at, row.broker, row.client_id] = row.rate
    sums: dict[tuple[float, str | None], float] = defaultdict(float)
    for (at, broker, _), rate in once.items():
        sums[at, broker] += rate
    found: dict[int, tuple[datetime, float]] = {}
    for (seconds, _), rate in sorted(sums.items()):
        when = START + timedelta(seconds=seconds)
        slot = int(when.timestamp()) // slot_s
        found[slot] = (when, max(rate, found[slot][1] if slot in found else 0.0))
    return [found[slot] for slot in sorted(found)]


@pytest.mark.parametrize("most", [2000, 7])
def test_a_curve_has_the_highest_rate_of_each_slot(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(curve, "MOST_POINTS", most)
    rows = usage_rows(40)
    wanted = [("lab", entity, PRODUCER) for entity in (ALICE, APP, BOB, NOBODY, Entity(user=None))]
    found = entity_curves(usage_table(spark, rows, START), wanted)
    slot_s = -(-(39 * 60 + 1) // most)
    expected = {
        ("lab", entity, PRODUCER): oracle(rows, user, client, slot_s)
        for entity, user, client in ((ALICE, "alice", None), (APP, "alice", "app"), (BOB, "bob", None))
    }
    assert {key: list(zip(each.times, each.values, strict=True)) for key, each in found.items()} == expected
    assert all(len(each.times) <= most + 1 for each in found.values())
    assert {each.step_s for each in found.values()} <= ({60.0} if most == 2000 else {335.0, 360.0})


def test_an_empty_recording_has_no_curves(spark: SparkSession) -> None:
    assert entity_curves(usage_table(spark, usage_rows(1), START).limit(0), [("lab", ALICE, PRODUCER)]) == {}
    assert curve_of([], 60.0) == Curve()


def test_slots_have_the_highest_rate_and_from_when_to_when_requests_waited(spark: SparkSession) -> None:
    random = Random(3)
    rows: list[dict[str, Any]] = [
        {
            "bucket_id": bucket,
            "at": second * 10_000_000,
            "step_s": 10.0,
            "ratio": random.random(),
            "wait_s": random.choice((0.0, 4.0)),
            "wait_s_high": random.choice((0.0, 9.0)),
            "throttle_ms": random.choice((None, 5.0, 7.0)),
        }
        for bucket in (1, 2)
        for second in range(1, 40)
    ]
    fields = [field for field in WAITS if field.name in rows[0]]
    table = make_table(spark, StructType(fields), [[row[field.name] for row in rows] for field in fields])
    found = {(row["bucket_id"], row["at"]): row for row in replay_slots(table, 60.0).toArrow().to_pylist()}
    slots: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        slots[row["bucket_id"], row["at"] // 60_000_000].append(row)
    assert len(found) == len(slots)
    for (bucket, _), each in slots.items():
        slot = found[bucket, max(row["at"] for row in each)]
        assert slot["ratio"] == max(row["ratio"] for row in each)
        assert slot["throttle_ms"] == max((row["throttle_ms"] for row in each if row["throttle_ms"]), default=None)
        for suffix in ("", "_high"):
            waited = [row for row in each if row[f"wait_s{suffix}"] > 0]
            assert slot[f"start{suffix}"] == min((row["at"] - 10_000_000 for row in waited), default=None)
            assert slot[f"end{suffix}"] == max((row["at"] for row in waited), default=None)
