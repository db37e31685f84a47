"""A standalone cluster and a Spark Connect server on loopback, from the wheel of pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyspark

from quotaform.fleet.options import environment
from tests.spark.shared_classes import JAVA_OPTIONS
from tests.waiting import wait_until

_HOME: Final = Path(pyspark.__file__).parent
_LOOPBACK: Final = "127.0.0.1"
_PATIENCE: Final = 180.0
"""Seconds that a Java process may take to start while others do."""
MEMORY: Final = "512m"
CONF: Final = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": MEMORY,
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
}
"""Settings of an application, with which it finds its place on the cluster here."""
_RUNNING: Final = re.compile(r"Executor: Running task .*\(TID (\d+)\)")
_ENDED: Final = re.compile(r"Executor: (?:Finished|Exception in|Executor .*) task .*\(TID (\d+)\)")


class JavaProcess:
    """A Java process of Spark, and what it logs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._log = log

    def wait_for(self, pattern: str) -> str:
        """Wait until it has logged something, and return the first group."""
        found: list[str] = []

        def look() -> list[str]:
            assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
            found.extend(re.findall(pattern, self._log.read_text(encoding="utf-8")))
            return found

        wait_until(look, _PATIENCE)
        return found[0]


@dataclass(frozen=True, slots=True)
class Standalone:
    """A standalone cluster of one master and some workers, with two cores each."""

    url: str
    workers: tuple[JavaProcess, ...]
    folder: Path
    _killed: set[Path] = field(default_factory=set)

    @property
    def session(self) -> Mapping[str, Any]:
        """The `SessionOptions` of a session with one executor on each of two workers."""
        conf = {
            **CONF,
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        return {"master": self.url, "conf": conf}

    def wait(self) -> None:
        """Wait until the workers have started."""
        for worker in self.workers:
            worker.wait_for("(Successfully registered with master)")

    def started_executors(self) -> int:
        """Return how many executors have ever started, and can be given tasks."""
        return sum("Successfully registered with driver" in log.read_text("utf-8") for log in self._executors())

    def kill_busy_executor(self) -> None:
        """Wait until an executor runs a task, and kill it; its worker starts another one."""
        log, pid = self._busy_executor()
        self._killed.add(log)
        os.kill(pid, signal.SIGKILL)

    def kill_busy_python(self) -> None:
        """Wait until an executor runs a task, and kill its Python workers; the daemon that made them makes others."""
        kill_python(self._busy_executor()[1])

    def _busy_executor(self) -> tuple[Path, int]:
        """Wait until an executor runs a task, and return its log and its id as a process."""
        wait_until(lambda: any(map(self._is_busy, self._executors())), _PATIENCE)
        log = next(filter(self._is_busy, self._executors()))
        application, number = log.parts[-3:-1]
        command = f"--executor-id {number} .*--app-id {application} "
        (pid,) = (pid for worker in self.workers for pid in _children(worker.pid, command))
        return log, pid

    def _executors(self) -> Iterator[Path]:
        """Return the logs of all executors."""
        return self.folder.glob("work*/app-*/*/stderr")

    def _is_busy(self, log: Path) -> bool:
        text = log.read_text(encoding="utf-8")
        return log not in self._killed and not {*_RUNNING.findall(text)} <= {*_ENDED.findall(text)}


def kill_python(pid: int) -> None:
    """Kill the Python workers of a Java process of Spark, but for the daemon that makes them."""
    for daemon in _children(pid, "pyspark.daemon"):
        for worker in _children(daemon):
            os.kill(worker, signal.SIGKILL)


def _children(pid: int, command: str = ".") -> list[int]:
    """Return the processes that a process started with commands that match a pattern."""
    told = subprocess.run(["pgrep", "-P", str(pid), "-f", "--", command], capture_output=True, text=True, check=False)
    return [int(line) for line in told.stdout.split()]


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """Start a cluster, and stop it; its workers may still be starting."""
    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        place = ("--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
        master = stack.enter_context(_java(folder / "master.log", "spark-class", f"{deploy}.master.Master", *place))
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        master.wait_for("(New state: ALIVE)")
        started = [
            stack.enter_context(
                _java(
                    folder / f"worker{number}.log",
                    "spark-class",
                    f"{deploy}.worker.Worker",
                    *place,
                    *("--cores", "2", "--memory", "1g", "--work-dir", str(folder / f"work{number}"), url),
                )
            )
            for number in range(workers)
        ]
        yield Standalone(url, tuple(started), folder)


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server with two threads, give its URL, and stop it."""
    settings = {
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **CONF,
    }
    arguments = (text for name, value in settings.items() for text in ("--conf", f"{name}={value}"))
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    with _java(folder / "connect.log", "spark-submit", "--master", "local[2]", *arguments, *server) as process:
        address = process.wait_for(r"Spark Connect server started at: (\S+)")
        yield f"sc://{address}"


@contextmanager
def _java(log: Path, script: str, *arguments: str) -> Iterator[JavaProcess]:
    """Start a Java process, and stop it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with environment(_variables(log.parent)), log.open("wb") as output:
        process = subprocess.Popen(
            [_HOME / "bin" / script, *arguments],
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # So that Ctrl-C ends the tests, which then stop it.
            start_new_session=True,
        )
    try:
        yield JavaProcess(process, log)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            # With what it started.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _variables(folder: Path) -> Mapping[str, str | None]:
    return {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "640m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        # Its port would be the same for every master.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_REMOTE": None,
        "MASTER": None,
    }
