"""Connecting to a broker with SASL and an authorizer; every way in and what bars it is in `test_doors.py`."""

from __future__ import annotations

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.config_reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.errors import AuthenticationError, AuthorizationError
from quotaform.model.alteration import Alteration, Outcome
from quotaform.model.entity import Entity
from quotaform.sandbox import Sandbox

pytestmark = pytest.mark.kafka

LISTENER = "SASL_PLAINTEXT"


def config(user: str, password: str) -> ClientConfig:
    line = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'
    given = {"security.protocol": LISTENER, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": line}
    return from_properties(given, environ={})


def test_a_name_with_the_signs_that_scram_reserves_works(secured_sandbox: Sandbox) -> None:
    name = "CN=a b,O=c"
    admin = secured_sandbox.data_dir / "admin.properties"
    admin.write_text(secured_sandbox.client_properties(LISTENER), encoding="utf-8")
    done = secured_sandbox.run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", secured_sandbox.bootstrap_servers, "--command-config", str(admin), "--alter"),
        *("--entity-type", "users", "--entity-name", name, "--add-config", "SCRAM-SHA-512=[password=odd-secret]"),
    )
    assert done.returncode == 0, done.stderr
    with KafkaGateway.connect(secured_sandbox.bootstrap_servers, config(name, "odd-secret")) as gateway:
        assert gateway.cluster_id() == secured_sandbox.cluster_id


def test_who_may_not_change_is_told_which_right_is_missing(secured_sandbox: Sandbox) -> None:
    asked = [Alteration(Entity(user=name), {"producer_byte_rate": 1.0}) for name in "abc"]
    with KafkaGateway.connect(secured_sandbox.bootstrap_servers, config("tenant", "tenant-secret")) as gateway:
        result = gateway.alter(asked)
    assert [(row.outcome, row.code) for row in result] == [(Outcome.REFUSED, 31)] * 3
    with pytest.raises(AuthorizationError, match=r"user=a: .* ALTER_CONFIGS on the Cluster .* \(and 2 more\)"):
        result.raise_for_errors()


def test_wrong_credentials_are_tried_once_and_not_at_every_server(secured_sandbox: Sandbox) -> None:
    address = secured_sandbox.listeners[LISTENER]
    with pytest.raises(AuthenticationError) as caught:
        KafkaGateway.connect(f"{address},{address.replace('127.0.0.1', 'localhost')}", config("admin", "wrong-secret"))
    assert "Also tried" not in str(caught.value)
