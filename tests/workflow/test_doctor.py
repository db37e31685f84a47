"""`quotaform doctor`: which step of using a cluster fails, and nothing secret in what it prints."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft7Validator

from quotaform.sandbox import Sandbox
from tests.fake_broker import ALTER, FakeBroker, serving
from tests.loading import load_schema
from tests.markdown import ROOT
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


def test_a_cluster_that_can_be_used_is_shown_with_all_that_was_negotiated(doctor: Doctor) -> None:
    kafka = doctor.kafka
    server = kafka.listeners["SASL_SSL"]
    found = doctor.run(kafka.client_properties("SASL_SSL"), server, pin=kafka.cluster_id)
    assert found.code == 0, found
    for part in (
        "file client.properties, security protocol SASL_SSL, mechanism SCRAM-SHA-512\n",
        f"\n{server}\n",
        "addresses 127.0.0.1\n",
        "version TLSv1.3, cipher TLS_",
        "certificate of 127.0.0.1, localhost, valid until 20",
        "as user admin, session unlimited\n",
        f"id {kafka.cluster_id}, brokers 1\n",
        "ok           alter quotas\n",
    ):
        assert part in found.out
    assert found.last == "All steps succeeded."
    assert "admin-secret" not in found.said
    assert doctor.steps(kafka.client_properties("MTLS"), kafka.listeners["MTLS"], code=0) == {}


def test_every_server_is_tried_and_rights_are_asked_at_one_that_can_be_used(doctor: Doctor) -> None:
    kafka = doctor.kafka
    well = kafka.listeners["SASL_PLAINTEXT"]
    found = doctor.steps(kafka.client_properties("SASL_PLAINTEXT"), "127.0.0.1:1", well, "broker.invalid:9092", code=1)
    assert {step: problem for step, (status, problem) in found.items() if status == "failed"} == {
        "127.0.0.1:1 connect": "nothing listens at 127.0.0.1:1 (connection refused); check the host and port, and "
        "whether the broker is running.",
        "broker.invalid:9092 resolve": "the host name broker.invalid of broker.invalid:9092 cannot be resolved; check "
        "its spelling and your DNS.",
    }
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
    properties = kafka.client_properties("SASL_SSL", user="plainuser").replace(
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
        kafka.client_properties("SASL_SSL", user="tenant"), kafka.listeners["SASL_SSL"], "127.0.0.1:1"
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
