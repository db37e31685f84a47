"""JMX, read by Kafka's own JmxTool: a Java process for each answer, so that new buckets are seen at once.

JmxTool looks for MBeans when it starts and never again. Source: org.apache.kafka.tools.JmxTool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import environ
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from time import monotonic, time
from typing import Final

from quotaform.core.usage.format.jmxtool import parse_jmxtool
from quotaform.core.usage.metric.origin import Origin
from quotaform.errors import MetricsError
from quotaform.metrics.reading import ATTRIBUTES, BODY_LIMIT, OBJECT_NAMES, Reading, read_items
from quotaform.model.server import parse_server
from quotaform.model.text import inert

_NOTHING: Final = b"No matched attributes"
_NO_CONNECTION: Final = b"Could not connect to JMX url"
_REJECTED: Final = b"filter status: REJECTED"
"""What Java says of an object that the filter of the command line leaves out."""
_DATE: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSX"


@dataclass(slots=True)
class JmxReader:
    """Reads the JMX of a broker.

    Attributes:
        address: Host and port.
        command: The command line of JmxTool, without options.
        origin: What is known about the broker.
    """

    address: str
    command: Sequence[str]
    origin: Origin
    _process: Popen[bytes] | None = None

    @property
    def shown(self) -> str:
        """Host and port."""
        return f"JMX at {self.address}"

    def read(self, timeout: float) -> Reading:
        """Ask once; see `quotaform.metrics.reading.Reader`."""
        if problem := parse_server(self.address).problem(environ):
            raise MetricsError(self.shown, problem)
        at, started = time(), monotonic()
        # A session of its own: a Ctrl-C is for the recording, which reads this answer to its end.
        try:
            self._process = process = Popen(  # noqa: S603 (Kafka's own command)
                self._arguments(), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as failure:
            # No memory or no process left, or Java was removed while it is recorded.
            problem = f"cannot be read, as {inert(self.command[0])} cannot be started: {failure.strerror or failure}"
            raise MetricsError(self.shown, problem) from failure
        try:
            output, error = process.communicate(timeout=timeout)
        except TimeoutExpired:
            process.kill()
            _, error = process.communicate()
            if _NO_CONNECTION in error:
                problem = f"cannot be reached within {timeout:g} s; check the address, and JMX_PORT of the broker"
            else:
                problem = f"did not answer within {timeout:g} s; check that it is a port of JMX, or ask less often"
            raise MetricsError(self.shown, problem) from None
        finally:
            self.cancel()
        seconds = monotonic() - started
        if len(output) > BODY_LIMIT:
            raise MetricsError(self.shown, f"answered with more than {BODY_LIMIT >> 20} MiB")
        if _REJECTED in error:
            raise MetricsError(self.shown, "answered with a Java class that is not allowed; check the address")
        if _NOTHING in output or _NOTHING in error:
            return Reading(at, seconds, len(output), ())
        if process.returncode:
            raise MetricsError(self.shown, f"cannot be read: {_last_line(error.decode(errors='replace'))}")
        items = read_items(parse_jmxtool(output, self.origin, at), self.shown, timeout, started)
        return Reading(at, seconds, len(output), items)

    def cancel(self) -> None:
        """End the process of a read that is under way."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()

    def _arguments(self) -> list[str]:
        names = [argument for name in OBJECT_NAMES for argument in ("--object-name", name)]
        url = f"service:jmx:rmi:///jndi/rmi://{self.address}/jmxrmi"
        attributes = ",".join(ATTRIBUTES)
        return [
            *self.command, "--jmx-url", url, *names, "--attributes", attributes, "--date-format", _DATE, "--one-time",
        ]  # fmt: skip


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return inert(lines[-1][:200]) if lines else "JmxTool says nothing about it"
