"""Starts sessions: local, on a master, in spark-submit, or of a server of Spark Connect; says why Spark failed."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryFile, gettempdir
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import uuid4
from warnings import catch_warnings, filterwarnings, simplefilter

from quotaform.fleet.options import Master, Remote, SessionOptions, environment
from quotaform.model.errors import EngineError
from quotaform.model.text import inert, option_of
from quotaform.model.variable import OwnSecret
from quotaform.system.process import held_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The catalog of an unconfigured session is in memory and has no tables. Spark makes the directory `spark-warehouse` for
# them in the working directory nevertheless, as soon as a query is analysed, and fails where it cannot; so it gets a
# temporary one.

_SETTINGS: Final = ("spark.sql.", "spark.hadoop.", "spark.driver.extra")
"""How the names of settings begin by which a catalog may be configured."""
_VARIABLES: Final = (
    *("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
"""Variables from which Spark may take settings."""


def may_have_tables(options: SessionOptions) -> bool:
    """Whether the catalog of a session that is to be started may have tables: only where somebody has configured it."""
    if any(name.startswith(_SETTINGS) for name in options.conf) or any(map(os.environ.get, _VARIABLES)):
        return True
    pyspark = find_spec("pyspark")
    # Of the Spark that is started, which is the installed package.
    return pyspark is None or pyspark.origin is None or Path(pyspark.origin).with_name("conf").exists()


@contextmanager
def temporary_warehouse() -> Iterator[Path]:
    """Yield the path of a directory for tables, which Spark makes when it is needed; removed at the end if empty."""
    path = Path(gettempdir()) / f"quotaform-warehouse-{uuid4().hex}"
    try:
        yield path
    finally:
        # There is none where no query was analysed, and what somebody saved in it is not deleted.
        with suppress(OSError):
            path.rmdir()


_ERRORS: Final = (
    re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*", re.MULTILINE),  # Of a worker
    re.compile(r"^: ([\w.$]+: .*)", re.MULTILINE),  # What py4j writes below `An error occurred while calling`
    re.compile(r'^\s*details = "(.*)"', re.MULTILINE),  # What gRPC writes below `RPC that terminated with`
)
_LOG_ERROR: Final = re.compile(r"^\S+ \S+ ERROR \w+: (.*)")
_REMEDIES: Final = (
    (
        re.compile(r"No module named|Cannot run program|PYTHON_VERSION_MISMATCH|ATTRIBUTE_NOT_FOUND"),
        "let the executors run a Python with quotaform and of the same version: set PYSPARK_PYTHON, or send a packed "
        "environment (docs/spark.md)",
    ),
    (
        re.compile(r"InvalidClassException|serialVersionUID|NoSuchMethodError|ClassNotFoundException"),
        "the cluster runs another version of Spark; install the pyspark of that version, or use a cluster of this one",
    ),
    (
        re.compile(r"OutOfMemoryError|exceeds max allowed|maxResultSize|Java heap space"),
        f"give Spark more memory: {option_of('spark_conf')} spark.driver.memory=4g or spark.executor.memory=4g",
    ),
    (
        re.compile(r"FAILED_READ_FILE|OSError: .* cannot be read: "),
        "restore that file if it is damaged, then run this again",
    ),
)


def engine_error(text: str, *, why: str | None = None, again: str = "run this again") -> EngineError:
    """Return the error for one that Spark raised."""
    why = why or cause(text)
    remedy = next((remedy for pattern, remedy in _REMEDIES if pattern.search(text)), again)
    return EngineError(f"Spark failed: {why.removesuffix('.')}; {remedy}.")


def cause(text: str, log: Iterable[str] = ()) -> str:
    r"""Return what happened: an error of a Python worker, of Java or of gRPC; else the last error or line that was
    logged; else the first line.

    >>> cause("An error occurred while calling None.\n: java.lang.IllegalArgumentException: too small\n\tat x")
    'java.lang.IllegalArgumentException: too small'
    >>> cause('<RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "connection refused"\n>')
    'connection refused'
    >>> cause("[JAVA_GATEWAY_EXITED] Exited.", ["26/11/22 07:00:00 ERROR SparkContext: Failed.", "\tat x.y(z)"])
    'Failed.'
    >>> cause("[JAVA_GATEWAY_EXITED] Exited.")
    '[JAVA_GATEWAY_EXITED] Exited.'

    `log`: The lines that the Java process wrote; stack traces are left out.
    """
    text = text.partition("JVM stacktrace")[0]
    if raised := next(filter(None, (pattern.findall(text) for pattern in _ERRORS)), None):
        return str(raised[-1])
    lines = [line for line in map(str.strip, log) if line and not line.startswith(("at ", "..."))]
    logged = [match[1] for line in lines if (match := _LOG_ERROR.match(line))]
    return next(reversed(logged or lines), "") or text.strip().partition("\n")[0]


_LOOPBACK: Final = "127.0.0.1"
_PATIENCE: Final = 10.0
"""How many seconds a master, or a server of Spark Connect, has to accept a connection."""
TABLE_CONFIG: Final = {
    # Plain readers know no INT96, and it has no statistics by which files could be skipped.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_CONFIG: Final = {
    "spark.app.name": "quotaform",
    # It would be drawn where it is not seen.
    "spark.ui.showConsoleProgress": "false",
    # Else the line of Python is noted that makes each column: half of the time in which a query is built.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    **TABLE_CONFIG,
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


@contextmanager
def classic_session(master: Master, conf: Mapping[str, str], *, has_joins: bool = False) -> Iterator[SparkSession]:
    """Yield a session on a master, which is stopped at the end.

    Raises `EngineError` if the master cannot be reached, or Spark does not start.
    """
    # Asked first whether anything listens: Spark itself would try for a minute.
    reasons: list[str] = []
    for server in master.servers:
        try:
            socket.create_connection((server.host, server.port), timeout=_PATIENCE).close()
            reasons.clear()
            break
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or 'no answer'}")
    if reasons:
        raise EngineError(
            f"The Spark master {inert(master.url)} does not answer ({', '.join(reasons)}); check that it runs and that "
            f"this machine may connect to it, or correct {option_of('master')}."
        )
    # py4j logs a traceback of every broken connection, in addition to the error that is raised; some of them as the
    # application itself. For as long as this process lives: threads of a stream outlive its session for a moment.
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_not_py4j)
    # What another session of Spark Connect left here would be taken for this one.
    variables: dict[str, str | None] = {OwnSecret.SPARK_REMOTE: None, "SPARK_CONNECT_MODE_ENABLED": None}
    # What the JVM and the Python workers say (start-up lines that cannot be turned off among it) would end up
    # among the results of a command; it is kept for the case that Spark does not start.
    with (
        environment(variables),
        temporary_warehouse() as tables,
        TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        ExitStack() as stack,
    ):
        own = _start(master, conf, output, tables, has_joins=has_joins)
        stack.callback(_stop, own)
        if not master.is_local:
            _require_executor(master, own, output)
        yield own


@contextmanager
def submitted_session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session of the Java process that spark-submit started, which is stopped at the end."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with ExitStack() as stack:
        with held_signals():
            own = SparkSession(SparkContext.getOrCreate(SparkConf().setAll(list(conf.items()))))
            stack.callback(_stop, own)
        yield own


@contextmanager
def connect_session(remote: Remote, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session of a Spark Connect server, and release it at the end; the server runs on.

    Raises `EngineError` if the server does not answer, is of another version, or refuses a setting.
    """
    from grpc import FutureTimeoutError, channel_ready_future
    from pyspark import __version__
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    # By this variable, the functions of PySpark know which kind of column to make.
    with environment({"SPARK_CONNECT_MODE_ENABLED": "1"}), catch_warnings(), ExitStack() as stack:
        # It repeats the error of the request.
        filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
        # Of windows over a row per series; a session of one's own only logs it.
        filterwarnings("ignore", "WARN WindowExpression")
        channel = DefaultChannelBuilder(remote.url).toChannel()
        try:  # PySpark itself would try for ten minutes.
            channel_ready_future(channel).result(_PATIENCE)
        except FutureTimeoutError:
            raise EngineError(
                f"The Spark Connect server {inert(remote.shown)} does not answer; check that it runs and that this "
                "machine may connect to it, and whether it needs ;use_ssl=true, or correct "
                f"{option_of('remote')}."
            ) from None
        finally:
            channel.close()
        with held_signals():
            own: Any = SparkSession.builder.config("spark.remote", remote.url).create()
            stack.callback(own.stop)
        # A server that is gone is asked again for half a minute, and not for ten; the wait is in milliseconds.
        own.client.set_retry_policies([DefaultPolicy(max_retries=6, max_backoff=15_000)])
        if not is_compatible(__version__, own.version):
            raise EngineError(
                f"The Spark Connect server {inert(remote.shown)} runs Spark {inert(own.version)}, and pyspark here is "
                f"{__version__}; use a server of Spark {'.'.join(__version__.split('.')[:2])} or a newer one of the "
                "same major version."
            )
        for name, value in TABLE_CONFIG.items():
            # A server may not allow changes of its settings; then tables have what it writes.
            with suppress(PySparkException):
                own.conf.set(name, value)
        for name, value in conf.items():
            try:
                own.conf.set(name, value)
            except PySparkException as error:
                raise EngineError(
                    f"The Spark Connect server does not change {inert(name)} for a session; set it where the server is "
                    f"started, or leave {option_of('spark_conf')} out."
                ) from error
        yield own


