"""SCRAM credentials on a real broker: who can log in afterwards, what Kafka's own tools see, and what is refused.

No test deletes a credential on a broker that is restarted: Kafka 4.3.1 loses all users of the mechanism then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from unicodedata import normalize

import pytest

from quotaform.cli.main import run
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.records import ScramCredential, ScramError, ScramMechanism, ScramUser
from quotaform.cluster.scram import ScramAlteration, ScramGateway, make_upsertion
from quotaform.model.alteration import Outcome
from quotaform.model.errors import AuthorizationError
from quotaform.model.text import Secret
from quotaform.sandbox import Sandbox
from tests.broker import client_properties, kafka_configs, wipe_credentials
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
LISTENER = "SASL_PLAINTEXT"
SASLPREPARED = "I\u00adX \u2168"
"""A soft hyphen and a Roman numeral, which SASLprep would take away and change."""
ODD_NAMES = ("svc orders", "zoë", "a=b,c", '"quoted"', "<default>", "100%", "line\nbreak", "x" * 300)


def login(user: str, password: str, mechanism: str = SHA_512) -> ClientConfig:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "security.protocol": LISTENER,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{quoted}";',
    }
    return from_properties(properties, environ={})


@pytest.fixture(scope="module")
def secured(secured_sandbox: Sandbox) -> Iterator[ScramGateway]:
    address = secured_sandbox.listeners[LISTENER]
    with ScramGateway.connect(address, login("admin", "admin-secret"), name="lab") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def gateway(sandbox: Sandbox) -> Iterator[ScramGateway]:
    with ScramGateway.connect(sandbox.bootstrap_servers, name="lab") as gateway:
        yield gateway
        wipe_credentials(gateway)


PASSWORD = "hunter2"


def upsertion(user: str, password: str = PASSWORD, mechanism: ScramMechanism = SHA_512, **more: int) -> ScramAlteration:
    return make_upsertion(user, mechanism, Secret(password), **more)


def wait_for(gateway: ScramGateway, user: str, *mechanisms: str) -> ScramUser:
    """Return a user once just these mechanisms show."""

    def found() -> ScramUser:
        return gateway.describe([user])[0]

    wait_until(lambda: {each.mechanism for each in found().credentials} == set(mechanisms))
    return found()


@pytest.mark.parametrize("password", ["hunter2", "pässwörd ✓", "a=b,c;\"d'", SASLPREPARED, "p" * 1000])
@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_who_was_set_can_log_in_and_no_log_holds_the_secret(
    secured: ScramGateway,
    secured_sandbox: Sandbox,
    caplog: pytest.LogCaptureFixture,
    mechanism: ScramMechanism,
    password: str,
) -> None:
    user = f"CN=newcomer {mechanism},O=x"
    made = upsertion(user, password, mechanism, iterations=8192)
    with caplog.at_level(logging.DEBUG):
        secured.alter([made]).raise_for_errors()
    assert not [secret for secret in (password, repr(made.salted_password)[2:-1]) if secret in caplog.text]
    wait_for(secured, user, mechanism)
    settings = login(user, password, mechanism)
    with KafkaGateway.connect(secured_sandbox.listeners[LISTENER], settings) as connected:
        assert connected.cluster_id() == secured_sandbox.cluster_id


def test_kafka_s_own_client_logs_in_with_a_password_that_saslprep_would_change(
    secured: ScramGateway, secured_sandbox: Sandbox, tmp_path: Path
) -> None:
    secured.alter([upsertion("java", SASLPREPARED)]).raise_for_errors()
    wait_for(secured, "java", SHA_512)
    path = tmp_path / "client.properties"
    for password, code in ((SASLPREPARED, 0), (normalize("NFKC", SASLPREPARED), 1)):
        path.write_text(client_properties(secured_sandbox, LISTENER, user="java", password=password), encoding="ascii")
        asked = ("--describe", "--entity-type", "topics")
        done = kafka_configs(secured_sandbox, *asked, listener=LISTENER, config=path)
        assert done.returncode == code, done
        assert ("SaslAuthenticationException" in done.stdout + done.stderr) is bool(code), done


def test_who_may_not_read_or_write_users_is_told_at_once(secured_sandbox: Sandbox) -> None:
    # Kafka's own client asks with a null list, and the broker never answers.
    address = secured_sandbox.listeners[LISTENER]
    with ScramGateway.connect(address, login("tenant", "tenant-secret"), name="lab") as gateway:
        for users in ([], ["admin"]):
            began = monotonic()
            with pytest.raises(AuthorizationError, match=r"grant it DESCRIBE on the Cluster resource"):
                gateway.describe(users)
            assert monotonic() - began < 20
        result = gateway.alter([upsertion("a"), ScramAlteration("b", SHA_256)])
    assert [(row.outcome, row.code) for row in result] == [(Outcome.REFUSED, 31)] * 2


def test_any_names_with_several_mechanisms_go_in_one_call_and_are_kept_as_they_are(gateway: ScramGateway) -> None:
    gateway.alter([upsertion(user, mechanism=each) for user in ODD_NAMES for each in ScramMechanism]).raise_for_errors()
    both = (ScramCredential("SCRAM-SHA-256", 4096), ScramCredential("SCRAM-SHA-512", 4096))
    for user in ODD_NAMES:
        assert wait_for(gateway, user, SHA_256, SHA_512) == ScramUser(user, both)
    assert {found.user for found in gateway.describe()} >= {*ODD_NAMES}
    first, second, *_ = ODD_NAMES
    gateway.alter([ScramAlteration(first, SHA_256), ScramAlteration(second, SHA_512)]).raise_for_errors()
    assert wait_for(gateway, first, SHA_512).credentials == both[1:]
    assert wait_for(gateway, second, SHA_256).credentials == both[:1]


def test_each_user_has_an_error_of_its_own_in_the_words_of_the_broker(gateway: ScramGateway) -> None:
    result = gateway.alter(
        [
            upsertion("mixed"),
            upsertion("few", iterations=4095),
            upsertion("many", iterations=16_385),
            upsertion("most", iterations=16_384),
            ScramAlteration("mixed", SHA_256),
            ScramAlteration("nobody", SHA_256),
        ]
    )
    assert [(row.user, row.outcome, row.code, row.message) for row in result] == [
        ("mixed", Outcome.OK, 0, ""),
        ("few", Outcome.REFUSED, 93, "Too few iterations"),
        ("many", Outcome.REFUSED, 93, "Too many iterations"),
        ("most", Outcome.OK, 0, ""),
        ("mixed", Outcome.REFUSED, 91, "Attempt to delete a user credential that does not exist"),
        ("nobody", Outcome.REFUSED, 91, "Attempt to delete a user credential that does not exist"),
    ]
    wait_for(gateway, "most", SHA_512)
    assert gateway.describe(["nobody", "most"]) == [
        ScramUser("most", (ScramCredential("SCRAM-SHA-512", 16_384),)),
        ScramUser("nobody", (), ScramError(91, "Attempt to describe a user credential that does not exist: nobody")),
    ]


def test_what_kafka_configs_writes_we_read_and_the_other_way_round(gateway: ScramGateway, sandbox: Sandbox) -> None:
    written = ("--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=hunter2]")
    done = kafka_configs(sandbox, *written, "--entity-type", "users", "--entity-name", "theirs")
    assert done.returncode == 0, done
    assert wait_for(gateway, "theirs", SHA_256).credentials == (ScramCredential("SCRAM-SHA-256", 8192),)
    gateway.alter([upsertion("ours", iterations=8192)]).raise_for_errors()
    wait_for(gateway, "ours", SHA_512)
    read = kafka_configs(sandbox, "--describe", "--entity-type", "users", "--entity-name", "ours")
    assert "SCRAM-SHA-512=iterations=8192" in read.stdout


def test_the_users_with_credentials_are_the_principals_of_a_plan(
    gateway: ScramGateway, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.alter([upsertion("connects"), upsertion("connects-too")]).raise_for_errors()
    wait_for(gateway, "connects-too", SHA_512)
    users = [found.user for found in gateway.describe() if found.credentials]
    monkeypatch.chdir(tmp_path)
    Path("quotas.d").mkdir()
    Path("quotas.d/all.yaml").write_text("quotas: [{match: {user: connects}, values: {producer_byte_rate: 5}}]\n")
    servers = ["--bootstrap-server", sandbox.bootstrap_servers]
    assert run(["plan", *servers, "--principals", "scram", "--out", "plan.json", "--quiet"]) == 0
    radius = json.loads(Path("plan.json").read_text())["blast_radius"]
    assert (radius["source"], radius["principals"]) == ("scram", len(users))
    assert [row["address"] for row in radius["largest"]] == ["user=connects"]
