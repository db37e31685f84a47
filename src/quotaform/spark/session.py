"""Provides a Spark session: the active one, or a temporary local one."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final
from warnings import catch_warnings, simplefilter

from quotaform.errors import EngineError
from quotaform.interrupt import held_signals
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
    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    own: SparkSession | None = None
    try:
        active = _active_session()
        if active is not None:
            yield active
        else:
            with held_signals():
                own = _start()
            yield own
    except (Py4JNetworkError, ConnectionError) as error:
        raise _failed("its Java process has ended") from error
    except (PySparkException, Py4JError) as error:
        raise _failed(_cause(str(error))) from error
    finally:
        if own is not None:
            _stop(own)


def _failed(why: str) -> EngineError:
    return EngineError(f"Spark failed: {why}; run this again, or plan with --engine local.")


def _active_session() -> SparkSession | None:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _start() -> SparkSession:
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _log_py4j(False)
    environment = {
        # Another Spark that is installed here would be of another version.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": _LOOPBACK,
        # The workers must have the packages that this process has.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # They are started in the current folder, which may contain an untrusted pyspark.py.
        "PYTHONSAFEPATH": "1",
    }
    config = SparkConf().setAll(list(_CONFIG.items()))
    # What the JVM and the Python workers say (start-up lines that cannot be turned off among it) would end up
    # among the results of a command; it is kept for the case that Spark does not start.
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            with _environment(environment):
                gateway = SparkContext._gateway or launch_gateway(  # type: ignore[no-untyped-call]
                    config, {"stdout": output, "stderr": output}
                )
                return SparkSession(SparkContext(conf=config, gateway=gateway))
        except PySparkException as error:
            raise EngineError(
                f"Spark did not start: {_last_line(output) or error}; check the JDK and the memory."
            ) from error


def _stop(session: SparkSession) -> None:
    from py4j.protocol import Py4JError

    # When the JVM is gone, what ended it is being raised already.
    with suppress(Py4JError, ConnectionError), catch_warnings():
        simplefilter("ignore", RuntimeWarning)
        session.stop()
    _log_py4j(True)


def _log_py4j(is_shown: bool) -> None:
    """Show or hide what py4j logs: a traceback of every broken connection, beside the error that is raised for it."""
    logging.getLogger("py4j").propagate = is_shown
    # It logs some of them as if it were the application itself.
    root = logging.getLogger()
    (root.removeFilter if is_shown else root.addFilter)(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


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


def _last_line(output: IO[str]) -> str:
    """Return the last line that a JVM wrote, stack traces left out."""
    output.seek(0)
    lines = [line.strip() for line in output]
    return next((line for line in reversed(lines) if line and not line.startswith(("at ", "..."))), "")


def _cause(text: str) -> str:
    """Return the line that says what happened: the last error of a Python worker, or else the first line."""
    errors = _ERROR_LINE.findall(text.partition("JVM stacktrace")[0])
    return errors[-1] if errors else text.strip().partition("\n")[0]
