"""OAUTHBEARER on a broker that validates JWTs with the keys of an identity provider of the test."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quotaform.cluster.sasl import token_source
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from tests.doors import Doors
from tests.identity_provider import MODULE, decode, make_key
from tests.waiting import PatientClock

pytestmark = pytest.mark.kafka

LISTENER = "SASL_PLAINTEXT"


def file_of(path: Path, token: str) -> dict[str, str]:
    path.write_text(f"{token}\n")
    return {"sasl.oauthbearer.token.endpoint.url": path.as_uri()}


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
    changes = file_of(tmp_path / "token", opened.provider.make_token("admin", **claims))
    skew = {"sasl.oauthbearer.clock.skew.seconds": "3600"}
    assert opened.refusal(opened.provider.client_properties() | changes | skew) == (
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
    arguments = ("--bootstrap-server", opened.kafka.listeners[LISTENER], "--command-config", str(file))
    done = opened.kafka.run_tool("kafka.admin.ConfigCommand", *arguments, "--describe", "--entity-type", "users")
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
