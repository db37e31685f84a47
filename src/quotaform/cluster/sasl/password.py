"""PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677): a user name and a password, or a delegation token (KIP-48)."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from re import compile as regex
from secrets import token_urlsafe
from typing import Final

from quotaform.cluster.client.config import Exchange
from quotaform.cluster.client.properties import ClientProperties
from quotaform.cluster.records import ScramMechanism
from quotaform.cluster.sasl.jaas import read_jaas, render_jaas, shown_option
from quotaform.cluster.wire.message import MalformedError
from quotaform.model.text import Secret

MODULES: Final = {
    "PlainLoginModule": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "ScramLoginModule": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_ITERATIONS: Final = range(4096, 1_000_001)
"""Java's client refuses fewer (`ScramMechanism.minIterations`); more take minutes; brokers accept 16,384 at most."""
_DIGITS: Final = regex(r"[0-9]{1,12}").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    """A user name and a password."""

    mechanism: str
    username: str  # the user name, or the id of a delegation token
    password: Secret  # the password, or the HMAC of a delegation token
    is_token: bool = False
    shown: str | None = field(default=None, compare=False)
    """What messages call the user, if the name comes from a variable."""

    @property
    def who(self) -> str:
        return f"{'delegation token' if self.is_token else 'user'} {self.shown or self.username}"

    @property
    def check(self) -> str:
        if self.is_token:
            return "check token id and HMAC in sasl.jaas.config, and whether the token has expired"
        return "check user name and password in sasl.jaas.config"

    def exchange(self, host: str) -> Exchange:
        if self.mechanism == "PLAIN":
            yield f"\0{self.username}\0{self.password.reveal()}".encode()
            return
        extension = ",tokenauth=true" if self.is_token else ""
        yield from scram(self.mechanism, self.username, self.password, nonce=token_urlsafe(24), extension=extension)

    def java_properties(self) -> dict[str, str]:
        options = {"username": self.username, "password": self.password.reveal()}
        if self.is_token:
            options["tokenauth"] = "true"
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": render_jaas(_module(self.mechanism), options)}


def read(reader: ClientProperties, mechanism: str) -> Password:
    """Return the user name and password of `sasl.jaas.config`."""
    key = "sasl.jaas.config"
    form = (
        f'write: sasl.jaas.config={_module(mechanism)} required username="NAME" password="PASSWORD";'
        " (every backslash in it is doubled)"
    )
    options = read_jaas(reader, MODULES, form)
    is_token = options.get("tokenauth", "").lower() == "true"
    if is_token and mechanism == "PLAIN":
        raise reader.refused(
            key, f"{key}: delegation tokens (tokenauth) need sasl.mechanism=SCRAM-SHA-256 or SCRAM-SHA-512"
        )
    for name in ("username", "password"):
        if not options.get(name):
            raise reader.refused(key, f"{key} cannot be used: it has no {name}; {form}")
    return Password(
        mechanism=mechanism,
        username=options["username"],
        password=Secret(options["password"]),
        is_token=is_token,
        shown=shown_option(reader, "username") if reader.written(key) != reader.get(key) else None,
    )


def _module(mechanism: str) -> str:
    return MODULES["PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"]


def scram(mechanism: str, username: str, password: Secret, *, nonce: str, extension: str = "") -> Exchange:
    """Begin a SCRAM exchange.

    The bytes of the password count as they are: Kafka does not normalise them. `extension` are further attributes
    of the first message, each after a comma.
    """
    name = ScramMechanism(mechanism).hash_name
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}"
    first = (yield f"n,,{bare}".encode()).decode()
    attributes = _attributes(first)
    if not attributes["r"].startswith(nonce):
        raise ValueError("the server did not repeat the nonce")
    if not _DIGITS(attributes["i"]) or int(attributes["i"]) not in _ITERATIONS:
        raise MalformedError(f"it asks for {attributes['i'][:12]} SCRAM iterations")
    salted = hashlib.pbkdf2_hmac(name, password.reveal().encode(), b64decode(attributes["s"]), int(attributes["i"]))
    final = f"c=biws,r={attributes['r']}"
    message = f"{bare},{first},{final}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    answer = (yield f"{final},p={b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    if not hmac.compare_digest(b64decode(_attributes(answer)["v"]), expected):
        raise ValueError("the server did not prove that it knows the password")


def _attributes(message: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}
