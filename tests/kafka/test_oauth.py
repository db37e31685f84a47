"""OAUTHBEARER on a broker that validates JWTs with the keys of an identity provider of the test."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import Any

import pytest

from quotaform.cluster.client.config_reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.errors import AuthenticationError
from quotaform.sandbox import Sandbox
from tests.doors import Doors
from tests.identity_provider import CLIENTS, IdentityProvider

pytestmark = pytest.mark.kafka

LISTENER = "SASL_PLAINTEXT"


class Door:
    """What a test changes, and the way in."""

    def __init__(self, kafka: Sandbox, provider: IdentityProvider) -> None:
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


def test_a_session_is_renewed_on_its_connection_with_another_token(door: Door) -> None:
    door.provider.lifetime = 3
    asked = len(door.provider.requests)
    try:
        with door.open({"sasl.oauthbearer.scope": "short"}) as gateway:
            connection = gateway.connection
            assert isinstance(connection, ClusterConnection)
            first = connection.broker
            sleep(2.7)
            assert gateway.describe() == {}
            assert connection.broker is first
    finally:
        door.provider.lifetime = 3600
    assert len(door.provider.requests) == asked + 2


def test_extensions_are_accepted(door: Door) -> None:
    with door.open(options='extension_traceId="123"') as gateway:
        assert gateway.describe() == {}
