"""SASL: messages against the vectors of their standards, signatures of AWS_MSK_IAM, and the tokens of OAUTHBEARER.

What is sent, and what is said about properties, keys, tokens and answers, is in `tests/golden/logins-*.txt`.
"""

from __future__ import annotations

import json
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from time import time
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.credentials import ReadOnlyCredentials
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quotaform.cluster.client.config import ClientConfig, Exchange
from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl import token_source
from quotaform.cluster.sasl.msk_iam import MECHANISM, MskIam, payload
from quotaform.cluster.sasl.oauth import Bearer
from quotaform.cluster.sasl.password import Password, scram
from quotaform.cluster.wire.failure import LoginError
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.errors import AuthenticationError
from quotaform.model.text import Secret
from quotaform.system.clock import SYSTEM_CLOCK
from tests.fake_broker import Asked, FakeBroker, serving
from tests.http_server import answer
from tests.identity_provider import CLIENTS, MODULE, IdentityProvider, decode, sign

pytestmark = pytest.mark.usefixtures("no_proxy")

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
    with pytest.raises((KeyError, ValueError)):
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
    with pytest.raises(ValueError, match="nonce"):
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


BROKER: Final = "b-1.demo-cluster-1.abc.c2.kafka.eu-west-1.amazonaws.com"
SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "c4nary/Session+Token=="


def signed(host: str, moment: str, token: str | None) -> dict[str, str]:
    """Return what kafka-python sends to a broker."""
    from kafka.net.sasl.msk import AwsMskIamClient

    theirs = AwsMskIamClient(host, "AKIDEXAMPLE", SECRET, "eu-west-1", token)
    theirs.datestamp, theirs.timestamp = moment[:8], moment
    return json.loads(theirs.first_message())  # type: ignore[no-any-return]


@pytest.mark.parametrize("token", [None, "", TOKEN])
def test_the_message_is_that_of_kafka_python(token: str | None) -> None:
    message = json.loads(payload(ReadOnlyCredentials("AKIDEXAMPLE", SECRET, token), host=BROKER, region="eu-west-1"))
    assert message.pop("user-agent").startswith("quotaform/")
    assert message | {"user-agent": "kafka-python"} == signed(BROKER, message["x-amz-date"], token or None)


class Msk(FakeBroker):
    """A broker that lets in who signs with the key above."""

    def _answer_17(self, asked: Asked) -> dict[str, Any]:
        return {"error_code": 0 if asked.fields.mechanism == MECHANISM else 33, "mechanisms": [MECHANISM]}

    def _answer_36(self, asked: Asked) -> dict[str, Any]:
        sent = json.loads(asked.fields.auth_bytes)
        is_right = sent | {"user-agent": "kafka-python"} == signed("127.0.0.1", sent["x-amz-date"], TOKEN)
        said = {"error_code": 0 if is_right else 58, "auth_bytes": b'{"version": "2020_10_22", "request-id": "x"}'}
        return super()._answer_36(asked) | said


