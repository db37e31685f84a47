"""Starts and stops the brokers of one sandbox, through a supervisor process that outlives its owner."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from quotaform.model.errors import SandboxError, UsageError
from quotaform.sandbox import security, supervisor
from quotaform.sandbox.cache import shown
from quotaform.sandbox.java import LOGGING, Java, Runtime, java_environment
from quotaform.sandbox.node import (
    CONTROLLER,
    HOST,
    ZOOKEEPER_SESSION_SECONDS,
    Monitoring,
    Node,
    free_ports,
    new_uuid,
    node_properties,
    zookeeper_properties,
)
from quotaform.sandbox.release import Release
from quotaform.sandbox.security import Certificates, make_certificates, render_properties

_END_SECONDS = 40.0
"""Seconds to wait for the supervisor's end; it takes one or two, but a busy machine may be slower by far."""


class SupervisorClient:
    """Starts processes, signals them and ends them all, through a supervisor that outlives its owner."""

    def __init__(self, *, inherited: Sequence[int] = ()) -> None:
        """Start the supervisor.

        The data directory, `directory`, goes with the supervisor.
        """
        self._lock = threading.Lock()
        # Its own session keeps a Ctrl-C in the terminal away from it and from the brokers.
        self._process = subprocess.Popen(  # noqa: S603 (this package's own module)
            [sys.executable, "-I", str(Path(supervisor.__file__)), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=java_environment(),
            start_new_session=True,
            pass_fds=inherited,
        )
        self.pid = self._process.pid
        try:
            self.directory = Path(self._read()["directory"])
        except BaseException:
            self.stop()
            raise

    def spawn(self, name: str, argv: Sequence[str], log: Path) -> int:
        """Start a process, its output appended to `log`; return its process id."""
        return int(self._ask(do="spawn", name=name, argv=list(argv), log=str(log))["pid"])

    def exit_code(self, name: str) -> int | None:
        """Return how a process ended: None while it runs, negative for a signal."""
        code = self._ask(do="poll", name=name)["code"]
        return None if code is None else int(code)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self._ask(do="signal", name=name, signal=int(number))

    def detach(self) -> None:
        """Keep the supervisor running after this process; SIGTERM then ends it."""
        self._ask(do="detach")
        self._close()
        # Not waited for: it is meant to be running still.
        self._process.returncode = 0

    def stop(self) -> None:
        """End all processes, remove the data directory and wait for both; again is allowed."""
        if self._process.returncode is not None:
            return
        self._close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def _close(self) -> None:
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101 (made with a pipe)
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError) as error:
                raise SandboxError("The sandbox is no longer running; start it again.") from error
            return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 (made with a pipe)
        line = self._process.stdout.readline()
        if not line:
            raise SandboxError("The sandbox's supervisor process ended unexpectedly; start the sandbox again.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SandboxError(f"The sandbox could not start or signal a process: {answer['error']}.")
        return answer


_TIMEOUT_SECONDS = 120.0
"""Seconds that a start may take; it takes 1 to 3, but a busy machine may be slower by far."""

_PROBE_SECONDS = 1.0
_NO_MONITORING = Monitoring()
_ZOOKEEPER = "ZooKeeper"
_ERROR_LINE = re.compile(r"\b(ERROR|FATAL)\b|Exception|Error")


class PortTakenError(Exception):
    """Another process took a port after it was chosen and before the broker bound it."""


class Quorum:
    """Nodes that share a cluster id, a supervisor and a data directory.

    Storage is formatted by `kafka.tools.StorageTool` for each start: half a second buys a cluster id of its
    own and storage that is what Kafka says it is. With ZooKeeper the first broker makes the id.
    """

    def __init__(
        self,
        java: Java,
        jars: Sequence[Path],
        inherited: Sequence[int],
        monitoring: Monitoring = _NO_MONITORING,
        jvm: Sequence[str] = (),
        *,
        release: Release,
    ) -> None:
        self.release = release
        self._monitoring = monitoring
        self._jvm = jvm
        self.cluster_id = "" if release.has_zookeeper else new_uuid()
        self.certificates: Certificates | None = None
        self.nodes: dict[int, Node] = {}
        self.pids: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._spawned = 0
        self._supervisor = SupervisorClient(inherited=inherited)
        self.supervisor_pid = self._supervisor.pid
        self.directory = self._supervisor.directory
        self.runtime = Runtime(java, jars, self.directory)

    def start(self, brokers: int, *, secured: bool, properties: Mapping[str, str]) -> None:
        """Configure, format and start the nodes, and wait until each of them sees them all."""
        if "," in str(self.directory):
            raise SandboxError(
                f"Kafka cannot keep data in {shown(self.directory)}, because its name contains a comma; "
                "set TMPDIR to another directory."
            )
        (self.directory / "tmp").mkdir()
        (self.directory / "log4j2.properties").write_text(LOGGING, encoding="ascii")
        self._monitoring.write_rules(self.directory)
        protocols = security.protocols(self.release) if secured else {security.PLAINTEXT: "PLAINTEXT"}
        more: dict[str, str] = {}
        if secured:
            self.certificates = make_certificates(self.directory / "certificates")
            more = security.server_properties(self.certificates, self.release)
        zookeeper = ""
        if self.release.has_zookeeper:
            zookeeper = self._start_zookeeper()
        else:
            protocols[CONTROLLER] = "SASL_PLAINTEXT" if secured else "PLAINTEXT"
        self.nodes = _make_nodes(self.directory, brokers, list(protocols), self._monitoring)
        nodes = list(self.nodes.values())
        for node in nodes:
            own = node_properties(node, nodes, protocols, self.release, zookeeper)
            node.settings.write_text(render_properties({**own, **more, **properties}), encoding="ascii")
        if not zookeeper:
            self._format(nodes, security.scram_credentials() if secured and self.release.formats_scram else [])
        for node in nodes:
            self._spawn(node)
        self._wait_until_ready(nodes, see=brokers)

    def stop(self) -> None:
        """End the nodes and remove the data directory."""
        self._supervisor.stop()

    def detach(self) -> None:
        """Keep the nodes running after this process."""
        self._supervisor.detach()

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a node."""
        self._supervisor.signal(self._name(number), what)

    def wait_for_exit(self, number: int) -> None:
        """Wait until a node's process has ended."""
        self._wait_for_exits([self._name(number)])

    def restart(self, number: int) -> None:
        """Start a node again, stopping it first if it runs, and wait until it answers."""
        if self._supervisor.exit_code(self._name(number)) is None:
            self.signal(number, signal.SIGTERM)
            # A paused process sees the SIGTERM only when it goes on.
            self.signal(number, signal.SIGCONT)
            self.wait_for_exit(number)
        if self.release.has_zookeeper and self._supervisor.exit_code(self._name(number)) == -signal.SIGKILL:
            time.sleep(ZOOKEEPER_SESSION_SECONDS + 1)
        self._spawn(self.nodes[number])
        try:
            self._wait_until_ready([self.nodes[number]], see=1)
        except PortTakenError as error:
            raise SandboxError(
                f"Another process took a port of broker {number} while it was down; start a new sandbox."
            ) from error

    def _start_zookeeper(self) -> str:
        """Start ZooKeeper and return its address; brokers wait until it answers."""
        directory = self.directory / "zookeeper"
        directory.mkdir()
        [port] = free_ports(1)
        settings = directory / "zoo.cfg"
        settings.write_text(render_properties(zookeeper_properties(directory / "data", port)), encoding="ascii")
        argv = self.runtime.command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(settings),
            # The data is removed anyway: nothing has to be on the disk before an answer.
            options=["-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true"],
        )
        self._supervisor.spawn(_ZOOKEEPER, argv, directory / "server.log")
        return f"{HOST}:{port}"

    def _format(self, nodes: Iterable[Node], scram: Sequence[str]) -> None:
        """Format all nodes' storage at once; where Kafka can, as a quorum whose voters may change (KIP-853)."""
        voters = []
        if self.release.has_dynamic_voters:
            voters = ["--initial-controllers", ",".join(node.initial_controller for node in self.nodes.values())]
        names = []
        for node in nodes:
            argv = self.runtime.command(
                "kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id,
                "--config", str(node.settings), *voters, *scram,
            )  # fmt: skip
            names.append(f"format {node.number}")
            self._supervisor.spawn(names[-1], argv, node.directory / "format.log")
        self._wait_for_exits(names)
        for node, name in zip(self.nodes.values(), names, strict=True):
            if self._supervisor.exit_code(name):
                log = (node.directory / "format.log").read_text(encoding="utf-8", errors="replace")
                raise SandboxError(f"Kafka's storage could not be formatted: {_error_line(log)}")

    def _spawn(self, node: Node) -> None:
        self._spawned += 1
        self._names[node.number] = name = f"node {node.number}, process {self._spawned}"
        options = [*self._monitoring.options(node, self.directory), *self._jvm]
        argv = self.runtime.command("kafka.Kafka", str(node.settings), options=options)
        self.pids[node.number] = self._supervisor.spawn(name, argv, node.log)

    def _wait_until_ready(self, nodes: Iterable[Node], *, see: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        waiting = list(nodes)
        while waiting:
            node = waiting[0]
            if self._is_ready(node, see):
                waiting.pop(0)
                continue
            for other in waiting:
                self._require_alive(other)
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"Broker {node.number} did not answer within {_TIMEOUT_SECONDS:.0f} seconds; "
                    f"the last error in its log: {_error_line(node.log_tail(200))}"
                )
            time.sleep(0.03)

    def _is_ready(self, node: Node, see: int) -> bool:
        if self.release.has_zookeeper:
            self.cluster_id = node.written_cluster_id()
        if brokers_seen(node.ports[security.PLAINTEXT], self.cluster_id) < see:
            return False
        # A broker opens its listeners one after the other.
        return all(map(accepts, node.ports.values()))

    def _require_alive(self, node: Node) -> None:
        if self.release.has_zookeeper and self._supervisor.exit_code(_ZOOKEEPER) is not None:
            # Nothing else keeps it from starting with a configuration that is always the same.
            raise PortTakenError
        code = self._supervisor.exit_code(self._names[node.number])
        if code is None:
            return
        log = node.log_tail(200)
        if "Address already in use" in log:
            raise PortTakenError
        raise SandboxError(f"Broker {node.number} ended while starting (exit code {code}): {_error_line(log)}")

    def _wait_for_exits(self, names: Iterable[str]) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        for name in names:
            while self._supervisor.exit_code(name) is None:
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"The sandbox's process ({name}) did not end within {_TIMEOUT_SECONDS:.0f} seconds."
                    )
                time.sleep(0.02)

    def _name(self, number: int) -> str:
        if number not in self._names:
            raise UsageError(f"The sandbox has no node {number}, only {', '.join(map(str, self._names))}.")
        return self._names[number]


def _make_nodes(directory: Path, brokers: int, listeners: Sequence[str], monitoring: Monitoring) -> dict[int, Node]:
    ports = iter(free_ports(brokers * (len(listeners) + monitoring.ports)))
    nodes = {}
    for number in range(1, brokers + 1):
        place = directory / f"node-{number}"
        place.mkdir()
        nodes[number] = Node(
            number,
            place,
            new_uuid(),
            {listener: next(ports) for listener in listeners},
            metrics_port=next(ports) if monitoring.exporter is not None else None,
            jmx_port=next(ports) if monitoring.jmx else None,
        )
    return nodes


def _error_line(text: str) -> str:
    """Return the last line that reports an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    return (errors or lines or ["it logged nothing."])[-1]


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
