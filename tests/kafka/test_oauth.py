"""OAUTHBEARER on a broker that validates JWTs with the keys of an identity provider of the test."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quotaform.cluster.client.config_reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl import token_source
from quotaform.cluster.wire import broker_connection
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.errors import AuthenticationError
from quotaform.sandbox import Sandbox
from tests.doors import Doors
from tests.identity_provider import CLIENTS, MODULE, IdentityProvider, decode, make_key

pytestmark = pytest.mark.kafka

LISTENER = "SASL_PLAINTEXT"


class Door:
    """What a test changes, and the way in."""

    def __init__(self, kafka: Sandbox, provider: IdentityProvider) -> None:
        self.kafka = kafka
        self.address = kafka.listeners[LISTENER]
        self.provider = provider

    def open(self, changes: dict[str, str] | None = None, **arguments: Any) -> KafkaGateway:
        properties = self.provider.client_properties(**arguments)
        given = {"security.protocol": LISTENER, **properties, **(changes or {})}
        return KafkaGateway.connect(self.address, from_properties(given, environ={}), name="prod")

    def refusal(self, changes: dict[str, str] | None = None, **arguments: Any) -> str:
        with pytest.raises(AuthenticationError) as caught:
            self.open(changes, **arguments)
        message = str(caught.value)
        assert not any(secret in message for secret in CLIENTS.values())
        assert "ey" not in message  # how a JWT begins
        return message

    def with_token(self, path: Path, token: str) -> dict[str, str]:
        path.write_text(f"{token}\n")
        return {"sasl.oauthbearer.token.endpoint.url": path.as_uri()}


@pytest.fixture
def door(opened: Doors) -> Door:
    return Door(opened.kafka, opened.provider)


def test_client_credentials_lead_in_and_one_token_serves_many_connections(door: Door) -> None:
    asked = len(door.provider.requests)
    for _ in range(2):
        with door.open({"sasl.oauthbearer.scope": "many"}) as gateway:
            assert gateway.describe() == {}
    assert len(door.provider.requests) == asked + 1


@pytest.mark.parametrize(
    "claims",
    [{"iss": "https://other.example"}, {"aud": "other"}],
    ids=["another issuer", "another audience"],
)
def test_the_broker_says_that_it_does_not_accept_a_token(door: Door, tmp_path: Path, claims: dict[str, Any]) -> None:
    changes = door.with_token(tmp_path / "token", door.provider.make_token("admin", **claims))
    message = door.refusal(changes | {"sasl.oauthbearer.clock.skew.seconds": "3600"})
    assert message == (
        f"Cannot connect to prod: {door.address} did not accept the token of sasl.oauthbearer.token.endpoint.url"
        ' (OAUTHBEARER) and answered "invalid_token"; check issuer, audience and lifetime of its tokens; the log of the'
        " broker says what it does not accept."
    )


def test_a_refused_token_is_not_used_again(door: Door) -> None:
    door.provider.claims = {"aud": "other"}
    try:
        # A scope makes it another client for the process, which keeps the tokens of each.
        door.refusal({"sasl.oauthbearer.scope": "kafka"})
    finally:
        door.provider.claims = {}
    with door.open({"sasl.oauthbearer.scope": "kafka"}) as gateway:
        assert gateway.describe() == {}


def test_a_session_is_renewed_on_its_connection_with_another_token(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = len(door.provider.requests)
    with door.open({"sasl.oauthbearer.scope": "renewed"}) as gateway:
        connection = gateway.connection
        assert isinstance(connection, ClusterConnection)
        first = connection.broker
        monkeypatch.setattr(broker_connection, "monotonic", lambda: monotonic() + 3500)
        monkeypatch.setattr(token_source, "time", lambda: time() + 3500)
        assert gateway.describe() == {}
        assert connection.broker is first
    assert len(door.provider.requests) == asked + 2


def test_extensions_are_accepted(door: Door) -> None:
    with door.open(options='extension_traceId="123"') as gateway:
        assert gateway.describe() == {}


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
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_bytes(make_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    template.write_text('{"header": {"kid": "k1"}, "payload": {"aud": "of the template", "x": [1]}}')
    if "sasl.jaas.config" in changes:
        claims = {f"claim.{name}": "admin" for name in ("aud", "iss", "sub")}
        given = {"private.key.file": str(key), "template.file": str(template), "claim.nbf.seconds": "9", **claims}
        changes = changes | {f"sasl.oauthbearer.assertion.{name}": value for name, value in given.items()}
    provider, file = door.provider, tmp_path / "client.properties"
    properties = {"security.protocol": LISTENER, **provider.client_properties(), **changes}
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    provider.requests.clear()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={key},{template}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join([*provider.jvm, allowed]))
    arguments = ("--bootstrap-server", door.address, "--command-config", str(file))
    done = door.kafka.run_tool("kafka.admin.ConfigCommand", *arguments, "--describe", "--entity-type", "users")
    assert done.returncode == 0, done.stderr
    with door.open(changes):
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
