"""The sandbox: starts a real Apache Kafka on loopback and stops it again, through a supervisor that outlives its owner.

Storage is formatted by `kafka.tools.StorageTool` for each start: half a second buys a cluster id of its own and storage
that is what Kafka says it is. With ZooKeeper the first broker makes the id.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Self

from quotaform.model.errors import SandboxError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox import supervisor
from quotaform.sandbox.configuration import (
    CONTROLLER,
    EXPORTER_RULES,
    HOST,
    PLAINTEXT,
    PROTOCOLS,
    SCRAM,
    USERS,
    Node,
    accepts,
    brokers_seen,
    free_ports,
    make_certificates,
    monitoring_options,
    new_uuid,
    node_properties,
    render_properties,
    security_properties,
)
from quotaform.sandbox.release import (
    EXPORTER,
    LOGGING,
    Release,
    Runtime,
    cache_directory,
    chosen_release,
    find_jars,
    find_java,
    java_environment,
    make_directory,
    release_of,
    shown,
)

_TRIES = 5
_TIMEOUT_SECONDS = 120.0  # seconds that a start may take; it takes 1 to 3, but a busy machine may be slower by far
_ZOOKEEPER = "ZooKeeper"
_ERROR_LINE = re.compile(r"\b(ERROR|FATAL)\b|Exception|Error")
_END_SECONDS = 40.0
"""Seconds to wait for the supervisor's end; it takes one or two, but a busy machine may be slower by far."""


class SupervisorClient:
    """Starts processes and ends them all, through a supervisor that outlives its owner."""

    def __init__(self, *, inherited: Sequence[int] = ()) -> None:
        """Start the supervisor. The data directory, `directory`, goes with the supervisor."""
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
            raise SandboxError(f"The sandbox could not start a process: {answer['error']}.")
        return answer


class PortTakenError(Exception):
    """Another process took a port after it was chosen and before the broker bound it."""


