"""What reads a source of measurements, by its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import environ
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from time import monotonic, time
from typing import Final

from quotaform.core.usage.format.exposition import parse_exposition
from quotaform.core.usage.format.jmxtool import parse_jmxtool
from quotaform.core.usage.metric.origin import Origin
from quotaform.core.usage.record.source import MetricsSource, SourceKind
from quotaform.errors import HttpError, MetricsError, UsageError
from quotaform.http.client import Limits, send
from quotaform.http.message import Request, Response, Url
from quotaform.metrics.reading import ATTRIBUTES, BODY_LIMIT, OBJECT_NAMES, Reader, Reading, origin_of, read_items
from quotaform.model.server import parse_server
from quotaform.model.text import inert, quote


def open_reader(source: MetricsSource, cluster: str, jmx_command: Sequence[str] = ()) -> Reader:
    """Return what reads a source; nothing is sent yet.

    Args:
        jmx_command: The command line of JmxTool, for JMX.

    Raises:
        UsageError: It is an invalid URL.
    """
    origin = origin_of(cluster, source.broker)
    if source.kind is SourceKind.JMX:
        return JmxReader(source.address, jmx_command, origin)
    try:
        url = Url.parse(source.address)
    except ValueError as error:
        raise UsageError(f"the source of broker {quote(source.broker)} is an invalid URL: {error}") from None
    return exporter_reader(url, origin)


_HTML: Final = ("<!doctype", "<html")


@dataclass(frozen=True, slots=True)
class WebReader:
    """Reads a source over HTTP.

    Attributes:
        request: What is sent each time.
    """

    request: Request
    origin: Origin

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return self.request.url.origin

    def read(self, timeout: float) -> Reading:
        """Ask once; see `quotaform.metrics.reading.Reader`."""
        at, started = time(), monotonic()
        try:
            response = send(self.request, Limits(connect=timeout, total=timeout))
        except HttpError as error:
            remedy = (
                "; check that it is the port of an exporter of Prometheus" if error.problem.startswith("closed") else ""
            )
            raise MetricsError(self.shown, error.problem + remedy) from None
        seconds = monotonic() - started
        self._require_metrics(response)
        items = read_items(parse_exposition(response.body, self.origin, at), self.shown, timeout, started)
        return Reading(at, seconds, len(response.body), items)

    def cancel(self) -> None:
        """Do nothing: a request has no process, and ends with this one."""

    def _require_metrics(self, response: Response) -> None:
        if not response.is_success:
            remedy = "check the path of the URL" if response.status in (404, 405) else "check the URL and the server"
            raise MetricsError(self.shown, f"answered with status {response.status}; {remedy}")
        if response.body[:200].lstrip().lower().decode(errors="replace").startswith(_HTML):
            raise MetricsError(
                self.shown, "answered with a web page, not as an exporter of Prometheus does; check the URL"
            )


def exporter_reader(url: Url, origin: Origin) -> WebReader:
    """Return what reads the page of a jmx_exporter."""
    request = Request(
        method="GET", url=url, headers={"Accept": "text/plain;version=0.0.4, text/plain"}, body_limit=BODY_LIMIT
    )
    return WebReader(request, origin)


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
