"""The security of a sandbox: listeners, users, and the properties of brokers and clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotaform.errors import UsageError
from quotaform.sandbox.certificate import Certificates
from quotaform.sandbox.release import Release
from quotaform.sandbox.server_properties import render_properties

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


@dataclass(frozen=True, slots=True)
class User:
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


def scram_credentials() -> list[str]:
    """Return the arguments with which `kafka.tools.StorageTool` stores the SCRAM users (KIP-900)."""
    return [
        argument
        for user in USERS.values()
        for mechanism in user.mechanisms
        if mechanism in SCRAM
        for argument in ("--add-scram", f"{mechanism}=[name={user.name},password={user.password}]")
    ]


def client_properties(
    listener: str,
    certificates: Certificates | None,
    *,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    certificate: str = SUPER_CERTIFICATE,
) -> str:
    """Write a Java client's properties for one of the listeners; see `Sandbox.client_properties`.

    Raises:
        UsageError: There is no such listener, or no password is known for the user.
    """
    protocol = PROTOCOLS.get(listener)
    if protocol is None or (certificates is None and listener != PLAINTEXT):
        raise UsageError(f"The sandbox has no listener {listener}; start it secured and use one of its listeners.")
    properties = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        properties |= _sasl(user or "admin", password, mechanism)
    if certificates is not None and protocol.endswith("SSL"):
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    if certificates is not None and listener == "MTLS":
        keystore = certificates.client(certificate).keystore
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
    return render_properties(properties)


def _sasl(name: str, password: str | None, mechanism: str | None) -> dict[str, str]:
    user = USERS.get(name)
    if password is None:
        if user is None:
            raise UsageError(f"The sandbox does not know the user {name}: give a password too.")
        password = user.password
    if mechanism is None:
        mechanism = user.mechanisms[0] if user else SCRAM[0]
    module = _PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
    }
