"""Curves of usage on Spark against a slow oracle; what pages show of them is asserted elsewhere."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from quotaform.model.entity import Entity
from quotaform.report.report import Curve, curve_of
from quotaform.usage import curve
from quotaform.usage.curve import entity_curves
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
