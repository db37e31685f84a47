"""A broker with every way in on its listeners, and clients that have what it takes to use them, or not."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from quotaform.cluster.client.reader import from_properties
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.wire.message import INT64, BrokerRequest, ResponseReader, Writer
from quotaform.model.errors import AuthenticationError
from quotaform.sandbox import Sandbox
from quotaform.sandbox.configuration import PROTOCOLS, make_certificates
from tests.identity_provider import CLIENTS, IdentityProvider
from tests.kdc import MODULE as KERBEROS_MODULE
from tests.kdc import REALM, Kdc, broker_properties
from tests.waiting import wait_until

SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
WRONG: Final = "hunter2-wrong"
"""A password that is nobody's."""
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USERS: Final = {
    "right": ("admin", "admin-secret"),
    "no rights": ("tenant", "tenant-secret"),
    "wrong": ("admin", WRONG),
    "unknown": ("nobody", WRONG),
}


@dataclass(frozen=True)
class Doors:
    """The broker, who vouches for its users, and what its clients show."""

    kafka: Sandbox
    provider: IdentityProvider
    kdc: Kdc
    files: Mapping[str, Path]
    tokens: Mapping[str, tuple[str, str]]

    def address(self, listener: str) -> str:
        """Return where a listener is, by the name that its certificate and its principal have."""
        return self.kafka.listeners[listener].replace("127.0.0.1", "localhost")

    def client(self, listener: str, way: str, condition: str = "right") -> dict[str, str]:
        """Return the client properties of a way (a mechanism, `delegation token`, `mTLS` or `none`) to a listener.

        The condition is `right`, `no rights`, `wrong`, `unknown` or `expired`.
        """
        properties = {"security.protocol": PROTOCOLS[listener]}
        if properties["security.protocol"].endswith("SSL"):
            trusted = str(self.kafka.data_dir / "certificates" / "ca.pem")
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
        if way == "mTLS":
            store = str(self.files[f"certificate, {condition}"])
            return properties | {"ssl.keystore.type": "PEM", "ssl.keystore.location": store}
        return properties | (self._sasl(way, condition) if way != "none" else {})

    def _sasl(self, way: str, condition: str) -> dict[str, str]:
        if way == "OAUTHBEARER":
            return self._oauth(condition)
        if way == "GSSAPI":
            path = self.files[f"ticket, {condition}"]
            user = {"no rights": "tenant", "wrong": "former", "expired": "late"}.get(condition, "admin")
            kind = 'useTicketCache=true ticketCache="{}"' if path.suffix == ".ccache" else 'useKeyTab=true keyTab="{}"'
            line = f'{KERBEROS_MODULE} required {kind.format(path)} principal="{user}@{REALM}";'
            return {"sasl.mechanism": way, "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": line}
        if way == "delegation token":
            name, password = self.tokens[condition]
            return {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": _line(_SCRAM, name, password, " tokenauth=true"),
            }
        name, password = _USERS[condition]
        if way == "PLAIN" and condition == "no rights":
            name, password = "plainuser", "plain-secret"
        return {"sasl.mechanism": way, "sasl.jaas.config": _line(_PLAIN if way == "PLAIN" else _SCRAM, name, password)}

    def _oauth(self, condition: str) -> dict[str, str]:
        if condition == "expired":
            # Without the skew an expired token is not even sent.
            file = {"sasl.oauthbearer.token.endpoint.url": self.files["token, expired"].as_uri()}
            return self.provider.client_properties() | file | {"sasl.oauthbearer.clock.skew.seconds": "3600"}
        client = "tenant" if condition == "no rights" else "admin"
        return self.provider.client_properties(client, WRONG if condition == "wrong" else None)

    def open(self, properties: Mapping[str, str], address: str | None = None) -> KafkaGateway:
        """Connect to SASL_PLAINTEXT with client properties, as the cluster `prod`."""
        config = from_properties({"security.protocol": "SASL_PLAINTEXT", **properties}, environ={})
        return KafkaGateway.connect(address or self.address("SASL_PLAINTEXT"), config, name="prod")

    def refusal(self, properties: Mapping[str, str], address: str | None = None) -> str:
        """Return why a login fails, which shows nothing secret."""
        with pytest.raises(AuthenticationError) as caught:
            self.open(properties, address)
        message = str(caught.value)
        assert not any(secret in message for secret in self.secrets)
        return message.removeprefix("Cannot connect to prod: ")

    @property
    def secrets(self) -> set[str]:
        passwords = {"admin-secret", "tenant-secret", "plain-secret", WRONG, *CLIENTS.values()}
        return passwords | {hmac for _, hmac in self.tokens.values()} | {"eyJ", "PRIVATE KEY"}


def _line(module: str, name: str, password: str, more: str = "") -> str:
    return f'{module} required username="{name}" password="{password}"{more};'


