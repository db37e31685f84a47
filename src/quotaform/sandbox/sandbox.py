"""The sandbox: starts a real Apache Kafka on loopback and stops it again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from quotaform.model.errors import SandboxError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.sandbox import security
from quotaform.sandbox.cache import cache_directory, make_directory, shown
from quotaform.sandbox.java import find_java, java_environment
from quotaform.sandbox.node import CONTROLLER, HOST, Monitoring
from quotaform.sandbox.quorum import PortTakenError, Quorum
from quotaform.sandbox.release import Release, chosen_release, find_exporter, find_jars, release_of
from quotaform.sandbox.security import Certificates

_TRIES = 5


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
    """

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
        self._exporter = exporter
        self._jmx = jmx
        self._jvm = tuple(jvm)
        self._quorum: Quorum | None = None

    def __enter__(self) -> Self:
        """Start the sandbox."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the sandbox."""
        self.stop()

    # Lifecycle

    def start(self, *, inherited: Sequence[int] = (), progress: Progress = no_progress) -> Self:
        """Start all brokers and wait until they answer; a started sandbox is left as it is."""
        if self._quorum is not None:
            return self
        if sys.platform == "win32":
            raise SandboxError("The sandbox runs on Linux and macOS only; on Windows use it inside WSL.")
        make_directory(cache_directory())
        java, jars = find_java(), find_jars(progress, self._chosen)
        if any(os.pathsep in str(jar) for jar in jars):
            raise SandboxError(
                f"Java cannot use jars in {shown(jars[0].parent)}, because its name contains {os.pathsep!r}; "
                "set QUOTAFORM_CACHE or KAFKA_HOME to another directory."
            )
        release = release_of(jars)
        if self.secured and not release.runs_secured_on(java):
            raise SandboxError(
                f"Kafka {release} authenticates nobody on Java {java.version}; set JAVA_HOME to a Java of 17 to 23."
            )
        monitoring = Monitoring(find_exporter(progress) if self._exporter else None, self._jmx)
        progress("Starting Apache Kafka", 0, 0)
        for _ in range(_TRIES):
            quorum = Quorum(java, jars, inherited, monitoring, self._jvm, release=release)
            try:
                quorum.start(self._brokers, secured=self.secured, properties=self._properties)
            except PortTakenError:
                quorum.stop()
            except BaseException:
                quorum.stop()
                raise
            else:
                self._quorum = quorum
                return self
        raise SandboxError(f"Other processes took the sandbox's ports on {HOST} {_TRIES} times in a row; try again.")

    def stop(self) -> None:
        """Stop all brokers, remove the data directory and wait for both; a stopped sandbox is left as it is."""
        quorum, self._quorum = self._quorum, None
        if quorum is not None:
            quorum.stop()

    def detach(self) -> None:
        """Keep the sandbox running after this process; a SIGTERM to its supervisor ends it."""
        quorum, self._quorum = self._started, None
        quorum.detach()

    # Faults

    def kill(self, node: int) -> None:
        """Kill a broker with SIGKILL and wait until it is gone; its data stays."""
        self._started.signal(node, signal.SIGKILL)
        self._started.wait_for_exit(node)

    def pause(self, node: int) -> None:
        """Freeze a broker: its connections stay open and nothing answers (SIGSTOP)."""
        self._started.signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Resume a frozen broker (SIGCONT)."""
        self._started.signal(node, signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Start a broker again with its data and ports, stopping it first if it runs, and wait until it answers.

        After a `kill` Kafka lets it register again only when its old session is over; that takes up to
        `broker.session.timeout.ms`, 9 seconds by default.
        """
        self._started.restart(node)

    # Properties

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers: of the PLAINTEXT listener, of SASL_PLAINTEXT in a secured sandbox."""
        listener = "SASL_PLAINTEXT" if self.secured else security.PLAINTEXT
        return ",".join(node.address(listener) for node in self._started.nodes.values())

    @property
    def listeners(self) -> dict[str, str]:
        """The address of each listener of the first broker, by name."""
        node = self._started.nodes[1]
        return {name: node.address(name) for name in node.ports if name != CONTROLLER}

    @property
    def metrics_urls(self) -> dict[int, str]:
        """The URL of each broker's metrics, by its number; empty without an exporter."""
        nodes = self._started.nodes.values()
        return {node.number: f"http://{HOST}:{node.metrics_port}/metrics" for node in nodes if node.metrics_port}

    @property
    def jmx_addresses(self) -> dict[int, str]:
        """The address of each broker's JMX, by its number; empty without JMX."""
        return {node.number: f"{HOST}:{node.jmx_port}" for node in self._started.nodes.values() if node.jmx_port}

    @property
    def release(self) -> Release:
        """Which Kafka it is."""
        return self._started.release

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as its brokers report it."""
        return self._started.cluster_id

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each node's latest process."""
        return dict(self._started.pids)

    @property
    def supervisor_pid(self) -> int:
        """The process id of the supervisor."""
        return self._started.supervisor_pid

    @property
    def data_dir(self) -> Path:
        """The directory with everything of this sandbox; it goes when the sandbox stops."""
        return self._started.directory

    @property
    def java(self) -> Path:
        """The `java` command in use."""
        return self._started.runtime.java.command

    @property
    def classpath(self) -> str:
        """The class path with Kafka's jars."""
        return self._started.runtime.class_path

    @property
    def certificates(self) -> Certificates:
        """The PEM files of a secured sandbox."""
        if (certificates := self._started.certificates) is None:
            raise UsageError("This sandbox has no certificates; start it secured.")
        return certificates

    def client_properties(
        self,
        listener: str,
        *,
        user: str | None = None,
        password: str | None = None,
        mechanism: str | None = None,
        certificate: str = security.SUPER_CERTIFICATE,
    ) -> str:
        """Return the text of a Java-style client properties file for a listener.

        The user is `admin` if not given (`quotaform.sandbox.security.USERS`), its mechanism the first of the
        user, PLAIN before Kafka 3.5. A certificate, for MTLS, is `quota-admin`, a super user, or `tenant`,
        without rights.
        """
        return security.client_properties(
            listener,
            self._started.certificates,
            user=user,
            password=password,
            mechanism=mechanism or (None if self.release.formats_scram else "PLAIN"),
            certificate=certificate,
        )

    def run_tool(
        self, main_class: str, *arguments: str, input: str | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own commands, such as `kafka.admin.ConfigCommand`, and return what it said."""
        return subprocess.run(  # noqa: S603 (a class of Kafka's, by the caller's wish)
            self._started.runtime.command(main_class, *arguments),
            # A tool that asks gets an end of file, never the terminal.
            input=input or "",
            capture_output=True,
            text=True,
            env=java_environment(),
            timeout=timeout,
            check=False,
        )

    def log_tail(self, node: int = 1, *, lines: int = 20) -> str:
        """Return the last lines of a broker's log: warnings and errors."""
        return self._started.nodes[node].log_tail(lines)

    @property
    def _started(self) -> Quorum:
        if self._quorum is None:
            raise SandboxError("The sandbox is not running; start it first.")
        return self._quorum
