"""What brokers offer about usage, over an exporter and over JMX, of a real producer over its quota."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from time import sleep, time
from typing import Final

import pytest

from quotaform import Entity, QuotaAdmin
from quotaform.model.quota_key import PRODUCER_BYTE_RATE
from quotaform.model.settings import parse_source
from quotaform.sandbox import Sandbox
from quotaform.sandbox.tool import jmx_tool_command
from quotaform.usage.record.reader import open_reader
from quotaform.usage.sample import Attribute, Sample, Series
from tests.broker import become, client_settings
from tests.traffic import connected, make_batch, open_topic, send
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

KEY: Final = PRODUCER_BYTE_RATE.name
LIMIT: Final = 100_000.0
TOPIC: Final = "usage"
RATE: Final = Series("lab", "1", KEY, "admin", None, None)
THROTTLE_TIME: Final = RATE._replace(attribute=Attribute.THROTTLE_TIME)


def read(sandbox: Sandbox, *, by_jmx: bool = False) -> dict[Series, float]:
    source = f"1=jmx:{sandbox.jmx_addresses[1]}" if by_jmx else f"1={sandbox.metrics_urls[1]}"
    reader = open_reader(parse_source(source), "lab", jmx_tool_command() if by_jmx else ())
    _, items = reader.ask(60.0, time())
    return {item.series: item.value for item in items if isinstance(item, Sample)}


def is_at_limit(sandbox: Sandbox) -> bool:
    """Whether the producer is held back; on a busy machine it takes a while to send so much."""
    sleep(0.5)
    found = read(sandbox)
    return found.get(RATE, 0.0) > 0.9 * LIMIT and THROTTLE_TIME in found


@pytest.fixture
def throttled(metered_sandbox: Sandbox) -> Iterator[Sandbox]:
    """A cluster on which one user produces over its quota."""
    open_topic(metered_sandbox, TOPIC)
    is_over = Event()

    def produce() -> None:
        with connected(metered_sandbox, "admin", "app") as connection:
            batch = make_batch(bytes(20_000))
            while not is_over.is_set():
                send(connection, TOPIC, batch)

    properties = client_settings(metered_sandbox, "SASL_PLAINTEXT")
    with QuotaAdmin.connect(metered_sandbox.bootstrap_servers, properties=properties) as admin:
        become(admin, {Entity(user="admin"): {KEY: LIMIT}, Entity(ip=None): {"connection_creation_rate": 1000.0}})
        traffic = Thread(target=produce)
        traffic.start()
        try:
            wait_until(lambda: is_at_limit(metered_sandbox))
            yield metered_sandbox
        finally:
            is_over.set()
            traffic.join()
            become(admin, {})


def test_a_producer_over_its_quota_is_at_its_limit_by_the_exporter_and_by_jmx(throttled: Sandbox) -> None:
    exported, told = read(throttled), read(throttled, by_jmx=True)
    assert exported.keys() == told.keys()
    for found in (exported, told):
        assert found[RATE] == pytest.approx(LIMIT, rel=0.3)
        assert found[THROTTLE_TIME] > 0
    assert {series.ip for series in exported if series.key == "connection_creation_rate"} == {"127.0.0.1"}
