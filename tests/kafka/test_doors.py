"""Every way in, with what it takes and without: which step fails, in which words, and nothing secret in any of them.

OAUTHBEARER is on a broker that validates JWTs with the keys of an identity provider of the test.
"""

from __future__ import annotations

import logging
from pathlib import Path
from time import time
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quotaform.cluster.records import Step, StepStatus
from quotaform.cluster.report import render_checkup
from quotaform.cluster.sasl import token_source
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.desired.config import Cluster
from quotaform.model.records.record import dump_record
from quotaform.repository.run import check_cluster
from quotaform.sandbox.configuration import render_properties
from tests.broker import kafka_configs
from tests.doors import SASL, Doors
from tests.identity_provider import MODULE, decode, make_key
from tests.kdc import REALM
from tests.waiting import PatientClock

pytestmark = pytest.mark.kafka

TLS, LOGIN, ID, RIGHTS = Step.TLS, Step.AUTHENTICATE, Step.CLUSTER_ID, Step.DESCRIBE_QUOTAS
PASSWORD: Final = "check user name and password in sasl.jaas.config."
TOKEN: Final = "check token id and HMAC in sasl.jaas.config, and whether the token has expired."
ENDPOINT: Final = "the token endpoint {token_endpoint} refused to give a token"
GRANT: Final = (
    "The principal is not authorised to read the client quotas of prod; grant it DESCRIBE_CONFIGS on the Cluster"
)

ACCEPTED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "delegation token", "OAUTHBEARER", "GSSAPI", "mTLS")

WAYS: Final = [
    # what the client shows, how that is: the step that fails, and a part of its sentence
    ("none", "no rights", RIGHTS, GRANT),
    *[(way, "right", None, "") for way in ACCEPTED],
    *[(way, "no rights", RIGHTS, GRANT) for way in ACCEPTED],
    *[(way, "wrong", LOGIN, f"{{server}} did not accept user admin ({way}); {PASSWORD}") for way in ACCEPTED[:3]],
    *[(way, "unknown", LOGIN, f"{{server}} did not accept user nobody ({way}); {PASSWORD}") for way in ACCEPTED[:3]],
    ("delegation token", "wrong", LOGIN, f"did not accept delegation token {{token}} (SCRAM-SHA-256); {TOKEN}"),
    ("delegation token", "expired", LOGIN, f"did not accept delegation token {{token}} (SCRAM-SHA-256); {TOKEN}"),
    ("OAUTHBEARER", "wrong", LOGIN, f"{ENDPOINT} (status 401, invalid_client: Client authentication failed); check"),
    ("OAUTHBEARER", "expired", LOGIN, '(OAUTHBEARER) and answered "invalid_token"; check issuer, audience and'),
    ("GSSAPI", "wrong", LOGIN, f"the KDC did not accept the key of principal former@{REALM} in the keytab; write"),
    ("GSSAPI", "expired", LOGIN, f"the Kerberos ticket of principal late@{REALM} has expired; run kinit, or use a"),
    ("mTLS", "wrong", TLS, "{server} did not accept the client certificate ("),
    ("mTLS", "expired", TLS, "{server} did not accept the client certificate ("),
]  # fmt: skip
"""Each is tried with TLS and without; AWS_MSK_IAM, which no broker of Kafka has, is in tests/golden/logins-msk.txt."""

LISTENERS: Final = {"none": ("PLAINTEXT", "TLS"), "mTLS": ("MTLS",)}
"""The listeners of a way; those with SASL if it is not named."""

