"""What a lost connection, an interrupt and a throttle must never lead to: writing elsewhere, or writing later."""

from __future__ import annotations

from os import getpid, kill
from signal import SIGINT
from threading import Timer
from time import monotonic, sleep

import pytest

from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration, AlterRow, Outcome
from quotaform.model.entity import Entity
from quotaform.model.errors import ConnectError
from quotaform.sandbox import Sandbox
from tests.broker import SHORT_SESSIONS
from tests.waiting import once

pytestmark = pytest.mark.kafka

PRODUCE = "producer_byte_rate"


def alterations(prefix: str, count: int) -> list[Alteration]:
    return [Alteration(Entity(user=f"{prefix}-{number}"), {PRODUCE: 1.0}) for number in range(count)]


def rows_until_interrupt(gateway: KafkaGateway, asked: list[Alteration]) -> list[AlterRow]:
    rows: list[AlterRow] = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (what came before it counts)
        for chunk in gateway.alter_chunks(asked):
            rows += chunk
    return rows


class TestAnotherCluster:
    def test_the_rest_of_an_alter_never_goes_to_another_cluster(self, sandbox: Sandbox) -> None:
        """When A was lost after the first request, the others went to B, and were reported as made."""
        with (
            Sandbox(properties=SHORT_SESSIONS) as first,
            KafkaGateway.connect(f"{first.bootstrap_servers},{sandbox.bootstrap_servers}", name="lab") as gateway,
        ):
            asked = alterations("stray", 9_000)
            chunks = gateway.alter_chunks(asked)
            rows = list(next(chunks))
            first.kill(1)
            rows += [row for chunk in chunks for row in chunk]
            assert [row.entity for row in rows] == [each.entity for each in asked]
            assert {row.outcome for row in rows[:4_000]} == {Outcome.OK}
            assert not {row.outcome for row in rows[4_000:]} & {Outcome.OK, Outcome.REFUSED}
            told = (
                f"Cannot connect to lab: {sandbox.bootstrap_servers} is cluster {sandbox.cluster_id}, not"
                f" {first.cluster_id}; check that all bootstrap servers and advertised listeners are of one cluster."
                f" Also tried: {first.bootstrap_servers} (connection refused)."
            )
            begin = monotonic()
            for do in (
                gateway.describe,
                lambda: gateway.alter(asked[:1]),
                lambda: gateway.alter(asked[:1], validate_only=True),
            ):
                with pytest.raises(ConnectError) as caught:
                    do()
                assert str(caught.value) == told
            assert monotonic() - begin < 9, "that is certain and not tried again until time is up"
            assert gateway.cluster_id() == first.cluster_id
            with KafkaGateway.connect(sandbox.bootstrap_servers) as other:
                assert not [entity for entity in other.describe() if "stray" in entity.address]
            first.restart(1)
            assert len(gateway.describe()) >= 4_000

    def test_a_named_broker_must_be_of_the_cluster_that_named_it(self, sandbox: Sandbox) -> None:
        """An advertised address may lead to another cluster from here, as it does through a tunnel."""
        with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
            connection = gateway.connection
            [server] = connection.brokers.values()
            connection.cluster_id = "another"
            connection.brokers = {1: server._replace(host="localhost"), 2: server}
            error = gateway.broker_config("client.quota.callback.class").errors[1]
            assert f"localhost:{server.port} is cluster {sandbox.cluster_id}, not another;" in str(error)


class TestGivingUp:
    @pytest.mark.prove
    def test_what_waits_for_a_reconnect_is_not_sent_after_an_interrupt(self) -> None:
        """The request waited on, and went out when the broker was well again, after Ctrl-C."""
        with (
            Sandbox() as kafka,
            KafkaGateway.connect(kafka.bootstrap_servers) as gateway,
            KafkaGateway.connect(kafka.bootstrap_servers) as other,
        ):
            kafka.pause(1)
            connection = gateway.connection
            assert isinstance(connection, ClusterConnection)
            lost = connection.broker
            assert lost is not None
            lost.shutdown()
            once(
                lambda: connection.broker not in (None, lost),
                lambda: Timer(0.3, kill, (getpid(), SIGINT)).start(),
            )
            rows = rows_until_interrupt(gateway, alterations("late", 1))
            kafka.resume(1)
            assert [row.outcome for row in rows] == [Outcome.UNKNOWN]
            sleep(1.5)
            assert other.describe() == {}
            assert gateway.describe() == {}
