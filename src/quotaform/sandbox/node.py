"""One broker of a sandbox: its ports, its configuration, and what makes it measurable from outside."""

from __future__ import annotations

import base64
import secrets
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
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
    """Return `count` different ports that are free at this moment.

    Another process may take one before its use: the caller must be ready to try others.
    """
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
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
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
    def initial_controller(self) -> str:
        """Return this node as `StorageTool format --initial-controllers` wants it (KIP-853)."""
        return f"{self.number}@{self.address(CONTROLLER)}:{self.directory_id}"


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
        voters = ",".join(f"{other.number}@{other.address(CONTROLLER)}" for other in nodes)
        return properties | {"controller.quorum.voters": voters}
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