ASTRAY: Final = [
    # the listener, what the client was made for: the step that fails, and a part of its sentence
    ("TLS", "PLAINTEXT", Step.API_VERSIONS, "speaks TLS but security.protocol is PLAINTEXT; set security.protocol=SSL"),
    ("SASL_SSL", "SASL_PLAINTEXT", Step.API_VERSIONS, "speaks TLS but security.protocol is SASL_PLAINTEXT; set"),
    ("PLAINTEXT", "TLS", TLS, "closed the connection during the TLS handshake; listeners without TLS"),
    ("SASL_PLAINTEXT", "SASL_SSL", TLS, "closed the connection during the TLS handshake; listeners without TLS"),
    ("SASL_PLAINTEXT", "PLAINTEXT", ID, "if it requires SASL, set security.protocol=SASL_PLAINTEXT, "),
    ("SASL_SSL", "TLS", ID, "if it requires SASL, set security.protocol=SASL_SSL, "),
    ("PLAINTEXT", "SASL_PLAINTEXT", LOGIN, "has no SASL but security.protocol is SASL_PLAINTEXT; use"),
    ("TLS", "SASL_SSL", LOGIN, "has no SASL but security.protocol is SASL_SSL; use"),
    ("MTLS", "TLS", TLS, "requires a client certificate, but none is configured; give one"),
    ("SASL_SSL", "no truststore", TLS, "is not trusted (self-signed certificate in certificate chain); give the CA"),
    ("SASL_SSL", "AWS_MSK_IAM", LOGIN, "does not offer the SASL mechanism AWS_MSK_IAM; set sasl.mechanism to one of"),
]  # fmt: skip


def failed_step(
    doors: Doors, listener: str, properties: dict[str, str], folder: Path, log: pytest.LogCaptureFixture
) -> tuple[Step | None, str]:
    """Return the first step that fails and its sentence, after a look for secrets in everything that is written."""
    path = folder / "client.properties"
    path.write_text(render_properties(properties))
    server = doors.address(listener)
    with log.at_level(logging.DEBUG):
        checkup = check_cluster(Cluster(name="prod", bootstrap_servers=(server,), command_config=path))
    written = dump_record(checkup) + render_checkup(checkup) + repr(checkup) + log.text
    assert not [secret for secret in doors.secrets if secret in written]
    failed = [step for step in checkup.steps if step.status is StepStatus.FAILED]
    assert checkup.is_healthy is not bool(failed)
    return (failed[0].step, str(failed[0].problem)) if failed else (None, "")


@pytest.mark.parametrize(
    ("listener", "way", "condition", "step", "sentence"),
    [(listener, *row) for row in WAYS for listener in LISTENERS.get(row[0], SASL)],
)
def test_a_way_in(
    doors: Doors,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    listener: str,
    way: str,
    condition: str,
    step: Step | None,
    sentence: str,
) -> None:
    found, said = failed_step(doors, listener, doors.client(listener, way, condition), tmp_path, caplog)
    token, _ = doors.tokens.get(condition, ("", ""))
    endpoint = doors.provider.token_url.removesuffix("/token")
    expected = sentence.format(server=doors.address(listener), token=token, token_endpoint=endpoint)
    assert (found, expected in said) == (step, True), said


