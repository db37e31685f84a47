"""A Spark session: the active one, or a quiet local one for the time that it is needed."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final
from warnings import catch_warnings, simplefilter

from quotaform.errors import EngineError
from quotaform.spark.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK: Final = "127.0.0.1"
_ERROR_LINE: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*", re.MULTILINE)
_CONFIG: Final = {
    "spark.app.name": "quotaform",
    "spark.master": "local[*]",
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # A session of seconds is over before the second compiler pays; this halves its processor time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_ENVIRONMENT: Final = {
    # The workers must have the packages that this process has.
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": _LOOPBACK,
}


def require_spark() -> None:
    """Make sure that Spark can be used here.

    Raises:
        EngineError: The extra or a JDK is missing, or the JDK is not one that Spark can use.
    """
    # An older pyspark has no Python data sources.
    if not all(find_spec(module) for module in ("pyspark", "pyarrow", "pyspark.sql.datasource")):
        raise EngineError('The Spark engine is not installed; run: pip install "quotaform[spark]".')
    if _active_session() is None:
        require_java()


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Give the active session, which is left open, or a local one, which is stopped at the end.

    Raises:
        EngineError: Spark is missing or does not start, or it failed while it was used.
    """
    require_spark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    active = _active_session()
    try:
        session = active or _start()
        try:
            yield session
        finally:
            if active is None:
                _stop(session)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise EngineError(
            f"Spark failed: {_cause(str(error))}; run this again, or plan with --engine local."
        ) from error


def _active_session() -> SparkSession | None:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _start() -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # py4j would report every broken connection on stderr, beside the error that is raised for it.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    config = SparkConf().setAll(list(_CONFIG.items()))
    # What the JVM and the Python workers say (start-up lines that cannot be turned off among it) would end up
    # among the results of a command; it is kept for the case that Spark does not start.
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            with _environment(_ENVIRONMENT):
                gateway = SparkContext._gateway or launch_gateway(  # type: ignore[no-untyped-call]
                    config, {"stdout": said, "stderr": said}
                )
                return SparkSession(SparkContext(conf=config, gateway=gateway))
        except PySparkException as error:
            raise EngineError(
                f"Spark did not start: {_last_words(said) or error}; check the JDK and the memory."
            ) from error


def _stop(session: SparkSession) -> None:
    from py4j.protocol import Py4JError

    # When the JVM is gone, what ended it is being raised already.
    with suppress(Py4JError, ConnectionError), catch_warnings():
        simplefilter("ignore", RuntimeWarning)
        session.stop()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _last_words(said: IO[str]) -> str:
    """Return the last line that a JVM wrote, stack traces left out."""
    said.seek(0)
    lines = [line.strip() for line in said]
    return next((line for line in reversed(lines) if line and not line.startswith(("at ", "..."))), "")


def _cause(text: str) -> str:
    """Return the line that says what happened: the last error of a Python worker, or else the first line."""
    errors = _ERROR_LINE.findall(text.partition("JVM stacktrace")[0])
    return errors[-1] if errors else text.strip().partition("\n")[0]
