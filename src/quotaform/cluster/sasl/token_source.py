"""Where OAuth tokens come from, and how long they are used.

As in Kafka's Java client (KIP-768, KIP-1139; `org.apache.kafka.common.security.oauthbearer`), except for the command.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from re import ASCII
from re import compile as regex
from time import time
from typing import Any, Final, NamedTuple
from uuid import uuid4

from msgspec import Struct

from quotaform.cluster.client.tls import Tls
from quotaform.cluster.wire.failure import LoginError
from quotaform.http.client import HttpRequest, Response, Transport, Url, form_value
from quotaform.model.errors import FileReadError, HttpError, missing_extra
from quotaform.model.text import MIB, Secret, inert
from quotaform.model.variable import OwnSecret
from quotaform.system.clock import SYSTEM_CLOCK
from quotaform.system.files import LEADS_OUT, read_text

_LONGEST_MESSAGE: Final = 200
_PIECE: Final = 8  # characters of a secret that are too many to be shown
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_COMMAND_SECONDS: Final = 30.0
_TOKEN: Final = regex(r"[\w-]+\.[\w-]+\.[\w-]*", ASCII).fullmatch
_JWT: Final = regex(r"\bey[\w-]{8,}[\w.-]*")  # what looks like a token, or the beginning of one; found in linear time
ALGORITHMS: Final = ("RS256", "ES256")
"""Those of Kafka's client."""


class SecretFile(Struct, frozen=True):
    """A file with a token or a key, which others may replace at any time.

    It lies `within` a folder, wherever links lead to, if a repository names it. Messages have only the key of the
    property that names it, as the path may come from a variable.
    """

    key: str
    path: Path
    within: Path | None

    @property
    def what(self) -> str:
        return f"the file of {self.key}"

    def fetch(self) -> str:
        """Return its text as it is now, without white space around it."""
        try:
            return read_text(self.path, MIB, within=self.within).strip()
        except FileReadError as error:
            if error.reason == LEADS_OUT:
                remedy = f"keep them elsewhere, or give a command in {OwnSecret.TOKEN_COMMAND}"
                raise LoginError(f"{self.what} is outside of the repository of these properties", remedy) from None
            raise LoginError(f"{self.what} cannot be read: {error.reason}", "correct the path, or the file") from None


