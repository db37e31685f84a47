"""The Java process that PySpark starts, so that its start can be ended half-way."""

from __future__ import annotations

from signal import Signals
from subprocess import Popen, TimeoutExpired
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf

_PATIENCE: Final = 5.0
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
                self._process.wait(_PATIENCE)
            except TimeoutExpired:
                self._process.kill()
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _start(self, *arguments: Any, **options: Any) -> Popen[bytes]:
        self._process = Popen(*arguments, **options)  # noqa: S603 (what PySpark starts)
        if self._is_ended:
            self._process.terminate()
        return self._process