def is_compatible(client: str, server: str) -> bool:
    """Whether a Spark Connect server supports a client: one that is not newer, of the same major version.

    >>> is_compatible("4.2.0", "4.2.1"), is_compatible("4.2.0", "4.3.0-SNAPSHOT"), is_compatible("4.2.0", "4.1.1")
    (True, True, False)
    >>> is_compatible("4.2.0", "5.0.0"), is_compatible("4.2.0", "unknown")
    (False, False)
    """
    own, found = ([int(number) for number in re.findall(r"\d+", version)[:2]] for version in (client, server))
    return own[:1] == found[:1] and own <= found


def _start(master: Master, conf: Mapping[str, str], output: IO[str], tables: Path, *, has_joins: bool) -> SparkSession:
    import pyspark
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    settings = _CONFIG | {"spark.master": master.url}
    if master.is_local:
        settings |= _LOCAL_CONFIG
        if not has_joins:
            # A session of seconds is over before the second compiler pays; this halves its processor time. Java would
            # keep a fifth of the usual memory for compiled code then, which some hundred queries fill.
            settings[_JAVA_SETTING] += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    if not may_have_tables(SessionOptions(conf=conf)):
        # With a scheme: the default file system may be another one.
        settings["spark.sql.warehouse.dir"] = tables.as_uri()
    config = SparkConf().setAll(list((settings | dict(conf)).items()))
    # Another Spark that is installed here would be of another version.
    variables = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.is_local:
        # The workers must have the packages that this process has. They are started in the current folder, which may
        # contain an untrusted pyspark.py.
        variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": _LOOPBACK, "PYTHONSAFEPATH": "1"}
    elif python := conf.get("spark.pyspark.python"):
        variables["PYSPARK_PYTHON"] = python
    elif master.is_here:
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    begun: list[Popen[bytes]] = []

    def begin(*arguments: Any, **options: Any) -> Popen[bytes]:
        begun.append(Popen(*arguments, **options))  # noqa: S603 (what PySpark starts)
        return begun[-1]

    java_gateway.Popen = begin  # type: ignore[attr-defined, assignment]
    try:
        with environment(variables):
            # The Java process of an earlier session is used again.
            gateway = SparkContext._gateway or java_gateway.launch_gateway(  # type: ignore[no-untyped-call]
                config, {"stdout": output, "stderr": output}
            )
            context = SparkContext(conf=config, gateway=gateway)
            # Else PySpark prints a traceback when its Java process has ended; an error is raised for that.
            accumulators: Any = getattr(context, "_accumulatorServer", None)
            if accumulators is not None:
                accumulators.handle_error = lambda *_: None
            return SparkSession(context)
    except BaseException as error:
        # PySpark forgets a Java process whose start is interrupted, and that would wait for ever.
        for process in begun:
            process.kill()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None
        if isinstance(error, (PySparkException, Py4JError, ConnectionError)):
            raise _not_started(master, output, str(error)) from error
        raise
    finally:
        java_gateway.Popen = Popen  # type: ignore[attr-defined]


