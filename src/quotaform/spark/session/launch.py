"""Starts the Java process of a session: a local one, one on a master, or that of spark-submit."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import Signals
from subprocess import Popen, TimeoutExpired
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any, Final
from warnings import catch_warnings, simplefilter

from quotaform.errors import EngineError
from quotaform.interrupt import held_signals
from quotaform.model.text import inert
from quotaform.model.variable import OwnSecret
from quotaform.spark.session.catalog import temporary_warehouse, warehouse_options
from quotaform.spark.session.cause import start_cause
from quotaform.spark.session.endpoint import Master
from quotaform.spark.session.environment import environment

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_PATIENCE: Final = 10.0
"""How many seconds a master has to accept a connection."""
_EXECUTOR_PATIENCE: Final = 120.0
"""How many seconds a standalone cluster has to start an executor."""
_CONTAINER_PATIENCE: Final = 900.0
"""How many seconds YARN and Kubernetes have, which may add a machine first."""
_POLL: Final = 0.1
_EXECUTOR: Final = {"memory": "1g", "cores": "1"}
"""What Spark asks for by default."""
_PYTHON_SETTING: Final = "spark.pyspark.python"
_CONFIG: Final = {
    "spark.app.name": "quotaform",
    # It would be drawn where nobody sees it.
    "spark.ui.showConsoleProgress": "false",
    # Else the line of Python is noted that makes each column: half of the time in which a query is built.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Ten times the default: a fifth less processor time for narrow rows; batches of wide ones end at 64 MB in any case.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
_JAVA_SETTING: Final = "spark.driver.extraJavaOptions"
_LOCAL_CONFIG: Final = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    _JAVA_SETTING: "-XX:+UseSerialGC -XX:-UsePerfData",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
_SHORT_CONFIG: Final = {
    # A session of seconds is over before the second compiler pays; this halves its processor time.
    _JAVA_SETTING: f"-XX:TieredStopAtLevel=1 {_LOCAL_CONFIG[_JAVA_SETTING]}",
}


@contextmanager
def classic_session(master: Master, conf: Mapping[str, str], *, has_joins: bool = False) -> Iterator[SparkSession]:
    """Yield a session on a master, which is stopped at the end.

    Args:
        conf: Settings that take precedence over those here.
        has_joins: As `SessionOptions` has it.

    Raises:
        EngineError: The master cannot be reached, or Spark does not start.
    """
    # Asked first: Spark itself would try for a minute.
    _require_answer(master)
    # What another session of Spark Connect left here would be taken for this one.
    variables: dict[str, str | None] = {OwnSecret.SPARK_REMOTE: None, "SPARK_CONNECT_MODE_ENABLED": None}
    # What the JVM and the Python workers say (start-up lines that cannot be turned off among it) would end up
    # among the results of a command; it is kept for the case that Spark does not start.
    with (
        environment(variables),
        _silent_py4j(),
        temporary_warehouse() as tables,
        TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
    ):
        own: SparkSession | None = None
        try:
            own = _started(master, conf, output, tables, has_joins=has_joins)
            if not master.is_local:
                _require_executor(master, own, output)
            yield own
        finally:
            if own is not None:
                _stop(own)


@contextmanager
def submitted_session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session of the Java process that spark-submit started, which is stopped at the end."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    own: SparkSession | None = None
    with temporary_warehouse() as tables:
        try:
            with held_signals():
                context = SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))
                own = SparkSession(context, options=warehouse_options(context, tables))
            yield own
        finally:
            if own is not None:
                _stop(own)


def _started(
    master: Master, conf: Mapping[str, str], output: IO[str], tables: Path, *, has_joins: bool
) -> SparkSession:
    """Return a session, or end its Java process as soon as a signal arrives.

    PySpark cannot be interrupted at any instruction and leave nothing half-made, so that the signal ends what it
    waits for.
    """
    # Imported before signals are held: it takes a second.
    import pyspark.sql  # noqa: F401

    java = JavaProcess()
    try:
        with held_signals(on_first=java.end):
            return _start(java, master, conf, output, tables, has_joins=has_joins)
    finally:
        java.forget()


def _start(
    java: JavaProcess, master: Master, conf: Mapping[str, str], output: IO[str], tables: Path, *, has_joins: bool
) -> SparkSession:
    import pyspark
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    local = (_LOCAL_CONFIG if has_joins else _LOCAL_CONFIG | _SHORT_CONFIG) if master.is_local else {}
    settings = _CONFIG | local | dict(conf) | {"spark.master": master.url}
    config = SparkConf().setAll(list(settings.items()))
    try:
        # Another Spark that is installed here would be of another version.
        with environment({"SPARK_HOME": str(Path(pyspark.__file__).parent), **_variables(master, conf)}):
            context = SparkContext(conf=config, gateway=java.launch(config, output))
            _silence_accumulators(context)
            return SparkSession(context, options=warehouse_options(context, tables))
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise _not_started(master, output, str(error), java.signal()) from error


def _silence_accumulators(context: SparkContext) -> None:
    """Hide the traceback that PySpark prints when its Java process has ended; an error is raised for that."""
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _not_started(master: Master, output: IO[str], text: str, signal: str | None = None) -> EngineError:
    """Return the error of a session that did not start, from what its Java process wrote, else from an exception.

    Args:
        output: What the process wrote.
        text: The message of the exception.
        signal: What has ended the process, if it was a signal.
    """
    from pyspark import __version__ as version

    output.seek(0)
    why = f"its Java process was ended by {signal}" if signal else start_cause(text, output).removesuffix(".")
    if master.is_local:
        return EngineError(f"Spark did not start: {why}; check the JDK and the memory.")
    return EngineError(
        f"Spark did not start on {inert(master.url)}: {why}; check that it is a Spark {version} master that accepts "
        "applications of this machine, and --spark-conf."
    )


def _require_executor(master: Master, session: SparkSession, output: IO[str]) -> None:
    """Wait until an executor has started; without one, Spark waits for ever and says so in its log only.

    Raises `EngineError` if no executor started in time, or the application was stopped.
    """
    settings, context = session.conf, session.sparkContext._jsc.sc()
    if settings.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    patience = _EXECUTOR_PATIENCE if master.url.startswith("spark://") else _CONTAINER_PATIENCE
    deadline = monotonic() + patience
    # The driver is one of them.
    while context.getExecutorMemoryStatus().size() < 2:
        if context.isStopped():
            raise _not_started(master, output, "the application was ended")
        if monotonic() > deadline:
            memory, cores = (settings.get(f"spark.executor.{name}", default) for name, default in _EXECUTOR.items())
            raise EngineError(
                f"{inert(master.url)} started no executor within {patience:.0f} s: its workers are busy, or none has "
                f"{memory} of memory and {cores} core(s) free; wait, or ask for less with "
                "--spark-conf spark.executor.memory=512m."
            )
        sleep(_POLL)


def _variables(master: Master, conf: Mapping[str, str]) -> dict[str, str | None]:
    """Return the environment in which Spark is started: which Python the executors run, and where they listen."""
    python = conf.get(_PYTHON_SETTING)
    if master.is_local:
        # The workers must have the packages that this process has.
        python = sys.executable
    elif python is None and master.is_here:
        python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    variables: dict[str, str | None] = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if python is not None:
        variables["PYSPARK_PYTHON"] = python
    if master.is_local:
        variables["SPARK_LOCAL_IP"] = _LOOPBACK
        # They are started in the current folder, which may contain an untrusted pyspark.py.
        variables["PYTHONSAFEPATH"] = "1"
    return variables


def _require_answer(master: Master) -> None:
    """Make sure that something listens where a master should."""
    reasons = []
    for server in master.servers:
        try:
            with socket.create_connection(server, timeout=_PATIENCE):
                return
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or 'no answer'}")
    if reasons:
        raise EngineError(
            f"The Spark master {inert(master.url)} does not answer ({', '.join(reasons)}); check that it runs and that "
            "this machine may connect to it, or correct --master."
        )


def _stop(session: SparkSession) -> None:
    from py4j.protocol import Py4JError

    # When the JVM is gone, what ended it is being raised already.
    with suppress(Py4JError, ConnectionError), catch_warnings():
        simplefilter("ignore", RuntimeWarning)
        session.stop()


@contextmanager
def _silent_py4j() -> Iterator[None]:
    """Hide what py4j logs: a traceback of every broken connection, beside the error that is raised for it."""
    own, root = logging.getLogger("py4j"), logging.getLogger()
    was_shown = own.propagate
    own.propagate = False
    # It logs some of them as if it were the application itself.
    root.addFilter(_is_not_py4j)
    try:
        yield
    finally:
        own.propagate = was_shown
        root.removeFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


_END_PATIENCE: Final = 5.0
"""How many seconds a process has to end."""
_MOMENT: Final = 1.0
"""The same, for one whose connection is broken."""


class JavaProcess:
    """The Java process of one start of Spark.

    PySpark returns its process when it has started, and forgets it when that is interrupted; the process would then
    wait for ever.
    """

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._is_ended = False

    def launch(self, config: SparkConf, output: IO[str]) -> JavaGateway:
        """Start the process, or return the gateway to the one that this Python has from an earlier session."""
        from pyspark import SparkContext, java_gateway

        if SparkContext._gateway is not None:
            return SparkContext._gateway
        java_gateway.Popen = self._start  # type: ignore[attr-defined, assignment]
        try:
            return java_gateway.launch_gateway(  # type: ignore[no-untyped-call]
                config, {"stdout": output, "stderr": output}
            )
        finally:
            java_gateway.Popen = Popen  # type: ignore[attr-defined]

    def end(self) -> None:
        """End the process, also one that is just being started; what waits for it in PySpark then fails.

        It may be called by the handler of a signal. The process of an earlier session goes on.
        """
        self._is_ended = True
        if self._process is not None:
            self._process.terminate()

    def signal(self) -> str | None:
        """Return the name of the signal that has ended the process, such as that of a system without memory."""
        if self._process is None or self._is_ended:
            return None
        try:
            code = self._process.wait(_MOMENT)
        except TimeoutExpired:
            return None
        return Signals(-code).name if code < 0 else None

    def forget(self) -> None:
        """Let PySpark start another process the next time, if this one was ended."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if self._is_ended and self._process is not None:
            try:
                self._process.wait(_END_PATIENCE)
            except TimeoutExpired:
                self._process.kill()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _start(self, *arguments: Any, **options: Any) -> Popen[bytes]:
        self._process = Popen(*arguments, **options)  # noqa: S603 (what PySpark starts)
        if self._is_ended:
            self._process.terminate()
        return self._process
