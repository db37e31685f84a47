"""Brokers that are down or something else, and rights that are missing: one sentence, soon, and no secrets.

What each mechanism and listener wants is in `tests/kafka/test_doors.py`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.password import Password
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from tests.traffic import KafkaPythonRequest
from tests.workflow.command import Repository, Result

pytestmark = pytest.mark.workflow

QUOTAS = "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
SECRETS = ("admin-secret", "tenant-secret", "plain-secret", "hunter2")


def one_sentence(result: Result, *parts: str, code: int = 1) -> None:
    """Make sure that a failure is told in one line with these parts, and with no secret in it."""
    assert (result.code, result.out) == (code, ""), result
    assert re.fullmatch(r"Error: [^\n]+\n", result.err), result.err
    for part in parts:
        assert part in result.err
    assert not any(secret in result.err for secret in SECRETS)


@pytest.fixture
def patient(offline: Repository) -> Iterator[Repository]:
    """A repository in which every run of the command must end within seconds."""
    offline.quotas(QUOTAS)
    began = time.monotonic()
    yield offline
    assert time.monotonic() - began < 120


def plan(repository: Repository, servers: str, properties: str | None = None) -> Result:
    """Plan a cluster; the run must end soon after the connection timeout of 10 s, if it comes to that."""
    arguments = ["plan", "--bootstrap-server", servers]
    if properties is not None:
        repository.write("client.properties", properties)
        arguments += ["--command-config", "client.properties"]
    began = time.monotonic()
    result = repository(*arguments)
    assert time.monotonic() - began < 45
    return result


@pytest.mark.parametrize(
    "command", [["apply", "--auto-approve"], ["drift"], ["import"], ["snapshot"]], ids=lambda item: item[0]
)
def test_every_command_says_it_the_same_way(patient: Repository, command: list[str]) -> None:
    patient.config("clusters: {lab: {bootstrap_servers: ['127.0.0.1:1', '127.0.0.1:2']}}\n")
    one_sentence(patient(*command), "Cannot connect to lab: nothing listens at 127.0.0.1:", "Also tried: 127.0.0.1:")
    assert patient.receipts == []


def test_who_may_not_describe_and_who_may_not_alter_is_told(patient: Repository, secured_sandbox: Sandbox) -> None:
    kafka = secured_sandbox
    servers = kafka.bootstrap_servers
    tenant = kafka.client_properties("SASL_PLAINTEXT", user="tenant")
    one_sentence(plan(patient, servers, tenant), "DESCRIBE_CONFIGS", "Cluster")

    with right_to_describe(kafka, "tenant"):
        deadline = time.monotonic() + 60
        while (seen := plan(patient, servers, tenant)).code and time.monotonic() < deadline:
            time.sleep(0.2)
        assert (seen.code, seen.last) == (0, "Plan: 1 to add, 0 to change, 0 to destroy.")
        alter = ["apply", "--auto-approve", "--bootstrap-server", servers, "--command-config", "client.properties"]
        checked = patient("doctor", *alter[2:])
        assert (checked.code, checked.last) == (1, "1 step failed, 0 not reached.")
        assert "failed       alter quotas      user=quotaform-doctor: The principal is not authorised" in checked.out
        refused = patient(*alter)
        assert refused.code == 1, refused
        assert "ALTER_CONFIGS" in refused.err
        assert refused.err.count("\n") == 1
        assert patient.receipts == []

    admin = kafka.client_properties("SASL_PLAINTEXT")
    patient.write("admin.properties", admin)
    patient.config(f"clusters: {{lab: {{bootstrap_servers: ['{servers}'], command_config: admin.properties}}}}\n")
    assert patient("plan").last == "Plan: 1 to add, 0 to change, 0 to destroy.", "nothing was written"


@contextmanager
def right_to_describe(kafka: Sandbox, user: str) -> Iterator[None]:
    """Let a user read quotas and not change them, as long as the block lasts."""
    from kafka.protocol.admin import CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse

    # Codes of org.apache.kafka.common: resource type CLUSTER, pattern LITERAL, DESCRIBE_CONFIGS, ALLOW.
    right = (4, "kafka-cluster", 3, f"User:{user}", "*", 10, 3)
    config = ClientConfig(
        security_protocol="SASL_PLAINTEXT",
        credentials=Password(mechanism="SCRAM-SHA-512", username="admin", password=Secret("admin-secret")),
    )
    with KafkaGateway.connect(kafka.bootstrap_servers, config) as gateway:
        create = KafkaPythonRequest(CreateAclsRequest(creations=[right]), CreateAclsResponse)
        created = gateway.connection.send(create, timeout=30)
        assert [result.error_code for result in created.results] == [0]
        try:
            yield
        finally:
            delete = KafkaPythonRequest(DeleteAclsRequest(filters=[right]), DeleteAclsResponse)
            deleted = gateway.connection.send(delete, timeout=30)
            assert [result.error_code for result in deleted.filter_results] == [0]


def test_nothing_that_a_command_leaves_holds_a_password(patient: Repository, secured_sandbox: Sandbox) -> None:
    listener = "SASL_SSL"
    patient.write("client.properties", secured_sandbox.client_properties(listener))
    server = secured_sandbox.listeners[listener]
    patient.config(f"clusters: {{lab: {{bootstrap_servers: ['{server}'], command_config: client.properties}}}}\n")
    done = patient("apply", "--auto-approve", "-v")
    assert done.code == 0, done
    assert not any(secret in done.said for secret in SECRETS)
    assert patient("plan", "--detailed-exitcode").code == 0
    patient.quotas("  - match: {user: a}\n    state: absent\n")
    done = patient("apply", "--auto-approve", "--allow", "delete=1", "--allow", "to-unlimited")
    assert done.last == "Apply complete! Resources: 0 added, 0 changed, 1 destroyed."
    receipt = "".join(path.read_text() for path in patient.receipts)
    assert not any(secret in receipt for secret in SECRETS)


def test_a_password_comes_from_the_environment(patient: Repository, secured_sandbox: Sandbox) -> None:
    properties = secured_sandbox.client_properties("SASL_PLAINTEXT").replace(
        "admin-secret", "${env:QUOTAFORM_PASSWORD}"
    )
    assert "${env:QUOTAFORM_PASSWORD}" in properties
    patient.write("client.properties", properties)
    arguments = [
        "plan", "--bootstrap-server", secured_sandbox.bootstrap_servers, "--command-config", "client.properties"
    ]  # fmt: skip
    listed = {"QUOTAFORM_ENV": "QUOTAFORM_PASSWORD"}
    assert patient(*arguments, env={"QUOTAFORM_PASSWORD": "admin-secret", **listed}).code == 0
    one_sentence(patient(*arguments, env={"QUOTAFORM_PASSWORD": "hunter2", **listed}), "did not accept user admin")
    missing = patient(*arguments, env=listed)
    assert missing.code == 3
    assert "QUOTAFORM_PASSWORD" in missing.err
