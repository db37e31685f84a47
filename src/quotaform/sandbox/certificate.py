"""Creates the certificates of a secured sandbox with the `openssl` command."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quotaform.errors import SandboxError, UsageError

CLIENTS: Mapping[str, str] = {"quota-admin": "CN = quota-admin", "tenant": "O = Tenants\nCN = tenant a"}
"""The client certificates: name to subject. Kafka's principals are `CN=quota-admin` and `CN=tenant a,O=Tenants`
(RFC 2253 order, `org.apache.kafka.common.security.ssl.SslPrincipalMapper`)."""

_DAYS = "30"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt", "ec_param_enc:named_curve", "-sha256")
"""An EC key is made in milliseconds, an RSA key in up to a second."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client's certificate and private key as PEM files."""

    certificate: Path
    key: Path
    keystore: Path
    """Both in one file, as Java clients want it."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The PEM files of a secured sandbox."""

    authority: Path
    server: Path
    clients: Mapping[str, ClientCertificate]

    def client(self, name: str) -> ClientCertificate:
        """Return a client certificate by its name.

        Raises:
            UsageError: There is no such certificate.
        """
        if name not in self.clients:
            raise UsageError(f"The sandbox has no client certificate {name}, only {', '.join(self.clients)}.")
        return self.clients[name]


def make_certificates(directory: Path) -> Certificates:
    """Make an authority, the brokers' certificate and those of the clients in `directory`.

    Raises:
        SandboxError: The `openssl` command is missing or failed.
    """
    directory.mkdir()
    authority = directory / "ca.pem"
    # The sections are files: LibreSSL's openssl has no -addext and no -copy_extensions.
    section = _section(
        directory,
        "ca",
        "CN = quotaform sandbox",
        "basicConstraints = critical, CA:true\nkeyUsage = critical, keyCertSign, cRLSign",
    )
    _openssl(
        directory, "req", "-x509", "-nodes", *_NEW_KEY, "-days", _DAYS, "-config", section.name,
        "-extensions", "v3", "-keyout", "ca.key", "-out", authority.name,
    )  # fmt: skip
    server = _issue(directory, "server", "CN = localhost", "subjectAltName = IP:127.0.0.1, DNS:localhost")
    clients = {
        name: _issue(directory, name, subject, "basicConstraints = CA:false") for name, subject in CLIENTS.items()
    }
    return Certificates(authority=authority, server=server.keystore, clients=clients)


def _issue(directory: Path, name: str, subject: str, extensions: str) -> ClientCertificate:
    section = _section(directory, name, subject, extensions)
    _openssl(
        directory, "req", "-nodes", *_NEW_KEY, "-config", section.name,
        "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    _openssl(
        directory, "x509", "-req", "-sha256", "-days", _DAYS, "-in", f"{name}.csr", "-CA", "ca.pem",
        "-CAkey", "ca.key", "-CAcreateserial", "-extfile", section.name, "-extensions", "v3",
        "-out", f"{name}.crt",
    )  # fmt: skip
    made = ClientCertificate(directory / f"{name}.crt", directory / f"{name}.key", directory / f"{name}.pem")
    parts = (made.key, made.certificate, directory / "ca.pem")
    made.keystore.write_text("".join(part.read_text() for part in parts))
    return made


def _section(directory: Path, name: str, subject: str, extensions: str) -> Path:
    path = directory / f"{name}.cnf"
    path.write_text(f"[req]\nprompt = no\ndistinguished_name = dn\n[dn]\n{subject}\n[v3]\n{extensions}\n")
    return path


def _openssl(directory: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            ["openssl", *arguments],  # noqa: S607 (the user's own openssl)
            cwd=directory, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SandboxError(
            "A secured sandbox needs the openssl command for its certificates; install OpenSSL and try again."
        ) from error
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SandboxError(f"openssl {arguments[0]} failed while making the sandbox's certificates: {message}.")
