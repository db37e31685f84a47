"""The security of a sandbox: certificates, listeners, users, and the properties of brokers and clients."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from json import dumps
from pathlib import Path

from msgspec import Struct

from quotaform.model.errors import SandboxError, UsageError
from quotaform.sandbox.release import Release

CLIENTS: Mapping[str, str] = {"quota-admin": "CN = quota-admin", "tenant": "O = Tenants\nCN = tenant a"}
"""The client certificates: name to subject. Kafka's principals are `CN=quota-admin` and `CN=tenant a,O=Tenants`
(RFC 2253 order, `org.apache.kafka.common.security.ssl.SslPrincipalMapper`)."""

_DAYS = "30"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt", "ec_param_enc:named_curve", "-sha256")
"""An EC key is made in milliseconds, an RSA key in up to a second."""
_OF_AUTHORITY = "basicConstraints = critical, CA:true\nkeyUsage = critical, keyCertSign, cRLSign"


class Certificates(Struct, frozen=True):
    """The PEM files of a secured sandbox, in one folder.

    `NAME.pem` has a private key (`NAME.key`), its certificate (`NAME.crt`) and that of the authority, as Java clients
    want it.
    """

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the authority."""
        return self.folder / "ca.pem"

    @property
    def server(self) -> Path:
        """The key and the certificate of all brokers."""
        return self.folder / "server.pem"

    def client(self, name: str) -> Path:
        """Return the key and the certificate of a client, by its name in `CLIENTS`."""
        if name not in CLIENTS:
            raise UsageError(f"The sandbox has no client certificate {name}, only {', '.join(CLIENTS)}.")
        return self.folder / f"{name}.pem"


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, the brokers' certificate and those of the clients in a new folder."""
    folder.mkdir()
    _openssl(
        folder, "req", "-x509", "-nodes", *_NEW_KEY, "-days", _DAYS,
        *_section(folder, "ca", "CN = quotaform sandbox", _OF_AUTHORITY), "-keyout", "ca.key", "-out", "ca.pem",
    )  # fmt: skip
    _issue(folder, "server", "CN = localhost", "subjectAltName = IP:127.0.0.1, DNS:localhost")
    for name, subject in CLIENTS.items():
        _issue(folder, name, subject, "basicConstraints = CA:false")
    return Certificates(folder)


def _issue(folder: Path, name: str, subject: str, extensions: str) -> None:
    section = _section(folder, name, subject, extensions)
    _openssl(folder, "req", "-nodes", *_NEW_KEY, *section, "-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(
        folder, "x509", "-req", "-sha256", "-days", _DAYS, "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-CAcreateserial", "-extfile", *section[1:], "-out", f"{name}.crt",
    )  # fmt: skip
    parts = (f"{name}.key", f"{name}.crt", "ca.pem")
    (folder / f"{name}.pem").write_text("".join((folder / part).read_text() for part in parts))


def _section(folder: Path, name: str, subject: str, extensions: str) -> tuple[str, ...]:
    """Write the configuration of a certificate: LibreSSL's openssl has neither -addext nor -copy_extensions."""
    path = folder / f"{name}.cnf"
    path.write_text(f"[req]\nprompt = no\ndistinguished_name = dn\n[dn]\n{subject}\n[v3]\n{extensions}\n")
    return "-config", path.name, "-extensions", "v3"


