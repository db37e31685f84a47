"""One configuration value of every broker, each asked itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from quotaform.cluster import kafka
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.gateway import BrokerConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.model.errors import AuthorizationError, ConnectError
from quotaform.sandbox import Sandbox
from tests.broker import client_settings
from tests.faulty_sandbox import FaultySandbox

pytestmark = pytest.mark.kafka


def test_every_broker_tells_its_own_value_and_one_that_is_down_takes_nothing_from_the_others(
    three_brokers: FaultySandbox,
) -> None:
    with KafkaGateway.connect(three_brokers.bootstrap_servers) as gateway:
        assert gateway.broker_count == 3
        assert gateway.broker_config("node.id") == BrokerConfig({1: "1", 2: "2", 3: "3"}, {})
        three_brokers.kill(3)
        try:
            found = gateway.broker_config("node.id")
            assert found.values == {1: "1", 2: "2"}
            assert isinstance(found.errors[3], ConnectError)
        finally:
            three_brokers.restart(3)


def test_a_principal_without_rights_is_told_so_and_nothing_fails(secured_sandbox: Sandbox) -> None:
    config = from_properties(client_settings(secured_sandbox, "SASL_PLAINTEXT", user="tenant"), environ={})
    with KafkaGateway.connect(secured_sandbox.bootstrap_servers, config) as gateway:
        found = gateway.broker_config("node.id")
    assert found.values == {}
    error = found.errors[1]
    assert isinstance(error, AuthorizationError)
    assert "DESCRIBE_CONFIGS" in str(error)


def test_a_named_broker_must_be_of_the_cluster_that_named_it(sandbox: Sandbox) -> None:
    """An advertised address may lead to another cluster from here, as it does through a tunnel."""
    with KafkaGateway.connect(sandbox.bootstrap_servers) as gateway:
        connection = gateway.connection
        [server] = connection.brokers.values()
        connection.cluster_id = "another"
        connection.brokers = {1: replace(server, host="localhost"), 2: server}
        error = gateway.broker_config("client.quota.callback.class").errors[1]
        assert f"localhost:{server.port} is cluster {sandbox.cluster_id}, not another;" in str(error)


def test_brokers_that_do_not_answer_are_given_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class SlowConnection:
        cluster_id = "id"
        brokers: Mapping[int, object] = dict.fromkeys(range(1, 31))

        def send_to(self, *_: object, timeout: float) -> None:
            clock[0] += timeout
            raise ConnectError("it did not answer")

    monkeypatch.setattr(kafka, "monotonic", lambda: clock[0])
    found = KafkaGateway(SlowConnection(), name="lab").broker_config("node.id")  # type: ignore[arg-type]
    assert clock[0] <= 20.0
    assert found.errors.keys() == set(range(1, 31))
    assert "was not read" in str(found.errors[30])
