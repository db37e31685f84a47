"""What a backtest predicts, against what a real broker then does to the same traffic: all keys but request time.

How long a request takes is not the same twice on a machine that runs other tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Final

import pytest
from pyspark.sql import SparkSession

from quotaform import Alteration, Entity, QuotaAdmin
from quotaform.model.quota_key import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
)
from quotaform.model.settings import read_sources
from quotaform.plan.plan import Plan
from quotaform.sandbox import Sandbox
from quotaform.usage.record.reader import open_reader
from quotaform.usage.record.run import Recorder, write_rows
from quotaform.usage.replay.run import backtested
from tests.broker import client_properties
from tests.builder import plan_of
from tests.traffic import connect, consume, make_batch, mutate, open_topic, produce

SECONDS: Final = 10.0
WINDOW: Final = 12.5
"""Seconds after which a broker has forgotten what it measured."""
ADDRESS: Final = "127.0.0.2"
PRODUCED, CONSUMED = "backtest-produced", "backtest-consumed"
BATCH: Final = make_batch(bytes(20_000))


@dataclass
class Traffic:
    """What is sent, whatever the broker says."""

    sandbox: Sandbox
    offset: int = 0  # up to where has been consumed

    def produce(self) -> float:
        return produce(self.sandbox, "tenant", "backtest", PRODUCED, BATCH, SECONDS, 1e6)

    def consume(self) -> float:
        is_over = Event()
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(consume, self.sandbox, "tenant", "backtest", CONSUMED, is_over, self.offset)
            try:
                assert produce(self.sandbox, "plainuser", "feed", CONSUMED, BATCH, SECONDS, 1.5e6) == 0
            finally:
                is_over.set()
            throttled, self.offset = read.result()
        return throttled

    def mutate(self) -> float:
        return mutate(self.sandbox, "admin", "backtest-mutations", 8.0, 12.0)

    def connect(self) -> float:
        return connect(self.sandbox, ADDRESS, SECONDS, 20.0)


@dataclass(frozen=True)
class Case:
    """Traffic of one quota key, and a limit of it."""

    entity: Entity
    limit: float
    large: float
    send: Callable[[Traffic], float]


TENANT: Final = Entity(user="tenant")
CASES: Final = {
    PRODUCER_BYTE_RATE.name: Case(TENANT, 0.4e6, 1e9, Traffic.produce),
    CONSUMER_BYTE_RATE.name: Case(TENANT, 0.6e6, 1e9, Traffic.consume),
    CONTROLLER_MUTATION_RATE.name: Case(Entity(client_id="backtest-mutations"), 3.0, 1e6, Traffic.mutate),
    CONNECTION_CREATION_RATE.name: Case(Entity(ip=ADDRESS), 8.0, 1e6, Traffic.connect),
}


@pytest.fixture
def admin(metered_sandbox: Sandbox, tmp_path: Path) -> Iterator[QuotaAdmin]:
    """The quotas of a broker that serves its metrics; none before and none after."""
    for topic in (PRODUCED, CONSUMED):
        open_topic(metered_sandbox, topic)
    config = tmp_path / "admin.properties"
    config.write_text(client_properties(metered_sandbox, "SASL_PLAINTEXT"), encoding="utf-8")
    with QuotaAdmin.connect(metered_sandbox.bootstrap_servers, command_config=config) as client:
        clear(client)
        yield client
        clear(client)


def clear(admin: QuotaAdmin) -> None:
    live = admin.describe()
    admin.alter([Alteration(entity, dict.fromkeys(values)) for entity, values in live.items()]).raise_for_errors()


def quotas(value_of: Callable[[Case], float]) -> Mapping[Entity, Mapping[str, float]]:
    """Return the quotas of all cases."""
    entities = {case.entity for case in CASES.values()}
    return {
        entity: {key: value_of(case) for key, case in CASES.items() if case.entity == entity} for entity in entities
    }


def limit(admin: QuotaAdmin, values: Mapping[Entity, Mapping[str, float]]) -> None:
    """Set limits, and wait until the broker follows."""
    admin.alter([Alteration(entity, dict(of)) for entity, of in values.items()]).raise_for_errors()
    sleep(0.5)


def send(traffic: Traffic, after: float = 0.0) -> Mapping[str, float]:
    """Send everything at once, and return for how many seconds requests of each key wait."""
    sleep(after)
    with ThreadPoolExecutor(len(CASES)) as pool:
        sent = {key: pool.submit(case.send, traffic) for key, case in CASES.items()}
        return {key: each.result() for key, each in sent.items()}


def record_traffic(traffic: Traffic, cluster: str, usage: Path) -> None:
    """Record the traffic, with one measurement per second and those that follow until it is forgotten."""
    [source] = read_sources([f"1={traffic.sandbox.metrics_urls[1]}"])
    recorder = Recorder(
        usage=str(usage),
        readers={cluster: {"1": open_reader(source, cluster, [])}},
        interval=1.0,
        seconds=2 + SECONDS + WINDOW,
        write=partial(write_rows, usage),
        warn=lambda _: None,
    )
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, traffic, 2.0)
        [outcome] = recorder.run()
        outcome.require()
        assert set(sent.result().values()) == {0.0}


def predicted(spark: SparkSession, usage: Path, plan: Plan) -> Mapping[str, float]:
    """Return for how long requests of each key would wait under a plan, until the last of them was served."""
    found: dict[str, float] = {}
    with backtested(spark, str(usage), [plan], 10) as (result, _, _):
        for row in result.clusters[0].changed.rows:
            assert row.bucket == CASES[row.key].entity.address
            assert row.throttled_s.value is not None
            assert row.throttled_s.low <= row.throttled_s.value <= row.throttled_s.high
            found[row.key] = row.throttled_s.value + (row.backlog_s or 0.0)
    return found


@pytest.mark.prove
def test_a_broker_throttles_for_as_long_as_the_backtest_says(
    spark: SparkSession, metered_sandbox: Sandbox, admin: QuotaAdmin, tmp_path: Path
) -> None:
    """Mutations were taken for those of the last 10 s, of which a broker shows those of the last minute."""
    traffic = Traffic(metered_sandbox)
    held, planned = quotas(lambda case: case.large), quotas(lambda case: case.limit)
    plan = replace(plan_of(planned, held), actual=held)
    limit(admin, held)
    record_traffic(traffic, plan.header.cluster.name, tmp_path / "usage")
    expected = predicted(spark, tmp_path / "usage", plan)
    limit(admin, planned)
    began = monotonic()
    observed = send(traffic)
    print(f"predicted {expected}, observed {observed} in {monotonic() - began:.1f} s")
    assert expected.keys() == CASES.keys()
    for key in CASES:
        assert observed[key] > 5.0
        assert expected[key] == pytest.approx(observed[key], rel=0.2), key