class Assertion(Struct, frozen=True, kw_only=True):
    """A JWT with which a client shows who it is (RFC 7523, KIP-1139, KIP-1258); made and signed for each request.

    It expires after `lifetime` seconds, is valid from `leeway` seconds before now, and may have an id (`jti`). The
    template is a JSON object with more of `header` and `payload`, and wins over the claims.
    """

    algorithm: str
    key: SecretFile
    passphrase: Secret | None
    claims: tuple[tuple[str, str], ...]
    template: SecretFile | None
    lifetime: int
    leeway: int
    has_id: bool

    def fetch(self) -> str:
        now = int(time())
        template = self.template.fetch() if self.template else "{}"
        try:
            given = json.loads(template)
            header = {**given.get("header", {}), "alg": self.algorithm, "typ": "JWT"}
            payload = {**dict(self.claims), **given.get("payload", {}), "iat": now, "exp": now + self.lifetime}
        except (ValueError, RecursionError, AttributeError, TypeError):
            remedy = 'write {"header": {...}, "payload": {...}}'
            raise LoginError("sasl.oauthbearer.assertion.template.file cannot be used", remedy) from None
        payload |= {"nbf": now - self.leeway, **({"jti": str(uuid4())} if self.has_id else {})}
        content = f"{_encode(header)}.{_encode(payload)}"
        return f"{content}.{_base64(self._sign(content.encode()))}"

    def _sign(self, content: bytes) -> bytes:
        name = "sasl.oauthbearer.assertion.private.key"
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise LoginError(f"{name}.file needs cryptography", missing_extra("oauth")) from None
        try:
            password = self.passphrase.reveal().encode() if self.passphrase else None
            key = load_pem_private_key(self.key.fetch().encode(), password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            remedy = f"write the key in PEM (PKCS#8), and check {name}.passphrase"
            raise LoginError(f"{name}.file cannot be used", remedy) from None
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(content, padding.PKCS1v15(), SHA256())
        if self.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 256:
            numbers = utils.decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
            return b"".join(number.to_bytes(32, "big") for number in numbers)
        remedy = "sasl.oauthbearer.assertion.algorithm is RS256 for RSA, ES256 for the curve P-256"
        raise LoginError(f"the key of {name}.file does not fit {self.algorithm}", remedy)


class Endpoint(Struct, frozen=True, kw_only=True):
    """A token endpoint (RFC 6749, section 4.4; RFC 7523): https, or this machine."""

    url: Url
    what: str
    form: tuple[tuple[str, str], ...]
    login: Secret | None
    secrets: tuple[Secret, ...]  # what is not shown when the endpoint repeats it
    assertion: tuple[str, Assertion | SecretFile] | None  # the field for an assertion, and what makes one
    tls: Tls
    connect: float  # seconds to connect
    total: float  # seconds for one attempt
    backoff: float  # seconds after the first failure
    patience: float  # seconds after which nothing is sent again, as in Java's client

    def fetch(self) -> str:
        """Ask for a token, again while that may help."""
        form, secrets = list(self.form), [secret.reveal() for secret in self.secrets]
        if self.assertion is not None:
            form.append((self.assertion[0], self.assertion[1].fetch()))
            secrets.append(form[-1][1])
        request = HttpRequest(
            method="POST",
            url=self.url,
            headers={"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
            credentials={"Authorization": self.login} if self.login else {},
            body="&".join(f"{name}={form_value(value)}" for name, value in form).encode(),
            is_repeatable=True,  # a second token does no harm
        )
        transport = Transport(
            connect=self.connect,
            total=self.total,
            context=self.tls.context() if self.url.scheme == "https" else None,
            attempts=100,
            first_wait=self.backoff,
            patience=self.patience,
            limited_wait=0.0,
            clock=SYSTEM_CLOCK,
        )
        try:
            response = transport.send(request)
            if not response.is_success:
                raise self._refused(response, secrets)
            answer = response.json()
        except HttpError as error:
            problem, _, remedy = error.problem.rpartition("; ")
            if remedy.startswith("give the CA"):
                remedy += " with ssl.truststore.location in sasl.jaas.config"
            raise LoginError(
                f"{self.what} {problem or remedy}",
                remedy if problem else "check sasl.oauthbearer.token.endpoint.url, or try again later",
            ) from None
        token = answer.get("access_token") or answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise LoginError(f"{self.what} gave no access_token", "check sasl.oauthbearer.token.endpoint.url")
        return token

    def _refused(self, response: Response, secrets: list[str]) -> LoginError:
        try:
            content = response.json()
        except HttpError:  # Such as an HTML page.
            content = None
        content = content if isinstance(content, dict) else {}
        error, more = content.get("error") or content.get("errorCode"), content.get("error_description")
        words = [error, more or content.get("errorSummary")]
        text = ": ".join(word for word in words if isinstance(word, str))
        said = inert(mask(text, secrets)[:_LONGEST_MESSAGE].strip())
        why = f"status {response.status}{f', {said}' if said else ''}"
        if response.status == 429 or response.status >= 500:
            return LoginError(f"{self.what} failed ({why})", "try again later")
        if response.status in (404, 405):
            return LoginError(f"{self.what} refused to give a token ({why})", f"check the path of {_URL}")
        check = "the assertion and its key" if self.assertion else "client id and client secret"
        return LoginError(f"{self.what} refused to give a token ({why})", f"check {check}, and the scope")


class TokenCommand(Struct, frozen=True):
    """A command of the operator that prints a token, started without a shell.

    What it says on its standard error is for the operator's eyes, and in no message: it may hold a secret.
    """

    argv: tuple[Secret, ...]
    what = f"the command of {OwnSecret.TOKEN_COMMAND}"

    def fetch(self) -> str:
        """Run it and return what it prints."""
        argv, remedy = [each.reveal() for each in self.argv], f"run it by hand, and correct {OwnSecret.TOKEN_COMMAND}"
        try:
            done = subprocess.run(  # noqa: S603 (the operator's own)
                argv,
                cwd="/",  # The current directory may be a checkout, whose modules python -m would run.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LoginError(f"{self.what} did not end within {_COMMAND_SECONDS:g} s", remedy) from None
        except (OSError, ValueError):
            raise LoginError(f"{self.what} cannot be run", remedy) from None
        if done.returncode:
            raise LoginError(f"{self.what} failed (exit code {done.returncode})", remedy)
        return done.stdout.decode(errors="replace").strip()


class Unsecured(Struct, frozen=True):
    """Tokens without a signature, for brokers under development; they prove nothing (KIP-255)."""

    claims: tuple[tuple[str, str], ...]
    lifetime: int
    what = "sasl.jaas.config"

    def fetch(self) -> str:
        now = time()
        return f"{_encode({'alg': 'none'})}.{_encode({'exp': now + self.lifetime, 'iat': now, **dict(self.claims)})}."


TokenSource = Endpoint | TokenCommand | Unsecured | SecretFile
"""Each has `fetch`, which returns a token or raises `LoginError`, and `what` messages call it."""


class _CachedToken(NamedTuple):
    token: Secret
    renew_at: float
    expires: float


_kept: Final[dict[TokenSource, _CachedToken]] = {}
"""Tokens of this process that cost a request or the start of a command."""


def get_token(source: TokenSource, *, subject: str, skew: float, window: float) -> Secret:
    """Return a token that is valid for a while, the same as before if it is; `Bearer` has the rules."""
    now, kept = time(), _kept.get(source)
    if kept is not None and now < kept.renew_at:
        return kept.token
    try:
        text = source.fetch()
        expires = _check(text, subject, now - skew)
    except LoginError:
        if kept is not None and now < kept.expires:
            return kept.token
        raise
    except ValueError as error:
        problem = f"{source.what} gave a token that cannot be used: {error}"
        raise LoginError(
            problem,
            "check what issues it, and the clock of this machine"
            if "expired" in str(error)
            else "check what issues it",
        ) from None
    token = Secret(text)
    if isinstance(source, (Endpoint, TokenCommand)):
        _kept[source] = _CachedToken(token, now + window * (expires - now), expires)
    return token


def forget_token(source: TokenSource) -> None:
    """Use no longer what a broker does not accept."""
    _kept.pop(source, None)


def _check(text: str, subject: str, now: float) -> float:
    """Return when a token expires, in seconds since 1970; what Java's client checks is checked (`ClientJwtValidator`).

    Raises `ValueError` if it cannot be used; the message holds nothing of it.
    """
    if not text:
        raise ValueError("it is empty")
    if not _TOKEN(text):
        raise ValueError("it is not a JWT, which has three parts")
    try:
        payload = json.loads(b64decode(text.split(".")[1] + "==", altchars=b"-_"))
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ValueError("the claims of the JWT cannot be read")
    name, expires = payload.get(subject), payload.get("exp")
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"it has no claim {inert(subject)} (sasl.oauthbearer.sub.claim.name)")
    if not isinstance(expires, (int, float)) or not 0 <= expires < 1e11:
        raise ValueError("it has no claim exp with the time when it expires")
    if expires < now:
        raise ValueError(f"it expired at {datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M:%S} UTC")
    return float(expires)


def _encode(part: dict[str, Any]) -> str:
    """Return a part of a JWT as text (RFC 7515)."""
    return _base64(json.dumps(part).encode())


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return what others say without secrets, longer pieces of them, and what looks like a token."""
    pieces = set[str]()
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
        pieces.update(secret[at : at + _PIECE] for at in range(len(secret) - _PIECE + 1))
    shown, end = list[str](), 0
    for at, char in enumerate(text):
        is_piece = text[at : at + _PIECE] in pieces
        if at >= end:
            shown.append("***" if is_piece else char)
        if is_piece:
            end = at + _PIECE
    return _JWT.sub("***", "".join(shown))
