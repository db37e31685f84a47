"""What the Kafka of a sandbox is configured with: certificates, users, listeners, ports, properties; its brokers."""

from __future__ import annotations

import base64
import secrets
import socket
import struct
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Final

from msgspec import Struct

from quotaform.model.errors import SandboxError
from quotaform.sandbox.release import NEWEST, Release

HOST = "127.0.0.1"

# Below the ranges from which Linux (32768) and macOS (49152) take the local ports of outgoing connections:
# a broker that is restarted must find its port free, and a stray connection would have taken it.
_RANGE = range(18_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that are free at this moment: another process may take one before its use."""
    found: set[int] = set()
    for _ in range(1000):
        if len(found) == count:
            return sorted(found)
        port = _RANGE[secrets.randbelow(len(_RANGE))]
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.add(port)
    raise SandboxError(f"There are no {count} free ports between {_RANGE.start} and {_RANGE.stop} on {HOST}.")


CONTROLLER = "CONTROLLER"

# Small threads, topics and buffers for one user on a laptop. What quotas depend on (append linger, quota
# windows, session and election timeouts) stays as a production broker has it.
_SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

ZOOKEEPER_SESSION_SECONDS = 6
"""After how long ZooKeeper forgets a broker that was killed; until then the broker cannot register again."""


class Node(Struct, frozen=True):
    """A broker; with KRaft also a controller: its combined mode (KIP-500)."""

    number: int
    directory: Path
    directory_id: str
    ports: Mapping[str, int]
    metrics_port: int | None = None
    jmx_port: int | None = None

    @property
    def name(self) -> str:
        """What the supervisor calls its process."""
        return f"node {self.number}"

    @property
    def log(self) -> Path:
        """The file with what the broker said: warnings, errors and the JVM's own words."""
        return self.directory / "server.log"

    @property
    def settings(self) -> Path:
        """The broker's `server.properties`."""
        return self.directory / "server.properties"

    def log_tail(self, lines: int) -> str:
        """Return the last lines of the log."""
        try:
            with self.log.open(encoding="utf-8", errors="replace") as log:
                return "".join(deque(log, lines))
        except OSError:
            return ""

    def address(self, listener: str) -> str:
        """Return host:port of a listener."""
        return f"{HOST}:{self.ports[listener]}"

    @property
    def voter(self) -> str:
        """This node as a voter of the quorum."""
        return f"{self.number}@{self.address(CONTROLLER)}"


def new_uuid() -> str:
    """Return a random id as `org.apache.kafka.common.Uuid` writes it: 22 characters that begin with no dash."""
    while (text := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


def node_properties(
    node: Node, nodes: Sequence[Node], protocols: Mapping[str, str], release: Release = NEWEST, zookeeper: str = ""
) -> dict[str, str]:
    """Return the `server.properties` of one node of a quorum."""
    clients = ",".join(f"{listener}://{node.address(listener)}" for listener in protocols if listener != CONTROLLER)
    copies = str(len(nodes))
    properties = _SMALL | {
        "listeners": clients,
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "log.dirs": str(node.directory / "data"),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "default.replication.factor": copies,
    }
    if release.has_zookeeper:
        return properties | {
            "broker.id": str(node.number),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": str(ZOOKEEPER_SESSION_SECONDS * 1000),
        }
    properties |= {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.listener.names": CONTROLLER,
        "listeners": f"{clients},{CONTROLLER}://{node.address(CONTROLLER)}",
    }
    if not release.has_dynamic_voters:
        return properties | {"controller.quorum.voters": ",".join(other.voter for other in nodes)}
    return properties | {
        "advertised.listeners": properties["listeners"],
        "controller.quorum.bootstrap.servers": ",".join(other.address(CONTROLLER) for other in nodes),
    }


EXPORTER_RULES: Final = "jmx-exporter-rules.yml"
"""The file of this package with the exporter's rules."""


def monitoring_options(node: Node, exporter: Path | None, directory: Path) -> list[str]:
    """Return the options of a node's JVM with which it can be measured, on loopback and without authentication.

    `exporter` is the jar that serves `/metrics`. JMX lets any local process run what the broker may run.
    """
    options: list[str] = []
    if node.metrics_port is not None:
        options.append(f"-javaagent:{exporter}={HOST}:{node.metrics_port}:{directory / EXPORTER_RULES}")
    if node.jmx_port is not None:
        options += [
            f"-Dcom.sun.management.jmxremote.host={HOST}",
            f"-Dcom.sun.management.jmxremote.port={node.jmx_port}",
            f"-Dcom.sun.management.jmxremote.rmi.port={node.jmx_port}",
            "-Dcom.sun.management.jmxremote.authenticate=false",
            "-Dcom.sun.management.jmxremote.ssl=false",
            f"-Djava.rmi.server.hostname={HOST}",
        ]
    return options


_PROBE_SECONDS = 1.0
_DESCRIBE_CLUSTER = 60
_CLIENT_ID = b"quotaform-sandbox"


def brokers_seen(port: int, cluster_id: str) -> int:
    """Return how many live brokers of its cluster the one at a PLAINTEXT port sees.

    0 if it does not answer (yet), or is of another cluster. What is asked and answered is DescribeCluster of version 0
    (KIP-700).
    """
    header = struct.pack(">hhih", _DESCRIBE_CLUSTER, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    # include_cluster_authorized_operations=false, then no tagged fields.
    request = header + b"\0\0"
    try:
        with socket.create_connection((HOST, port), _PROBE_SECONDS) as connection, connection.makefile("rb") as answers:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(min(size, 1 << 20))
        # Correlation id (4), tagged fields (1), throttle time (4), the error code (2) and message, then the cluster id.
        (error,) = struct.unpack_from(">h", answer, 9)
        _, _, rest = answer[11:].partition(cluster_id.encode())
        # The controller's id (4), then the number of brokers and one.
        return 0 if error or not cluster_id else rest[4] - 1
    except (OSError, ValueError, struct.error, IndexError):
        return 0


def accepts(port: int) -> bool:
    """Return whether a port accepts connections."""
    try:
        with socket.create_connection((HOST, port), _PROBE_SECONDS):
            return True
    except OSError:
        return False


CLIENTS: Mapping[str, str] = {"quota-admin": "CN = quota-admin", "tenant": "O = Tenants\nCN = tenant a"}
"""The client certificates: name to subject. Kafka's principals are `CN=quota-admin` and `CN=tenant a,O=Tenants`
(RFC 2253 order, `org.apache.kafka.common.security.ssl.SslPrincipalMapper`)."""

_DAYS = "30"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt", "ec_param_enc:named_curve", "-sha256")
"""An EC key is made in milliseconds, an RSA key in up to a second."""
_OF_AUTHORITY = "basicConstraints = critical, CA:true\nkeyUsage = critical, keyCertSign, cRLSign"


def make_certificates(folder: Path) -> Path:
    """Make the PEM files of a secured sandbox in a new folder, which is returned.

    `ca.pem` is the certificate of the authority; `server.pem`, of all brokers, and `NAME.pem` of each client have a
    private key, its certificate and that of the authority.
    """
    folder.mkdir()
    _openssl(
        folder, "req", "-x509", "-nodes", *_NEW_KEY, "-days", _DAYS,
        *_section(folder, "ca", "CN = quotaform sandbox", _OF_AUTHORITY), "-keyout", "ca.key", "-out", "ca.pem",
    )  # fmt: skip
    _issue(folder, "server", "CN = localhost", "subjectAltName = IP:127.0.0.1, DNS:localhost")
    for name, subject in CLIENTS.items():
        _issue(folder, name, subject, "basicConstraints = CA:false")
    return folder


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


def security_properties(certificates: Path, release: Release) -> dict[str, str]:
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
        "super.users": "User:admin;User:broker;User:CN=quota-admin",
    }
    if not release.has_zookeeper:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates / "ca.pem"),
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


def admin_properties(release: Release) -> str:
    """Write a Java client's properties for the super user `admin` and the listener SASL_PLAINTEXT."""
    admin = USERS["admin"]
    mechanism, module = (SCRAM[0], _SCRAM_MODULE) if release.formats_scram else ("PLAIN", _PLAIN_MODULE)
    return render_properties(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{admin.name}" password="{admin.password}";',
        }
    )
