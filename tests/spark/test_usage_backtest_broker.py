"""What a backtest predicts, against what a real broker then does to the same traffic."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import pytest

from quotaform import Alteration, Entity, QuotaAdmin
from quotaform.app.usage.record import RecordRequest, record
from quotaform.core.plan import Plan
from quotaform.metrics.open import open_reader
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.sandbox import Sandbox
from quotaform.sandbox.security import USERS
from tests.builder import plan_of
from tests.producer import BlockingProducer, make_batch, open_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY: Final = PRODUCER_BYTE_RATE.name
TENANT: Final = Entity(user="tenant")
TOPIC: Final = "backtest"
LARGE: Final = 1e9
"""A limit that nobody reaches: a broker measures where there is one."""
RATE: Final = 1e6
LIMIT: Final = 0.4e6
SECONDS: Final = 10.0
WINDOW: Final = 11.5
"""Seconds after which a broker has forgotten what it measured."""
RECORD: Final = bytes(20_000)
OVERHEAD: Final = 100
"""Bytes of a request besides its batch, about."""


@pytest.fixture
def admin(metered_sandbox: Sandbox, tmp_path: Path) -> Iterator[QuotaAdmin]:
    """The quotas of a broker that serves its metrics."""
    open_topic(metered_sandbox, TOPIC)
    config = tmp_path / "admin.properties"
    config.write_text(metered_sandbox.client_properties("SASL_PLAINTEXT"), encoding="utf-8")
    with QuotaAdmin.connect(metered_sandbox.bootstrap_servers, command_config=config) as client:
        yield client
        limit(client, None)


def limit(admin: QuotaAdmin, value: float | None) -> None:
    """Limit the user, and wait until the broker follows."""
    admin.alter([Alteration(TENANT, {KEY: value})]).raise_for_errors()
    sleep(0.5)


def produce(sandbox: Sandbox, seconds: float = SECONDS, after: float = 0.0) -> float:
    """Send at the rate whatever the broker says, and return for how many seconds it lets the requests wait."""
    sleep(after)
    known, batch = USERS["tenant"], make_batch(RECORD)
    pause = (len(batch) + OVERHEAD) / RATE
    throttled = 0.0
    with BlockingProducer(
        sandbox.bootstrap_servers, TOPIC, "backtest", known.mechanisms[0], known.name, known.password
    ) as producer:
        begin = monotonic()
        for number in range(int(seconds / pause)):
            sleep(max(0.0, begin + number * pause - monotonic()))
            throttled += producer.send(batch) / 1000
    return throttled


def record_traffic(sandbox: Sandbox, cluster: str, usage: Path) -> None:
    """Record the traffic, with one measurement per second and a few before and after it."""
    from quotaform.cli.option.metrics import read_sources
    from quotaform.spark.usage.usage_file import UsageDirectory

    [source] = read_sources([f"1={sandbox.metrics_urls[1]}"])
    request = RecordRequest(
        cluster=cluster,
        usage=str(usage),
        readers={"1": open_reader(source, cluster, [])},
        interval=1.0,
        seconds=SECONDS + 5,
        write=UsageDirectory(usage).write,
        warn=lambda _: None,
    )
    # A broker measures who has sent something.
    produce(sandbox, seconds=0.1)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(produce, sandbox, after=2.0)
        record(request)
        assert sent.result() == 0


def predicted(spark: SparkSession, usage: Path, plan: Plan) -> float:
    """Return for how long requests would wait under a plan, until the last of them was served."""
    from quotaform.spark.usage.backtest_run import BacktestRequest, backtested

    with backtested(spark, BacktestRequest(usage=str(usage), most=10), [plan]) as (found, _):
        [row] = found.clusters[0].rows
    assert (row.bucket, row.key, row.broker) == (TENANT.address, KEY, "1")
    assert row.throttled_s.value is not None
    return row.throttled_s.value + (row.backlog_s or 0.0)


def test_a_broker_throttles_for_as_long_as_the_backtest_says(
    spark: SparkSession, metered_sandbox: Sandbox, admin: QuotaAdmin, tmp_path: Path
) -> None:
    held = {TENANT: {KEY: LARGE}}
    plan = replace(plan_of({TENANT: {KEY: LIMIT}}, held), actual=held)
    limit(admin, LARGE)
    record_traffic(metered_sandbox, plan.header.cluster_name, tmp_path / "usage")
    recorded = monotonic()
    expected = predicted(spark, tmp_path / "usage", plan)
    sleep(max(0.0, recorded + WINDOW - monotonic()))
    limit(admin, LIMIT)
    observed = produce(metered_sandbox)
    assert observed > SECONDS
    assert expected == pytest.approx(observed, rel=0.2)