@pytest.mark.parametrize("secret", [SECRET, "another"])
def test_a_broker_checks_the_signature(certificates: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    key = {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": secret, "SESSION_TOKEN": TOKEN, "REGION": "eu-west-1"}
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in key.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    tls = Tls(ca=(certificates / "ca.pem").read_text())
    config = ClientConfig(security_protocol="SASL_SSL", credentials=MskIam(), tls=tls)
    with serving(Msk(tls=context)) as broker:
        if secret == SECRET:
            KafkaGateway.connect(broker.address, config).close()
            return
        with pytest.raises(AuthenticationError) as caught:
            KafkaGateway.connect(broker.address, config)
    assert str(caught.value).partition(": ")[2] == (
        f"{broker.address} did not accept the AWS credentials of this process (AWS_MSK_IAM); check that the policy"
        " allows kafka-cluster:Connect, that the credentials have not expired, and the clock of this machine."
    )


JAAS, URL = "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"
ASSERTION = "sasl.oauthbearer.assertion."
QUICK = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "200"}
GIVEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", JAAS: f"{MODULE} required;"}


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def read(properties: Mapping[str, str], **environ: str) -> Bearer:
    credentials = from_properties({**GIVEN, **properties}, environ=environ).credentials
    assert isinstance(credentials, Bearer)
    return credentials


def token_of(credentials: Bearer) -> str:
    return next(credentials.exchange("b1")).decode().split("\1")[1].removeprefix("auth=Bearer ")


def subject_of(credentials: Bearer) -> Any:
    return decode(token_of(credentials).split(".")[1])["sub"]


def failure(credentials: Bearer) -> str:
    """Return why there is no token, and check that it shows no secret."""
    with pytest.raises(LoginError) as caught:
        next(credentials.exchange("b1"))
    said = f"{caught.value.problem}; {caught.value.remedy}"
    shown = f"{said} {vars(caught.value)} {caught.value.__cause__!r}"
    assert not any(secret in shown for secret in (*CLIENTS.values(), "eyJ", "hunter2"))
    return said


def test_a_token_is_used_until_it_is_old_and_longer_while_there_is_no_other(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials, begun = read(provider.client_properties() | QUICK), time()

    def token_after(seconds: float) -> str:
        monkeypatch.setattr(token_source, "time", lambda: begun + seconds)
        return token_of(credentials)

    first = token_of(credentials)
    assert token_after(2870) == first
    assert len(provider.requests) == 1
    token_after(2890)
    assert len(provider.requests) == 2
    provider.reply = lambda _: answer(503)
    assert token_after(3500)
    monkeypatch.setattr(token_source, "time", lambda: begun + 6600)
    assert "status 503" in failure(credentials)


@pytest.mark.parametrize(("given", "seconds"), [(None, 10), ("2500", 2.5), ("2147483647", 60)])
def test_a_token_is_asked_for_a_limited_time(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, given: str | None, seconds: float
) -> None:
    """Properties of a repository could keep a job waiting for weeks."""
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append, monotonic=lambda: sum(waits), now=SYSTEM_CLOCK.now)
    monkeypatch.setattr(token_source, "SYSTEM_CLOCK", clock)
    provider.reply = lambda _: answer(500)
    longest = {"sasl.login.retry.backoff.max.ms": given} if given else {}
    message = failure(read(provider.client_properties() | longest))
    assert message.endswith("failed (status 500); try again later")
    assert seconds / 4 < sum(waits) < seconds
    assert len(provider.requests) == len(waits) + 1


def test_an_endpoint_that_limits_requests_and_says_no_time_is_asked_again_soon(provider: IdentityProvider) -> None:
    """It was waited for as GitHub asks for: longer than a token is asked for at all."""
    limited = iter([answer(429)])
    provider.reply = lambda _: next(limited, None)
    assert subject_of(read(provider.client_properties() | QUICK)) == "admin"


def test_the_options_of_the_login_module_say_what_is_trusted(certificates: Path) -> None:
    with IdentityProvider(tls=(str(certificates / "server.pem"), str(certificates / "server.pem"))) as provider:
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{certificates}/ca.pem"'
        assert subject_of(read(provider.client_properties(options=trust))) == "admin"
        # Those outside of them are for the broker, as in Java.
        outside = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates / "ca.pem")}
        message = failure(read(provider.client_properties() | outside | QUICK))
        assert "has a certificate that is not trusted" in message
        assert message.endswith("give the CA that issued it with ssl.truststore.location in sasl.jaas.config")


def test_an_option_is_expanded_once(tmp_path: Path, certificates: Path) -> None:
    """What a variable held was expanded again, without the allowed.paths of the properties."""
    store = tmp_path / "${dir:x:y}.pem"
    store.write_bytes((certificates / "ca.pem").read_bytes())
    trust = 'ssl.truststore.type="PEM" ssl.truststore.location="${env:QUOTAFORM_X}"'
    login = f'{MODULE} required clientId="a" clientSecret="b" {trust};'
    given = {URL: "https://idp.example/", JAAS: login}
    credentials = read(given, QUOTAFORM_X=str(store), QUOTAFORM_ENV="QUOTAFORM_X")
    assert isinstance(credentials.source, token_source.Endpoint)
    assert credentials.source.tls.ca is not None


def test_it_runs_no_module_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`python3 -m idp_token` ran a module of that name in the checkout."""
    (tmp_path / "idp_token.py").write_text(f"print({sign({'sub': 'a', 'exp': time() + 60})!r})")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = f"'{sys.executable}' -m idp_token"
    assert "failed (exit code 1)" in failure(read({}, QUOTAFORM_TOKEN_COMMAND=command))
    assert "No module named" in capfd.readouterr().err


def test_es256_signs_with_two_numbers(provider: IdentityProvider, tmp_path: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key = tmp_path / "key.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assertion = {"private.key.file": str(key), "claim.iss": "a", "claim.sub": "a", "claim.aud": "b"}
    given = {f"{ASSERTION}{name}": value for name, value in (assertion | {"algorithm": "ES256"}).items()}
    credentials = read({URL: provider.token_url, **given})
    provider.reply = lambda _: answer(400, {"error": "invalid_grant"})
    assert "invalid_grant" in failure(credentials)
    content, _, signature = provider.requests[0]["client_assertion"].rpartition(".")
    raw = b64decode(signature + "==", altchars=b"-_")
    numbers = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    private.public_key().verify(utils.encode_dss_signature(*numbers), content.encode(), ec.ECDSA(SHA256()))


def test_an_empty_answer_is_consent(provider: IdentityProvider) -> None:
    exchange = read(provider.client_properties()).exchange("b1")
    next(exchange)
    with pytest.raises(StopIteration):
        exchange.send(b"")