@contextmanager
def open_doors(folder: Path) -> Iterator[Doors]:
    """Start everything; files that clients show are made in a folder."""
    with IdentityProvider() as provider, Kdc() as kdc:
        tickets, made_at = _tickets(kdc), monotonic()
        properties = broker_properties(kdc.add("kafka/localhost"), "kafka/localhost", *SASL)
        properties["listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms"] = "2500"
        properties["delegation.token.secret.key"] = "signs-the-tokens"
        # A broker answers a client that it refuses later than others.
        properties["connection.failed.authentication.delay.ms"] = "0"
        for listener in SASL:
            properties |= provider.broker_properties(listener, "GSSAPI")
        with Sandbox(secured=True, properties=properties, jvm=(*provider.jvm, *kdc.jvm_options)) as kafka:
            files = _certificates(kafka, folder) | tickets | {"token, expired": folder / "expired.jwt"}
            files["token, expired"].write_text(provider.make_token("admin", -60))
            # A ticket ends with a second of the clock.
            wait_until(lambda: monotonic() > made_at + 2.1)
            yield Doors(kafka, provider, kdc, files, _tokens(kafka))


def sign(kafka: Sandbox, key: EllipticCurvePrivateKey, *, days: int) -> x509.Certificate:
    """Return a certificate of the super user that ends in so many days."""
    authority, now = kafka.data_dir / "certificates" / "ca.pem", datetime.now(UTC)
    signer = load_pem_private_key(authority.with_suffix(".key").read_bytes(), None)
    assert isinstance(signer, EllipticCurvePrivateKey)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quota-admin")]))
        .issuer_name(x509.load_pem_x509_certificate(authority.read_bytes()).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .sign(signer, SHA256())
    )


def _certificates(kafka: Sandbox, folder: Path) -> dict[str, Path]:
    known = kafka.data_dir / "certificates"
    strangers = make_certificates(folder / "strangers")
    expired, key = folder / "expired.pem", generate_private_key(SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    expired.write_bytes(pem + sign(kafka, key, days=-1).public_bytes(Encoding.PEM))
    return {
        "certificate, right": known / "quota-admin.pem",
        "certificate, no rights": known / "tenant.pem",
        "certificate, wrong": strangers / "quota-admin.pem",
        "certificate, expired": expired,
    }


def _tickets(kdc: Kdc) -> dict[str, Path]:
    files = {
        "ticket, right": kdc.add("admin"),
        "ticket, no rights": kdc.add("tenant"),
        "ticket, wrong": kdc.add("former"),
    }
    kdc.admin("cpw -randkey former")
    return files | {"ticket, expired": kdc.ticket("late", kdc.add("late"), "-l", "1s")}


def _tokens(kafka: Sandbox) -> dict[str, tuple[str, str]]:
    """Return the id and the HMAC of delegation tokens (KIP-48), by condition."""

    def config(user: str, password: str, more: str = "") -> Any:
        line = _line(_SCRAM, user, password, more)
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": line}
        return from_properties(given, environ={})

    def make(user: str, password: str, *, expires: bool = False) -> tuple[str, str]:
        with KafkaGateway.connect(kafka.bootstrap_servers, config(user, password)) as gateway:
            [token, hmac] = gateway.connection.send(_TokenRequest(), timeout=30)
            shown = token, b64encode(hmac).decode()
            wait_until(lambda: _is_accepted(*shown))
            if expires:
                gateway.connection.send(_TokenRequest(hmac), timeout=30)
                wait_until(lambda: not _is_accepted(*shown))
        return shown

    def _is_accepted(token: str, hmac: str) -> bool:
        try:
            KafkaGateway.connect(kafka.bootstrap_servers, config(token, hmac, " tokenauth=true")).close()
        except AuthenticationError:
            return False
        return True

    right = make("admin", "admin-secret")
    return {
        "right": right,
        "no rights": make("tenant", "tenant-secret"),
        "wrong": (right[0], b64encode(WRONG.encode()).decode()),
        "expired": make("admin", "admin-secret", expires=True),
    }


class _TokenRequest(BrokerRequest[Any]):
    """CreateDelegationToken for the user of the connection, giving id and HMAC; with an HMAC: expire it now."""

    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 2
    IS_THROTTLED = False

    def __init__(self, hmac: bytes | None = None) -> None:
        self._hmac = hmac
        self.API_KEY = 38 if hmac is None else 40  # type: ignore[misc]

    def _write(self, writer: Writer, version: int) -> None:
        if self._hmac is None:
            writer.array([], writer.string, is_tagged=False)  # Nobody else may renew it.
        else:
            writer.bytes(self._hmac)
        writer.number(INT64, -1)

    def _read(self, reader: ResponseReader, version: int) -> Any:
        assert reader.int16() == 0
        made = None
        if self._hmac is None:
            reader.string(), reader.string()
            reader.int64(), reader.int64(), reader.int64()
            made = reader.string(), reader.nullable_bytes()
        else:
            reader.int64()
        reader.int32()
        return made