def _openssl(folder: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            ["openssl", *arguments],  # noqa: S607 (the user's own openssl)
            cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SandboxError(
            "A secured sandbox needs the openssl command for its certificates; install OpenSSL and try again."
        ) from error
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SandboxError(f"openssl {arguments[0]} failed while making the sandbox's certificates: {message}.")


def render_properties(properties: Mapping[str, str]) -> str:
    r"""Return the text of a Java properties file, in ASCII.

    Kafka reads these files as ISO-8859-1 (`java.util.Properties.load(InputStream)`), so other characters
    are escaped.

    >>> print(render_properties({"log.dirs": "/tmp/é", "a": "b\\c"}), end="")
    log.dirs=/tmp/\u00e9
    a=b\\c
    """
    # JSON has the same escapes; a quote needs none here.
    escaped = {key: dumps(value)[1:-1].replace('\\"', '"') for key, value in properties.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items())


PLAINTEXT = "PLAINTEXT"
"""The listener that every sandbox has; in a secured one its principal `User:ANONYMOUS` has no rights."""

PROTOCOLS: Mapping[str, str] = {
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "MTLS": "SSL",
    "TLS": "SSL",
    PLAINTEXT: "PLAINTEXT",
}
"""The security protocol of each listener of a secured sandbox."""

SCRAM = ("SCRAM-SHA-512", "SCRAM-SHA-256")
SUPER_CERTIFICATE = "quota-admin"


class User(Struct, frozen=True):
    """A user that a secured sandbox knows."""

    name: str
    password: str
    mechanisms: tuple[str, ...]


USERS: Mapping[str, User] = {
    user.name: user
    for user in (
        User("admin", "admin-secret", (*SCRAM, "PLAIN")),
        User("broker", "broker-secret", SCRAM),
        User("tenant", "tenant-secret", SCRAM),
        User("plainuser", "plain-secret", ("PLAIN",)),
    )
}
"""The known users; `admin` and `broker` are super users, the others have no rights."""

_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def protocols(release: Release) -> dict[str, str]:
    """Return the listeners of a secured sandbox of a release: with ZooKeeper those without TLS."""
    return {name: found for name, found in PROTOCOLS.items() if not (release.has_zookeeper and found.endswith("SSL"))}


def server_properties(certificates: Certificates, release: Release) -> dict[str, str]:
    """Return what a secured broker has in its configuration beyond a plain one.

    The authorizer is `org.apache.kafka.metadata.authorizer.StandardAuthorizer`. The controllers' listener
    needs SASL with it: over PLAINTEXT the brokers would be `User:ANONYMOUS` and could not register.
    """
    broker = USERS["broker"]
    login = f'username="{broker.name}" password="{broker.password}"'
    scram = SCRAM if release.formats_scram else ()
    known = " ".join(
        f'user_{user.name}="{user.password}"' for user in USERS.values() if not scram or "PLAIN" in user.mechanisms
    )
    properties = {
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join((*scram, "PLAIN")),
        "sasl.mechanism.inter.broker.protocol": (*scram, "PLAIN")[0],
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:admin;User:broker;User:CN={SUPER_CERTIFICATE}",
    }
    if not release.has_zookeeper:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{_PLAIN_MODULE} required {login} user_{broker.name}="{broker.password}";'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in scram:
            properties[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = (
                f"{_SCRAM_MODULE} required {login};"
            )
        properties[f"listener.name.{listener}.plain.sasl.jaas.config"] = f"{_PLAIN_MODULE} required {login} {known};"
    return properties


def client_properties(
    listener: str,
    certificates: Certificates | None,
    *,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    certificate: str = SUPER_CERTIFICATE,
) -> str:
    """Write a Java client's properties for one of the listeners; see `Sandbox.client_properties`."""
    protocol = PROTOCOLS.get(listener)
    if protocol is None or (certificates is None and listener != PLAINTEXT):
        raise UsageError(f"The sandbox has no listener {listener}; start it secured and use one of its listeners.")
    properties = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        name, known = user or "admin", USERS.get(user or "admin")
        if known is None and password is None:
            raise UsageError(f"The sandbox does not know the user {name}: give a password too.")
        if known is not None:
            password = known.password if password is None else password
            mechanism = mechanism or known.mechanisms[0]
        module = _PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE
        properties["sasl.mechanism"] = mechanism or SCRAM[0]
        properties["sasl.jaas.config"] = f'{module} required username="{name}" password="{password}";'
    if certificates is not None and protocol.endswith("SSL"):
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    if certificates is not None and listener == "MTLS":
        keystore = certificates.client(certificate)
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
    return render_properties(properties)
