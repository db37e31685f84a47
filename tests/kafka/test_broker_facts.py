"""What brokers of different releases do, measured; `python -m tests.kafka.test_broker_facts 2.8 3.3` prints it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import Final

import pytest

from quotaform.cluster.broker import AlterClientQuotas, BrokerRelease, DescribeClientQuotas
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.filter import EVERYTHING, EntityFilter
from quotaform.model.quotas import Quotas
from quotaform.model.server import parse_server, parse_servers
from quotaform.sandbox import Sandbox
from tests.broker import broker_release
from tests.builder import CONNECTION, CONSUMER, MUTATION, PRODUCER, REQUEST
from tests.traffic import create_topic
from tests.waiting import wait_until
from tools.broker_facts import FACTS

pytestmark = pytest.mark.kafka

USER: Final = Entity(user="measured")
ADDRESS: Final = Entity(ip="10.0.0.1")


class Broker:
    """What a broker answers, and what is there then; nothing is refused on this side."""

    def __init__(self, sandbox: Sandbox, connection: ClusterConnection) -> None:
        self.address = sandbox.bootstrap_servers
        self.connection = connection

    def alter(self, *alterations: Alteration, validate_only: bool = False) -> list[int]:
        answer = self.connection.send(AlterClientQuotas(alterations, validate_only), timeout=65)
        return [code for _, code, _ in answer]

    def code(self, entity: Entity, key: str, value: float) -> int:
        [code] = self.alter(Alteration(entity, {key: value}))
        return code

    def describe(self) -> Quotas:
        return self.connection.send(DescribeClientQuotas(EVERYTHING), timeout=60).found

    def wipe(self) -> None:
        if live := self.describe():
            self.alter(*(Alteration(entity, dict.fromkeys(values)) for entity, values in live.items()))
            wait_until(lambda: not self.describe())


def counts_dry_runs(broker: Broker) -> bool:
    broker.code(Entity(client_id="dry"), MUTATION, 0.1)
    wait_until(lambda: bool(broker.describe()))
    connection = BrokerConnection(parse_server(broker.address), ClientConfig(), ssl_context=None, closing=Event())
    connection.client_id = "dry"
    try:
        connection.open(monotonic() + 60)
        # After the 89 the broker holds the connection back.
        for _ in range(5):
            code = connection.exchange(create_topic("dry", 50), monotonic() + 60).topics[0].error_code
            assert code in {0, 89}
            if code == 89:
                return True
        return False
    finally:
        connection.close()


def applies_the_first_of_two(broker: Broker) -> bool:
    codes = broker.alter(Alteration(USER, {PRODUCER: 1.0}), Alteration(USER, {CONSUMER: 1.0}))
    wait_until(lambda: bool(broker.describe()))
    return len(broker.describe()[USER]) == 1 and codes == [42]


def keeps_what_was_sent(broker: Broker) -> bool:
    assert broker.code(USER, PRODUCER, 1e-7) == 0
    wait_until(lambda: bool(broker.describe()))
    return broker.describe()[USER] == {PRODUCER: 1e-7}


def many() -> list[Alteration]:
    return [Alteration(Entity(user=f"u{number}"), {PRODUCER: 1.0}) for number in range(10_001)]


MEASURES: Final[Mapping[str, Callable[[Broker], bool]]] = {
    "client-quotas": lambda broker: 48 in broker.connection.versions and 49 in broker.connection.versions,
    "ip": lambda broker: broker.code(ADDRESS, CONNECTION, 1.0) == 0,
    "ipv6": lambda broker: broker.code(Entity(ip="2001:db8::1"), CONNECTION, 1.0) == 0,
    "scram": lambda broker: 50 in broker.connection.versions,
    "values": lambda broker: {
        *(broker.code(USER, key, 0.0) for key in (PRODUCER, CONSUMER, REQUEST, MUTATION)),
        *(broker.code(USER, key, -1.0) for key in (REQUEST, MUTATION)),
        *(broker.code(ADDRESS, CONNECTION, value) for value in (0.0, 2.0**31)),
    } == {42},
    "verbatim": keeps_what_was_sent,
    "foreign-key": lambda broker: broker.code(USER, "SCRAM-SHA-256", 4096.0) == 42,
    "duplicate": applies_the_first_of_two,
    "limit": lambda broker: set(broker.alter(*many(), validate_only=True)) == {44},
    "empty-match": lambda broker: (
        broker.connection.send(DescribeClientQuotas(EntityFilter.contains_only(user="")), timeout=60).error_code == 0
    ),
    "mutation-dry-run": counts_dry_runs,
}  # fmt: skip
"""Whether a broker does what the table says of the newest ones."""

UNMEASURED: Final = {"memory", "names"}
"""What takes a watch, and what a broker does not survive."""


@contextmanager
def connected(sandbox: Sandbox) -> Iterator[Broker]:
    connection = ClusterConnection(parse_servers(sandbox.bootstrap_servers), ClientConfig(), name="lab", timeout=10)
    try:
        yield Broker(sandbox, connection)
    finally:
        connection.close()


@pytest.mark.parametrize("name", MEASURES)
def test_a_broker_does_what_the_table_says_of_its_release(sandbox: Sandbox, name: str) -> None:
    with connected(sandbox) as broker:
        broker.wipe()
        try:
            assert MEASURES[name](broker) == FACTS[name].holds(broker_release(sandbox))
        finally:
            broker.wipe()


def test_every_fact_is_measured() -> None:
    assert MEASURES.keys() | UNMEASURED == FACTS.keys()


def test_the_release_of_a_broker_follows_from_what_it_offers(sandbox: Sandbox) -> None:
    with connected(sandbox) as broker:
        assert BrokerRelease.of(broker.connection.versions) == broker_release(sandbox)


def main(versions: list[str]) -> None:
    """Print what the brokers of some releases do."""
    for version in versions:
        with Sandbox(kafka=version) as sandbox, connected(sandbox) as broker:
            for name, measure in MEASURES.items():
                broker.wipe()
                print(f"{sandbox.release} {name}: {measure(broker)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