@pytest.mark.parametrize(("listener", "made_for", "step", "sentence"), ASTRAY)
def test_a_client_of_another_listener(
    doors: Doors,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
    made_for: str,
    step: Step,
    sentence: str,
) -> None:
    way = {"SASL_PLAINTEXT": "PLAIN", "SASL_SSL": "PLAIN", "no truststore": "PLAIN"}.get(made_for, "none")
    properties = doors.client(listener if made_for in ("no truststore", "AWS_MSK_IAM") else made_for, way)
    if made_for == "no truststore":
        properties = {key: value for key, value in properties.items() if "truststore" not in key}
    if made_for == "AWS_MSK_IAM":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "eu-west-1")
        line = "software.amazon.msk.auth.iam.IAMLoginModule required;"
        properties |= {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": line}
    found, said = failed_step(doors, listener, properties, tmp_path, caplog)
    assert (found, said.startswith((f"{doors.address(listener)} ", "the ")), sentence in said) == (step, True, True), (
        said
    )


LISTENER = "SASL_PLAINTEXT"


def test_one_token_with_extensions_serves_many_connections(opened: Doors) -> None:
    asked = len(opened.provider.requests)
    # A scope of its own: another test of this process may hold a token of the same client.
    given = opened.provider.client_properties(options='extension_traceId="123" scope="many"')
    for _ in range(2):
        with opened.open(given) as gateway:
            assert gateway.describe() == {}
    assert len(opened.provider.requests) == asked + 1


@pytest.mark.parametrize(
    "claims",
    [{"iss": "https://other.example"}, {"aud": "other"}],
    ids=["another issuer", "another audience"],
)
def test_the_broker_says_that_it_does_not_accept_a_token(opened: Doors, tmp_path: Path, claims: dict[str, Any]) -> None:
    file = tmp_path / "token"
    file.write_text(opened.provider.make_token("admin", **claims))
    own = {"sasl.oauthbearer.token.endpoint.url": file.as_uri(), "sasl.oauthbearer.clock.skew.seconds": "3600"}
    assert opened.refusal(opened.provider.client_properties() | own) == (
        f"{opened.address(LISTENER)} did not accept the token of sasl.oauthbearer.token.endpoint.url"
        ' (OAUTHBEARER) and answered "invalid_token"; check issuer, audience and lifetime of its tokens; the log of the'
        " broker says what it does not accept."
    )


def test_a_session_is_renewed_on_its_connection_with_another_token(
    opened: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, clock = len(opened.provider.requests), PatientClock.of_connections(monkeypatch)
    with opened.open(opened.provider.client_properties() | {"sasl.oauthbearer.scope": "renewed"}) as gateway:
        connection = gateway.connection
        assert isinstance(connection, ClusterConnection)
        first = connection.broker
        clock.advance(3500)
        monkeypatch.setattr(token_source, "time", lambda: time() + 3500)
        assert gateway.describe() == {}
        assert connection.broker is first
    assert len(opened.provider.requests) == asked + 2


RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


@pytest.mark.prove
@pytest.mark.parametrize(
    "changes",
    [
        {"sasl.oauthbearer.header.urlencode": "true", "sasl.oauthbearer.scope": "a b+c"},
        {"sasl.jaas.config": f"{MODULE} required;", "sasl.oauthbearer.jwt.retriever.class": RETRIEVER},
        {"sasl.jaas.config": f'{MODULE} required clientId="admin" scope="a b";'},
    ],
    ids=["client credentials", "an assertion as the grant", "an assertion of the client"],
)
def test_the_token_endpoint_is_asked_as_java_asks_it(
    opened: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_bytes(make_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    template.write_text('{"header": {"kid": "k1"}, "payload": {"aud": "of the template", "x": [1]}}')
    if "sasl.jaas.config" in changes:
        claims = {f"claim.{name}": "admin" for name in ("aud", "iss", "sub")}
        given = {"private.key.file": str(key), "template.file": str(template), "claim.nbf.seconds": "9", **claims}
        changes = changes | {f"sasl.oauthbearer.assertion.{name}": value for name, value in given.items()}
    provider, file = opened.provider, tmp_path / "client.properties"
    properties = {"security.protocol": LISTENER, **provider.client_properties(), **changes}
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    provider.requests.clear()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={key},{template}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join([*provider.jvm, allowed]))
    done = kafka_configs(opened.kafka, "--describe", "--entity-type", "users", listener=LISTENER, config=file)
    assert done.returncode == 0, done.stderr
    with opened.open(provider.client_properties() | changes):
        pass
    theirs, ours = map(comparable, provider.requests)
    assert ours == theirs


def comparable(request: dict[str, str]) -> dict[str, Any]:
    """Return a request for a token without what differs from second to second."""
    found: dict[str, Any] = dict(request)
    for name in found.keys() & {"assertion", "client_assertion"}:
        header, claims = (decode(part) for part in found[name].split(".")[:2])
        times = (claims.pop("exp") - claims["iat"], claims.pop("nbf") - claims.pop("iat"))
        found[name] = (header, claims, times)
    return found