def _not_started(master: Master, output: IO[str], text: str) -> EngineError:
    """Return the error of a session that did not start, from what its Java process wrote, else from an exception."""
    from pyspark import __version__ as version

    output.seek(0)
    why = cause(text, output).removesuffix(".")
    if master.is_local:
        return EngineError(f"Spark did not start: {why}; check the JDK and the memory.")
    return EngineError(
        f"Spark did not start on {inert(master.url)}: {why}; check that it is a Spark {version} master that accepts "
        f"applications of this machine, and {option_of('spark_conf')}."
    )


def _require_executor(master: Master, session: SparkSession, output: IO[str]) -> None:
    """Wait until an executor has started; without one, Spark waits for ever and says so in its log only."""
    settings, context = session.conf, session.sparkContext._jsc.sc()
    if settings.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    # In seconds: YARN and Kubernetes may add a machine first.
    patience = 120.0 if master.url.startswith("spark://") else 900.0
    deadline = monotonic() + patience
    # The driver is one of them.
    while context.getExecutorMemoryStatus().size() < 2:
        if context.isStopped():
            raise _not_started(master, output, "the application was ended")
        if monotonic() > deadline:
            memory, cores = settings.get("spark.executor.memory", "1g"), settings.get("spark.executor.cores", "1")
            raise EngineError(
                f"{inert(master.url)} started no executor within {patience:.0f} s: its workers are busy, or none has "
                f"{memory} of memory and {cores} core(s) free; wait, or ask for less with "
                f"{option_of('spark_conf')} spark.executor.memory=512m."
            )
        sleep(0.1)


def _stop(session: SparkSession) -> None:
    from py4j.protocol import Py4JError

    # When the JVM is gone, what ended it is being raised already.
    with suppress(Py4JError, ConnectionError), catch_warnings():
        simplefilter("ignore", RuntimeWarning)
        session.stop()


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
