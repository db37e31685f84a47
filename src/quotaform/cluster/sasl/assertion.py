"""Assertions: the JWTs with which a client shows a token endpoint who it is (RFC 7523, KIP-1139, KIP-1258)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Final
from uuid import uuid4

from quotaform.cluster.wire.failure import LoginError
from quotaform.errors import FileReadError, missing_extra
from quotaform.files import MIB, read_text
from quotaform.model.secret import Secret

ALGORITHMS: Final = ("RS256", "ES256")
"""Those of Kafka's client."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A file with a token or a key, which others may replace at any time.

    Attributes:
        key: The property that names it; messages have no more, as a path may come from a variable.
        path: Where it is.
        within: The folder that it lies in, wherever links lead to, if a repository names it.
    """

    key: str
    path: Path
    within: Path | None

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"the file of {self.key}"

    def fetch(self) -> str:
        """Return its text as it is now, without white space around it.

        Raises:
            LoginError: It cannot be read.
        """
        try:
            return read_text(self.path, MIB, within=self.within).strip()
        except FileReadError as error:
            raise LoginError(
                f"{self.key} names a file that cannot be read ({error.reason})", f"correct {self.key}, or the file"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A JWT that is made and signed for each request.

    Attributes:
        algorithm: One of `ALGORITHMS`.
        key: The private key in PEM (PKCS#8).
        passphrase: Its passphrase, if it is encrypted.
        claims: aud, iss and sub.
        template: A JSON object with more of `header` and `payload`; it wins over `claims`.
        lifetime: Seconds until it expires.
        leeway: Seconds before now from which it is valid.
        has_id: Whether it has an id (`jti`) of its own.
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
        """Return a new one.

        Raises:
            LoginError: The extra, the key or the template cannot be used.
        """
        now = int(time())
        given = self.template_parts()
        payload = {**dict(self.claims), **given["payload"], "iat": now, "exp": now + self.lifetime}
        payload["nbf"] = now - self.leeway
        if self.has_id:
            payload["jti"] = str(uuid4())
        header = {**given["header"], "alg": self.algorithm, "typ": "JWT"}
        content = ".".join(encode(json.dumps(part).encode()) for part in (header, payload))
        return f"{content}.{encode(self._sign(content.encode()))}"

    def template_parts(self) -> dict[str, dict[str, Any]]:
        """Return `header` and `payload` of the template.

        Raises:
            LoginError: It cannot be used.
        """
        if self.template is None:
            return {"header": {}, "payload": {}}
        try:
            content = json.loads(self.template.fetch())
            parts = {name: content.get(name, {}) for name in ("header", "payload")}
        except (ValueError, RecursionError, AttributeError):
            parts = {"header": None}
        if not all(isinstance(part, dict) for part in parts.values()):
            raise LoginError(
                f"the template of {self.template.key} cannot be used", 'write {"header": {...}, "payload": {...}}'
            )
        return parts

    def _sign(self, content: bytes) -> bytes:
        key = "sasl.oauthbearer.assertion.private.key"
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            problem, _, remedy = missing_extra("oauth").partition("; ")
            raise LoginError(f"{key}.file cannot be used: {problem}", remedy) from None
        password = self.passphrase.reveal().encode() if self.passphrase else None
        try:
            private = load_pem_private_key(self.key.fetch().encode(), password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise LoginError(
                f"the private key of {key}.file cannot be read", f"write it in PEM (PKCS#8), and check {key}.passphrase"
            ) from None
        if self.algorithm == "RS256" and isinstance(private, rsa.RSAPrivateKey):
            return private.sign(content, padding.PKCS1v15(), SHA256())
        if self.algorithm == "ES256" and isinstance(private, ec.EllipticCurvePrivateKey) and private.key_size == 256:
            numbers = utils.decode_dss_signature(private.sign(content, ec.ECDSA(SHA256())))
            return b"".join(number.to_bytes(32, "big") for number in numbers)
        raise LoginError(
            f"the private key of {key}.file does not fit {self.algorithm}",
            "set sasl.oauthbearer.assertion.algorithm to RS256 for an RSA key, ES256 for one of the curve P-256",
        )


def encode(content: bytes) -> str:
    """Return bytes in base64url without padding, as JWTs have them (RFC 7515)."""
    return urlsafe_b64encode(content).decode().rstrip("=")
