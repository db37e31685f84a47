"""What of an error of Spark says what happened, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from quotaform.errors import EngineError

_WORKER_ERROR: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*", re.MULTILINE)
_JAVA_ERROR: Final = re.compile(r"^: ([\w.$]+: .*)", re.MULTILINE)
"""What py4j writes below `An error occurred while calling`."""
_CONNECT_ERROR: Final = re.compile(r'^\s*details = "(.*)"', re.MULTILINE)
"""What gRPC writes below `RPC that terminated with`."""
_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""What Spark calls it when rows are gone that must not be made again, see `quotaform.spark.job.kept_rows`."""
_LOG_ERROR: Final = re.compile(r"^\S+ \S+ ERROR \w+: (.*)")
_PYTHON: Final = (
    "let the executors run a Python with quotaform and of the same version: set PYSPARK_PYTHON, or send a packed "
    "environment (docs/spark.md)"
)
_REMEDIES: Final = (
    (re.compile(r"No module named|Cannot run program|PYTHON_VERSION_MISMATCH|ATTRIBUTE_NOT_FOUND"), _PYTHON),
    (
        re.compile(r"InvalidClassException|serialVersionUID|NoSuchMethodError|ClassNotFoundException"),
        "the cluster runs another version of Spark; install the pyspark of that version, or use a cluster of this one",
    ),
    (
        re.compile(r"OutOfMemoryError|exceeds max allowed|maxResultSize|Java heap space"),
        "give Spark more memory: --spark-conf spark.driver.memory=4g or spark.executor.memory=4g",
    ),
)
AGAIN: Final = "run this again"
_AGAIN: Final = f"{AGAIN}, or with --engine local"


def engine_error(text: str, *, why: str | None = None, again: str = _AGAIN) -> EngineError:
    """Return the error for one that Spark raised.

    Args:
        why: What happened; the line of the message that says it, if not given.
        again: The remedy for what is not known to have another one.
    """
    why = why or cause(text)
    remedy = next((remedy for pattern, remedy in _REMEDIES if pattern.search(text)), again)
    return EngineError(f"Spark failed: {why.removesuffix('.')}; {remedy}.")


def cause(text: str) -> str:
    r"""Return the line that says what happened: an error of a Python worker, of Java or of gRPC, or the first line.

    >>> cause("An error occurred while calling None.\n: java.lang.IllegalArgumentException: too small\n\tat x")
    'java.lang.IllegalArgumentException: too small'
    >>> cause('<RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "connection refused"\n>')
    'connection refused'
    """
    if _LOST in text:
        return "an executor was lost, and with it results that were not read yet"
    text = text.partition("JVM stacktrace")[0]
    patterns = (_WORKER_ERROR, _JAVA_ERROR, _CONNECT_ERROR)
    found = next(filter(None, (pattern.findall(text) for pattern in patterns)), None)
    return found[-1] if found else text.strip().partition("\n")[0]


def start_cause(text: str, log: Iterable[str]) -> str:
    r"""Return why a session did not start: what Java raised, or else the last error that it logged, or its last line.

    >>> start_cause("[JAVA_GATEWAY_EXITED] Exited.", ["26/11/22 07:00:00 ERROR SparkContext: Failed.", "\tat x.y(z)"])
    'Failed.'
    >>> start_cause("[JAVA_GATEWAY_EXITED] Exited.", [])
    '[JAVA_GATEWAY_EXITED] Exited.'

    Args:
        text: The message of what was raised here.
        log: The lines that the Java process wrote; stack traces are left out.
    """
    if _JAVA_ERROR.search(text):
        return cause(text)
    lines = [line.strip() for line in log]
    lines = [line for line in lines if line and not line.startswith(("at ", "..."))]
    logged = [match[1] for line in lines if (match := _LOG_ERROR.match(line))]
    return next(reversed(logged or lines), "") or cause(text)
