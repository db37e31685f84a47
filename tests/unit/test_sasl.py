"""The tokens of SASL mechanisms, against the vectors of their standards."""

from __future__ import annotations

import pickle
from base64 import b64encode

import pytest

from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.sasl.password import Password, scram
from quotaform.cluster.wire.failure import UnprovenError
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.text import Secret

PENCIL = Secret("pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
BOTH = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
"""The exchange of RFC 7677, section 3."""


def ended(exchange: Exchange, answer: bytes) -> bool:
    """Whether an exchange is satisfied with an answer."""
    try:
        exchange.send(answer)
    except StopIteration:
        return True
    return False


def test_scram_is_that_of_the_standard() -> None:
    exchange = scram("SCRAM-SHA-256", "user", PENCIL, nonce=NONCE)
    assert next(exchange) == f"n,,n=user,r={NONCE}".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.send(CHALLENGE) == f"c=biws,r={BOTH},p={proof}".encode()
    assert ended(exchange, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("answer", [b"v=" + b64encode(bytes(32)), b"e=invalid-proof", b"", b"v=!!!"])
def test_a_server_that_does_not_know_the_password_is_not_believed(answer: bytes) -> None:
    exchange = scram("SCRAM-SHA-256", "user", PENCIL, nonce=NONCE)
    next(exchange)
    exchange.send(CHALLENGE)
    with pytest.raises((UnprovenError, KeyError, ValueError)):
        exchange.send(answer)


@pytest.mark.parametrize("iterations", ["0", "-1", "4095", "1000001", "9" * 5000, "4096x", "٤٠٩٦"])
def test_a_server_cannot_ask_for_any_number_of_iterations(iterations: str) -> None:
    exchange = scram("SCRAM-SHA-256", "user", PENCIL, nonce=NONCE)
    next(exchange)
    with pytest.raises(MalformedError, match="SCRAM iterations"):
        exchange.send(f"r={BOTH},s=QUJD,i={iterations}".encode())


def test_a_nonce_of_somebody_else_is_not_believed() -> None:
    exchange = scram("SCRAM-SHA-256", "user", PENCIL, nonce=NONCE)
    next(exchange)
    with pytest.raises(UnprovenError):
        exchange.send(CHALLENGE.replace(b"rOpr", b"ROPR"))


def test_names_are_spelled_as_the_standard_says() -> None:
    assert next(scram("SCRAM-SHA-512", "CN=a,O=b", PENCIL, nonce="x")) == b"n,,n=CN=3Da=2CO=3Db,r=x"


def test_a_delegation_token_says_that_it_is_one() -> None:
    line = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="id" password="h" tokenauth="true";'
    )
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": line}
    credentials = from_properties(properties, environ={}).credentials
    assert isinstance(credentials, Password)
    assert next(credentials.exchange("b1")).endswith(b",tokenauth=true")
    assert credentials.who == "delegation token id"
    assert credentials.java_properties()["sasl.jaas.config"] == line


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("password", ["p", 'q"\\', "a\tb\nc", "é,=;"])
def test_a_java_client_would_log_in_in_the_same_way(mechanism: str, password: str) -> None:
    credentials = Password(mechanism=mechanism, username="CN=a,O=b", password=Secret(password))
    read = from_properties({"security.protocol": "SASL_SSL", **credentials.java_properties()}, environ={})
    assert read.credentials == credentials == pickle.loads(pickle.dumps(credentials))  # noqa: S301 (our own)
