"""Headroom agrees with a slow oracle, whatever the recording is like."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any, Final

from pyspark.sql import SparkSession

from quotaform.model.entity import Entity
from quotaform.model.quotas import Quotas
from quotaform.spark import headroom
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER
from tests.spark.test_resolved import quota_table
from tests.spark.usage_oracle import START, Sample, headroom_rows, usage_table

NAN: Final = float("nan")
KEYS: Final = (PRODUCER, CONSUMER, MUTATION)
ENTITIES: Final = (
    *(Entity(user="alice", client_id="app"), Entity(user="alice", client_id=None), Entity(user="alice")),
    *(Entity(user=None, client_id="app"), Entity(user=None, client_id=None), Entity(user=None)),
    *(Entity(client_id="app"), Entity(client_id=None), Entity(user="bob"), Entity(ip=None), Entity(ip="::1")),
)
SERIES: Final = (
    *(("alice", "app", None), ("alice", "web", None), ("alice", None, None), ("bob", "app", None), ("bob", "", None)),
    *((None, "app", None), (None, "web", None), (None, None, "10.0.0.1"), (None, None, "0:0::1"), (None, None, "::1")),
)


def some_quotas(random: Random) -> Quotas:
    found = {}
    for entity in random.sample(ENTITIES, random.randrange(0, 5)):
        keys = [CONNECTION] if "ip" in entity.types else random.sample(KEYS, 2)
        found[entity] = {key: random.choice([0.0, 5.0, 10.0, 2.0**63, NAN]) for key in keys}
    return found


def some_samples(random: Random, cluster: str | None) -> list[Sample]:
    """Rows of a few series: gaps, rows that come twice, rates and throttle times apart, and no numbers at all."""
    rows = []
    for names in random.sample(SERIES, 4):
        key = CONNECTION if names[2] is not None else random.choice(KEYS)
        for broker in random.sample(["1", "2", None], 2):
            at = float(random.randrange(3)) * 60
            for _ in range(random.randrange(1, 8)):
                rate = random.choice([0.0, 1.0, 4.0, 4.9, 9.4, 9.6, 12.0, NAN, None, -1.0, float("inf")])
                throttle = random.choice([None, None, 0.0, 30.0, 30.0, 1000.0, NAN, -5.0])
                row = Sample(
                    at, random.choice([11.5, 300.0, None, NAN, 0.0]), cluster, broker, key, *names, rate, throttle
                )
                apart = [row._replace(throttle_ms=None), row._replace(rate=None)]
                rows += random.choice([[row], [row], [row, row], apart, [row, row._replace(rate=2.0)]])
                at += random.choice([60.0, 60.0, 60.0, 0.25, 600.0, 601.0, 7200.0])
    random.shuffle(rows)
    return rows


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A row that can be compared: times in seconds, and doubles whatever the order in which they were added up."""

    def cell(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value - START).total_seconds()
        return repr(float(f"{value:.10g}")) if isinstance(value, float) else value

    return {name: cell(value) for name, value in row.items() if name not in ("first", "last")} | {
        name: float(cell(row[name])) for name in ("first", "last")
    }


def by_place(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    place = ("cluster", "broker", "key", "bucket")
    found = {repr([row[name] for name in place]): comparable(row) for row in rows}
    assert len(found) == len(rows)
    return found


def test_headroom_is_that_of_the_oracle(spark: SparkSession) -> None:
    """Many clusters are each an example of its own: a job per example would take an hour."""
    random = Random(11)
    held = {f"c{number}": some_quotas(random) for number in range(40)}
    samples = [row for cluster in (*held, "nobody's", None) for row in some_samples(random, cluster)]
    found = headroom(usage_table(spark, samples).persist(), quota_table(spark, held).persist())
    rows = found.where("bucket IS NOT NULL").toArrow().to_pylist()
    assert by_place(rows) == by_place(headroom_rows(samples, held))