class Sandbox:
    """One Apache Kafka cluster on 127.0.0.1, with data of its own: KRaft in combined mode, or ZooKeeper before 3.3.

    | brokers | secured | what                                                                       |
    | ------- | ------- | -------------------------------------------------------------------------- |
    | 1       | no      | one PLAINTEXT listener, everything allowed                                 |
    | 3       | no      | a quorum of three, usable with one of them gone                            |
    | any     | yes     | SASL_PLAINTEXT, SASL_SSL, MTLS, TLS and PLAINTEXT, with an authorizer      |

    Kafka is of the newest release in `quotaform.sandbox.release`, unless `kafka`, QUOTAFORM_SANDBOX_KAFKA or
    KAFKA_HOME asks for another one. Every start makes new storage, hence has its own cluster id. Whatever
    happens to the process that started it, the brokers end and their data is removed: see
    `quotaform.sandbox.supervisor`.

    `release` is which Kafka it is, `cluster_id` what its brokers report, and `pids` are those of each node's latest
    process.
    """

    release: Release
    runtime: Runtime
    cluster_id: str

    def __init__(
        self,
        brokers: int = 1,
        *,
        secured: bool = False,
        properties: Mapping[str, str] | None = None,
        exporter: bool = False,
        jmx: bool = False,
        jvm: Sequence[str] = (),
        kafka: str | None = None,
    ) -> None:
        """Describe a sandbox; `start` or `with` starts it.

        Brokers are numbered from 1. `properties` win over the sandbox's own, and `jvm` are more options of the
        brokers' JVM. With `exporter` each broker serves the metrics of its quotas to Prometheus
        (`metrics_urls`), with `jmx` it opens a port for JMX on loopback, without authentication
        (`jmx_addresses`). `kafka` is a release such as `3.3` or `3.3.2`.
        """
        if brokers < 1:
            raise UsageError(f"A sandbox needs at least 1 broker, not {brokers}.")
        self._chosen = chosen_release(kafka)
        self.secured = secured
        self._brokers = brokers
        self._properties = dict(properties or {})
        self._has_exporter = exporter
        self._has_jmx = jmx
        self._jvm = tuple(jvm)
        self._running: SupervisorClient | None = None
        self._exporter: Path | None = None
        self._nodes: dict[int, Node] = {}
        self.pids: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Lifecycle

    def start(self, *, inherited: Sequence[int] = (), progress: Progress = no_progress) -> Self:
        """Start all brokers and wait until they answer; a started sandbox is left as it is."""
        if self._running is not None:
            return self
        make_directory(cache_directory())
        java, jars = find_java(), find_jars(progress, self._chosen)
        _require_without(os.pathsep, jars[0].parent, "QUOTAFORM_CACHE or KAFKA_HOME")
        self.release = release_of(jars)
        if self.secured and not self.release.runs_secured_on(java):
            raise SandboxError(
                f"Kafka {self.release} authenticates nobody on Java {java.version}; "
                "set JAVA_HOME to a Java of 17 to 23."
            )
        if self._has_exporter:
            [self._exporter] = EXPORTER.jars(progress)
            # The JVM takes what follows the first `=` as the agent's options.
            _require_without("=", self._exporter.parent, "QUOTAFORM_CACHE")
        progress("Starting Apache Kafka", 0, 0)
        for _ in range(_TRIES):
            self._running = SupervisorClient(inherited=inherited)
            self._nodes, self.pids = {}, {}
            self.runtime = Runtime(java, jars, self._running.directory)
            try:
                self._start()
            except PortTakenError:
                self.stop()
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise SandboxError(f"Other processes took the sandbox's ports on {HOST} {_TRIES} times in a row; try again.")

    def _start(self) -> None:
        """Configure, format and start the nodes, and wait until each of them sees them all."""
        directory = self.data_dir
        _require_without(",", directory, "TMPDIR")
        (directory / "tmp").mkdir()
        (directory / "log4j2.properties").write_text(LOGGING, encoding="ascii")
        (directory / EXPORTER_RULES).write_bytes(resources.files(__package__).joinpath(EXPORTER_RULES).read_bytes())
        self.cluster_id = "" if self.release.has_zookeeper else new_uuid()
        protocols = {PLAINTEXT: "PLAINTEXT"}
        more: dict[str, str] = {}
        if self.secured:
            # With ZooKeeper those without TLS.
            has_tls = not self.release.has_zookeeper
            protocols = {name: each for name, each in PROTOCOLS.items() if has_tls or not each.endswith("SSL")}
            more = security_properties(make_certificates(directory / "certificates"), self.release)
        zookeeper = ""
        if self.release.has_zookeeper:
            zookeeper = self._start_zookeeper()
        else:
            protocols[CONTROLLER] = "SASL_PLAINTEXT" if self.secured else "PLAINTEXT"
        nodes = self._make_nodes(list(protocols))
        for node in nodes:
            own = node_properties(node, nodes, protocols, self.release, zookeeper)
            node.settings.write_text(render_properties({**own, **more, **self._properties}), encoding="ascii")
        if not zookeeper:
            self._format(nodes)
        for node in nodes:
            self._spawn(node)
        self._wait_until_ready(nodes, see=self._brokers)

    def stop(self) -> None:
        """Stop all brokers, remove the data directory and wait for both; a stopped sandbox is left as it is."""
        supervisor, self._running = self._running, None
        if supervisor is not None:
            supervisor.stop()

    def detach(self) -> None:
        """Keep the sandbox running after this process; a SIGTERM to its supervisor ends it."""
        self._supervisor.detach()
        self._running = None

    def _make_nodes(self, listeners: Sequence[str]) -> list[Node]:
        ports = iter(free_ports(self._brokers * (len(listeners) + self._has_exporter + self._has_jmx)))
        for number in range(1, self._brokers + 1):
            place = self.data_dir / f"node-{number}"
            place.mkdir()
            self._nodes[number] = Node(
                number,
                place,
                new_uuid(),
                {listener: next(ports) for listener in listeners},
                metrics_port=next(ports) if self._has_exporter else None,
                jmx_port=next(ports) if self._has_jmx else None,
            )
        return list(self._nodes.values())

    def _start_zookeeper(self) -> str:
        """Start ZooKeeper and return its address; brokers wait until it answers."""
        directory = self.data_dir / "zookeeper"
        directory.mkdir()
        [port] = free_ports(1)
        settings = directory / "zoo.cfg"
        properties = {
            "dataDir": str(directory / "data"),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            "maxClientCnxns": "0",
            "tickTime": "500",
            "maxSessionTimeout": "60000",
            "admin.enableServer": "false",
        }
        settings.write_text(render_properties(properties), encoding="ascii")
        argv = self.runtime.command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(settings),
            # The data is removed anyway: nothing has to be on the disk before an answer.
            options=["-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true"],
        )
        self._supervisor.spawn(_ZOOKEEPER, argv, directory / "server.log")
        return f"{HOST}:{port}"

    def _format(self, nodes: Sequence[Node]) -> None:
        """Format all nodes' storage at once; where Kafka can, as a quorum whose voters may change (KIP-853)."""
        more = []
        if self.release.has_dynamic_voters:
            more = ["--initial-controllers", ",".join(f"{node.voter}:{node.directory_id}" for node in nodes)]
        if self.secured and self.release.formats_scram:
            known = [(user, name) for user in USERS.values() for name in user.mechanisms if name in SCRAM]
            for user, mechanism in known:
                more += ["--add-scram", f"{mechanism}=[name={user.name},password={user.password}]"]
        names = [f"format {node.number}" for node in nodes]
        for node, name in zip(nodes, names, strict=True):
            argv = self.runtime.command(
                "kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id,
                "--config", str(node.settings), *more,
            )  # fmt: skip
            self._supervisor.spawn(name, argv, node.directory / "format.log")
        for node, name in zip(nodes, names, strict=True):
            if self._wait_for_exit(name):
                log = (node.directory / "format.log").read_text(encoding="utf-8", errors="replace")
                raise SandboxError(f"Kafka's storage could not be formatted: {_error_line(log)}")

    def _spawn(self, node: Node) -> None:
        options = [*monitoring_options(node, self._exporter, self.data_dir), *self._jvm]
        argv = self.runtime.command("kafka.Kafka", str(node.settings), options=options)
        self.pids[node.number] = self._supervisor.spawn(node.name, argv, node.log)

    def _wait_until_ready(self, nodes: Iterable[Node], *, see: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        waiting = list(nodes)
        while waiting:
            node = waiting[0]
            if self.release.has_zookeeper:
                self.cluster_id = _written_cluster_id(node)
            # A broker opens its listeners one after the other.
            if brokers_seen(node.ports[PLAINTEXT], self.cluster_id) >= see and all(map(accepts, node.ports.values())):
                waiting.pop(0)
                continue
            if self.release.has_zookeeper and self._supervisor.exit_code(_ZOOKEEPER) is not None:
                # Nothing else keeps it from starting with a configuration that is always the same.
                raise PortTakenError
            for other in waiting:
                if (code := self._supervisor.exit_code(other.name)) is not None:
                    log = other.log_tail(200)
                    if "Address already in use" in log:
                        raise PortTakenError
                    ended = f"Broker {other.number} ended while starting (exit code {code})"
                    raise SandboxError(f"{ended}: {_error_line(log)}")
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"Broker {node.number} did not answer within {_TIMEOUT_SECONDS:.0f} seconds; "
                    f"the last error in its log: {_error_line(node.log_tail(200))}"
                )
            time.sleep(0.03)

    def _wait_for_exit(self, name: str) -> int:
        """Wait until a process has ended, and return how."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while (code := self._supervisor.exit_code(name)) is None:
            if time.monotonic() > deadline:
                raise SandboxError(f"The sandbox's process ({name}) did not end within {_TIMEOUT_SECONDS:.0f} seconds.")
            time.sleep(0.02)
        return code

    # Properties

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers: of the PLAINTEXT listener, of SASL_PLAINTEXT in a secured sandbox."""
        listener = "SASL_PLAINTEXT" if self.secured else PLAINTEXT
        return ",".join(node.address(listener) for node in self._started.values())

    @property
    def listeners(self) -> dict[str, str]:
        """The address of each listener of the first broker, by name."""
        node = self._started[1]
        return {name: node.address(name) for name in node.ports if name != CONTROLLER}

    @property
    def metrics_urls(self) -> dict[int, str]:
        """The URL of each broker's metrics, by its number; empty without an exporter."""
        nodes = self._started.values()
        return {node.number: f"http://{HOST}:{node.metrics_port}/metrics" for node in nodes if node.metrics_port}

    @property
    def jmx_addresses(self) -> dict[int, str]:
        """The address of each broker's JMX, by its number; empty without JMX."""
        return {node.number: f"{HOST}:{node.jmx_port}" for node in self._started.values() if node.jmx_port}

    @property
    def supervisor_pid(self) -> int:
        """The process id of the supervisor."""
        return self._supervisor.pid

    @property
    def data_dir(self) -> Path:
        """The directory with everything of this sandbox; it goes when the sandbox stops."""
        return self._supervisor.directory

    def run_tool(
        self, main_class: str, *arguments: str, input: str | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own commands, such as `kafka.admin.ConfigCommand`, and return what it said."""
        return subprocess.run(  # noqa: S603 (a class of Kafka's, by the caller's wish)
            self.runtime.command(main_class, *arguments),
            # A tool that asks gets an end of file, never the terminal.
            input=input or "",
            capture_output=True,
            text=True,
            env=java_environment(),
            timeout=timeout,
            check=False,
        )

    @property
    def _supervisor(self) -> SupervisorClient:
        if self._running is None:
            raise SandboxError("The sandbox is not running; start it first.")
        return self._running

    @property
    def _started(self) -> Mapping[int, Node]:
        """The nodes. Raises `SandboxError` if the sandbox is not running."""
        _ = self._supervisor
        return self._nodes


def _require_without(character: str, directory: Path, variable: str) -> None:
    """Refuse a directory in whose name Java or Kafka would see two."""
    if character in str(directory):
        raise SandboxError(
            f"The sandbox cannot use {shown(directory)}, because its name contains {character!r}; "
            f"set {variable} to another directory."
        )


def _written_cluster_id(node: Node) -> str:
    """Return the cluster id that a broker with ZooKeeper has written next to its data; empty if it has not yet."""
    try:
        text = (node.directory / "data" / "meta.properties").read_text(encoding="ascii")
    except OSError:
        return ""
    return next((line[11:] for line in text.splitlines() if line.startswith("cluster.id=")), "")


def _error_line(text: str) -> str:
    """Return the last line that reports an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    errors = [line for line in lines if _ERROR_LINE.search(line)]
    return (errors or lines or ["it logged nothing."])[-1]
