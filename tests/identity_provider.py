"""An OAuth identity provider on loopback: a token endpoint, signing keys, and the properties of broker and clients."""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from time import time
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from tests.http_server import HttpServer, Received, answer

CLIENTS = {"admin": "admin-idp-secret", "tenant": "tenant-idp-secret"}
"""Client ids and secrets; a client is the subject of its tokens, and `admin` a super user of a secured sandbox."""
ISSUER = "https://idp.example"
AUDIENCE = "kafka"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@cache
def make_key() -> RSAPrivateKey:
    """Return the key of this process: making one takes a while."""
    return generate_private_key(public_exponent=65537, key_size=2048)


def encode(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def decode(part: str) -> Any:
    return json.loads(b64decode(part + "==", altchars=b"-_"))


def sign(claims: dict[str, Any], key: RSAPrivateKey | None = None) -> str:
    header = {"alg": "RS256", "kid": "test", "typ": "JWT"}
    content = f"{encode(json.dumps(header).encode())}.{encode(json.dumps(claims).encode())}"
    return f"{content}.{encode((key or make_key()).sign(content.encode(), PKCS1v15(), SHA256()))}"


@dataclass
class IdentityProvider:
    """A token endpoint that knows `CLIENTS`, and the keys that a broker checks its tokens with."""

    lifetime: float = 3600  # seconds that tokens are valid
    # Gives the answers of the token endpoint instead; `None` for one leaves it to the endpoint
    reply: Callable[[Received], bytes | None] = lambda _: None
    # The fields of all requests for tokens, and the header `authorization`
    requests: list[dict[str, str]] = field(default_factory=list)
    tls: tuple[str, str] | None = None  # a certificate and its key in one file, for https

    def __enter__(self) -> Self:
        self._server = HttpServer(self._answer, tls=self.tls).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    @property
    def token_url(self) -> str:
        return f"{self._server.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self._server.url}/keys"

    @property
    def jvm(self) -> tuple[str, ...]:
        """Options of a JVM that may ask for them."""
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.token_url},{self.jwks_url}",)

    def broker_properties(self, listener: str, *others: str) -> dict[str, str]:
        """Return the properties of a broker that takes the tokens on a listener of a secured sandbox.

        `listener`: such as SASL_PLAINTEXT. `others`: the other mechanisms of the listener, beside those of the sandbox.
        """
        prefix = f"listener.name.{listener.lower()}"
        mechanisms = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", *others, "OAUTHBEARER")
        return {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(dict.fromkeys(mechanisms)),
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.jwks_url,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "0",
        }

    def client_properties(self, client: str = "admin", secret: str | None = None, options: str = "") -> dict[str, str]:
        """Return the `sasl.*` properties of a client.

        `client`: its id. `secret`: its secret, if not that of `CLIENTS`. `options`: more options of the login module,
        such as `extension_name="value"`.
        """
        given = secret or CLIENTS[client]
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": HANDLER,
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.jaas.config": f'{MODULE} required clientId="{client}" clientSecret="{given}" {options};',
        }

    def make_token(self, subject: str, lifetime: float | None = None, **claims: Any) -> str:
        """Return a token for a subject; it expires after so many seconds, in the past if they are negative."""
        now = time()
        expires = now + (self.lifetime if lifetime is None else lifetime)
        content = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": min(now, expires) - 1, "exp": expires}
        return sign(content | claims)

    def _answer(self, request: Received) -> bytes:
        if request.target == "/keys":
            numbers = make_key().public_key().public_numbers()
            parts = {
                name: encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))
                for name, value in (("n", numbers.n), ("e", numbers.e))
            }
            return answer(200, {"keys": [{"kty": "RSA", "kid": "test", "use": "sig", "alg": "RS256", **parts}]})
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.requests.append(form | {"authorization": request.headers.get("authorization", "")})
        if (canned := self.reply(request)) is not None:
            return canned
        client = self._client(request, form)
        if client is None:
            return answer(401, {"error": "invalid_client", "error_description": "Client authentication failed"})
        token = self.make_token(client)
        return answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime})

    def _client(self, request: Received, form: dict[str, str]) -> str | None:
        """Return the client that a request is from, or the subject of its assertion, signed with `make_key`."""
        assertion = form.get("assertion") or form.get("client_assertion")
        if assertion is not None:
            content, _, signature = assertion.rpartition(".")
            make_key().public_key().verify(
                b64decode(signature + "==", altchars=b"-_"), content.encode(), PKCS1v15(), SHA256()
            )
            return str(decode(content.partition(".")[2])["sub"])
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        client, _, secret = b64decode(credentials).decode().partition(":")
        return client if scheme == "Basic" and CLIENTS.get(client) == secret else None
