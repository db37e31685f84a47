"""A standalone cluster and a Spark Connect server on loopback, from the wheel of pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from quotaform.spark.environment import environment
from tests.waiting import wait_until

_HOME: Final = Path(pyspark.__file__).parent
_LOOPBACK: Final = "127.0.0.1"
_PATIENCE: Final = 180.0
"""Seconds that a Java process may take to start while others do."""
_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
MEMORY: Final = "512m"
CONF: Final = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.extraJavaOptions": _SMALL,
    "spark.executor.extraJavaOptions": _SMALL,
    "spark.executor.memory": MEMORY,
    "spark.ui.enabled": "false",
}
"""Settings of an application, with which it finds its place on the cluster here."""


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


def children(pid: int) -> list[int]:
    """Return the processes that a process started."""
    told = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in told.stdout.split()]


@dataclass(frozen=True, slots=True)
class Standalone:
    """A standalone cluster of one master and some workers, with one core each."""

    url: str
    workers: tuple[JavaProcess, ...]
    folder: Path

    @property
    def options(self) -> tuple[str, ...]:
        """The options by which a command runs on it."""
        return ("--master", self.url, *(f"--spark-conf={name}={value}" for name, value in CONF.items()))

    def executors(self) -> list[int]:
        """Return the executors that run."""
        return [pid for worker in self.workers for pid in children(worker.pid)]

    def started_executors(self) -> int:
        """Return how many executors were ever started."""
        return len(list(self.folder.glob("work*/app-*/*")))

    def kill_busy_executor(self) -> None:
        """Wait until an executor runs Python code of a task, and kill it; its worker starts another one."""
        wait_until(lambda: any(map(children, self.executors())), _PATIENCE)
        busy = [pid for pid in self.executors() if children(pid)]
        os.kill(busy[0], signal.SIGKILL)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """Start a cluster, and stop it."""
    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        place = ("--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
        master = stack.enter_context(_java(folder / "master.log", "spark-class", f"{deploy}.master.Master", *place))
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        master.wait_for("(New state: ALIVE)")
        size = ("--cores", "1", "--memory", MEMORY)
        started = [
            stack.enter_context(
                _java(
                    folder / f"worker{number}.log",
                    "spark-class",
                    f"{deploy}.worker.Worker",
                    *place,
                    *size,
                    *("--work-dir", str(folder / f"work{number}"), url),
                )
            )
            for number in range(workers)
        ]
        for worker in started:
            worker.wait_for("(Successfully registered with master)")
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
        "SPARK_DAEMON_JAVA_OPTS": _SMALL,
        # Its port would be the same for every master.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_REMOTE": None,
        "MASTER": None,
    }
