"""`quotaform doctor`, and brokers that are down or deny rights: which step fails, soon, and no secrets.

What each mechanism and listener wants is in `tests/kafka/test_doors.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.password import Password
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from tests.broker import client_properties
from tests.fake_broker import ALTER, DESCRIBE, HANG, FakeBroker, serving
from tests.loading import load_schema
from tests.markdown import ROOT
from tests.traffic import KafkaPythonRequest
from tests.waiting import wait_until
from tests.workflow.command import Repository, Result

pytestmark = pytest.mark.workflow

CANARY = "c4nary-Pa55word"
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def doctor(offline: Repository, secured_sandbox: Sandbox) -> Doctor:
    return Doctor(offline, secured_sandbox)


class Doctor:
    """A repository whose cluster `lab` is a listener of the secured broker."""

    def __init__(self, repository: Repository, kafka: Sandbox) -> None:
        self.repository = repository
        self.kafka = kafka

    def run(
        self, properties: str, *servers: str, pin: str = "", env: dict[str, str] | None = None, form: str = "text"
    ) -> Result:
        self.repository.write("client.properties", properties)
        pinned = f", cluster_id: {pin}" if pin else ""
        listed = ", ".join(f"'{server}'" for server in servers)
        self.repository.config(
            f"clusters: {{lab: {{bootstrap_servers: [{listed}], command_config: client.properties{pinned}}}}}\n"
        )
        return self.repository("doctor", "--format", form, env=env)

    def steps(self, properties: str, *servers: str, code: int, pin: str = "") -> dict[str, list[Any]]:
        """Return server, step, status and problem of the steps that are not well."""
        found = self.run(properties, *servers, pin=pin, form="json")
        assert found.code == code, found
        document = json.loads(found.out)
        Draft7Validator(load_schema("doctor")).validate(document)
        assert document["healthy"] is (code == 0)
        return {
            f"{step['server'] or ''} {step['step']}": [step["status"], step["problem"]]
            for step in document["steps"]
            if step["status"] != "ok"
        }


def test_every_server_is_tried_and_rights_are_asked_at_one_that_can_be_used(doctor: Doctor) -> None:
    kafka = doctor.kafka
    well = kafka.listeners["SASL_PLAINTEXT"]
    found = doctor.steps(client_properties(kafka, "SASL_PLAINTEXT"), "127.0.0.1:1", well, "broker.invalid:9092", code=1)
    failed = [step for step, (status, _) in found.items() if status == "failed"]
    assert failed == ["127.0.0.1:1 connect", "broker.invalid:9092 resolve"]
    assert [step for step, (status, _) in found.items() if status == "not-reached"] == [
        "127.0.0.1:1 api-versions",
        "127.0.0.1:1 authenticate",
        "127.0.0.1:1 cluster",
        "broker.invalid:9092 connect",
        "broker.invalid:9092 api-versions",
        "broker.invalid:9092 authenticate",
        "broker.invalid:9092 cluster",
    ]


def test_another_cluster_than_the_pinned_one_is_asked_for_nothing(doctor: Doctor) -> None:
    broker = FakeBroker()
    with serving(broker):
        found = doctor.steps("client.id=x\n", broker.address, code=1, pin="another")
    assert found[f"{broker.address} cluster"][0] == "failed"
    assert "is pinned to id another, and the live id is fake-cluster" in found[f"{broker.address} cluster"][1]
    assert found[" alter-quotas"][0] == "not-reached"
    assert ALTER not in broker.asked_keys()


def test_the_right_to_alter_is_asked_by_what_changes_nothing(doctor: Doctor) -> None:
    broker = FakeBroker()
    with serving(broker):
        found = doctor.steps("client.id=x\n", broker.address, code=1)
    assert list(found) == [" describe-configs"], "the fake broker does not know that request"
    [asked] = [each.fields for each in broker.asked if each.api_key == ALTER]
    assert asked.validate_only
    assert [(op.key, op.remove) for op in asked.entries[0].ops] == [("producer_byte_rate", True)]


def test_the_times_of_the_client_properties_hold_for_rights(doctor: Doctor) -> None:
    """A broker that did not answer was waited for as long as by default: a minute, whatever the properties said."""
    broker = FakeBroker(spoil=lambda asked, answer: [HANG] if asked.api_key == DESCRIBE else answer)
    with serving(broker):
        properties = "request.timeout.ms=1000\ndefault.api.timeout.ms=1500\n"
        found = doctor.steps(properties, broker.address, code=1)
    assert re.search(r"did not (respond|answer) within [12](\.\d)? s", found[" describe-quotas"][1])


def test_what_variables_hold_is_not_printed(doctor: Doctor) -> None:
    """Neither the address of a server, nor what it would show: other addresses, and the names of its certificate."""
    kafka = doctor.kafka
    port = kafka.listeners["SASL_SSL"].rpartition(":")[2]
    env = {
        "QUOTAFORM_ENV": "QUOTAFORM_SERVERS,QUOTAFORM_WHO,QUOTAFORM_PASSWORD",
        "QUOTAFORM_SERVERS": f"localhost:{port}",
        "QUOTAFORM_WHO": "plainuser",
        "QUOTAFORM_PASSWORD": "plain-secret",
    }
    properties = client_properties(kafka, "SASL_SSL", user="plainuser").replace(
        "plain-secret", "${env:QUOTAFORM_PASSWORD}"
    )
    properties = properties.replace("plainuser", "${env:QUOTAFORM_WHO}")
    for form in ("text", "json"):
        for changed, code in (({}, 1), ({"QUOTAFORM_PASSWORD": CANARY}, 1), ({"QUOTAFORM_SERVERS": "localhost:1"}, 1)):
            found = doctor.run(properties, "${env:QUOTAFORM_SERVERS}", env=env | changed, form=form)
            assert found.code == code, found
            assert "${env:QUOTAFORM_SERVERS}" in found.out
            for value in ("localhost", "127.0.0.1", port, "plainuser", "plain-secret", CANARY):
                assert value not in found.said.replace("127.0.0.1:1", ""), value


def test_the_output_in_the_docs_is_real(doctor: Doctor) -> None:
    page = (ROOT / "docs/authentication.md").read_text(encoding="utf-8")
    shown = page.partition("$ quotaform doctor --cluster prod-eu\n")[2].partition("```")[0]
    kafka = doctor.kafka
    found = doctor.run(
        client_properties(kafka, "SASL_SSL", user="tenant"), kafka.listeners["SASL_SSL"], "127.0.0.1:1"
    ).out
    for of_the_test, of_the_page in (
        (kafka.listeners["SASL_SSL"], "10.1.0.4:9093"),
        ("127.0.0.1:1", "10.1.0.5:9093"),
        (kafka.cluster_id, "5L6g3nShT-eMCtK--X86sw"),
        (" lab", " prod-eu"),
        ("tenant", "quotas"),
        ("of 127.0.0.1, localhost", "of 10.1.0.4, broker-1.example"),
    ):
        assert of_the_test in found
        found = found.replace(of_the_test, of_the_page)
    for address in ("10.1.0.4", "10.1.0.5"):
        found = found.replace("addresses 127.0.0.1", f"addresses {address}", 1)
    assert TIME.sub("TIME", found) == TIME.sub("TIME", shown)


QUOTAS = "  - match: {user: a}\n    values: {producer_byte_rate: 1MiB/s}\n"
SECRETS = ("admin-secret", "tenant-secret", "plain-secret", "hunter2")


def test_who_may_not_describe_and_who_may_not_alter_is_told(offline: Repository, secured_sandbox: Sandbox) -> None:
    servers = secured_sandbox.bootstrap_servers
    offline.quotas(QUOTAS)
    offline.write("client.properties", client_properties(secured_sandbox, "SASL_PLAINTEXT", user="tenant"))
    options = ("--bootstrap-server", servers, "--command-config", "client.properties")
    refused = offline("plan", *options)
    assert (refused.code, refused.out) == (1, "")
    assert re.fullmatch(r"Error: [^\n]+ DESCRIBE_CONFIGS on the Cluster[^\n]+\n", refused.err), refused.err
    assert not any(secret in refused.err for secret in SECRETS)

    with right_to_describe(secured_sandbox, "tenant"):
        wait_until(lambda: offline("plan", *options).code == 0)
        assert offline("plan", *options).last == "Plan: 1 to add, 0 to change, 0 to destroy."
        checked = offline("doctor", *options)
        assert (checked.code, checked.last) == (1, "1 step failed, 0 not reached.")
        assert "failed       alter quotas      user=quotaform-doctor: The principal is not authorised" in checked.out
        refused = offline("apply", "--auto-approve", *options)
        assert (refused.code, refused.err.count("\n"), "ALTER_CONFIGS" in refused.err) == (1, 1, True), refused
        assert offline.receipts == []

    offline.write("admin.properties", client_properties(secured_sandbox, "SASL_PLAINTEXT"))
    offline.config(f"clusters: {{lab: {{bootstrap_servers: ['{servers}'], command_config: admin.properties}}}}\n")
    assert offline("plan").last == "Plan: 1 to add, 0 to change, 0 to destroy.", "nothing was written"


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


def test_nothing_that_a_command_leaves_holds_a_password(offline: Repository, secured_sandbox: Sandbox) -> None:
    listener = "SASL_SSL"
    offline.quotas(QUOTAS)
    offline.write("client.properties", client_properties(secured_sandbox, listener))
    server = secured_sandbox.listeners[listener]
    offline.config(f"clusters: {{lab: {{bootstrap_servers: ['{server}'], command_config: client.properties}}}}\n")
    done = offline("apply", "--auto-approve", "-v")
    assert done.code == 0, done
    assert not any(secret in done.said for secret in SECRETS)
    assert offline("plan", "--detailed-exitcode").code == 0
    offline.quotas("  - match: {user: a}\n    state: absent\n")
    done = offline("apply", "--auto-approve", "--allow", "delete=1", "--allow", "to-unlimited")
    assert done.last == "Apply complete! Resources: 0 added, 0 changed, 1 destroyed."
    receipt = "".join(path.read_text() for path in offline.receipts)
    assert not any(secret in receipt for secret in SECRETS)
