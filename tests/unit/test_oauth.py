"""OAUTHBEARER: how long tokens are used, and what a command and an endpoint are trusted with.

What is sent, and what is said about properties, tokens and answers, is in `tests/golden/logins-oauth.txt`,
and which files they may name in `logins-named.txt`.
"""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.sasl import token_source
from quotaform.cluster.sasl.oauth import Bearer
from quotaform.cluster.wire.failure import LoginError
from quotaform.sandbox.security import Certificates
from quotaform.system.clock import SYSTEM_CLOCK
from tests.http_server import answer
from tests.identity_provider import CLIENTS, MODULE, IdentityProvider, decode, sign

pytestmark = pytest.mark.usefixtures("no_proxy")

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


def test_the_options_of_the_login_module_say_what_is_trusted(certificates: Certificates) -> None:
    with IdentityProvider(tls=(str(certificates.server), str(certificates.server))) as provider:
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{certificates.authority}"'
        assert subject_of(read(provider.client_properties(options=trust))) == "admin"
        # Those outside of them are for the broker, as in Java.
        outside = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
        message = failure(read(provider.client_properties() | outside | QUICK))
        assert "has a certificate that is not trusted" in message
        assert message.endswith("give the CA that issued it with ssl.truststore.location in sasl.jaas.config")


def test_an_option_is_expanded_once(tmp_path: Path, certificates: Certificates) -> None:
    """What a variable held was expanded again, without the allowed.paths of the properties."""
    store = tmp_path / "${dir:x:y}.pem"
    store.write_bytes(certificates.authority.read_bytes())
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
