"""Connecting to a broker with SASL and an authorizer; every way in and what bars it is in `test_doors.py`."""

from __future__ import annotations

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
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
