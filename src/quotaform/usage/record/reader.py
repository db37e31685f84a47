"""Reads what brokers measure at this moment: exporters, JMX, and a Prometheus with its login."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from os import environ
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from quotaform.http.client import HttpRequest, Transport, Url
from quotaform.model.entity import IP
from quotaform.model.errors import ArgumentError, HttpError, MetricsError, QuotaformError, as_usage_error
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.server import parse_server
from quotaform.model.settings import MetricsSource
from quotaform.model.text import inert, option_of, quote
from quotaform.repository.gateway import require_allowed_metrics
from quotaform.usage.format import parse
from quotaform.usage.metric_name import LABELS, METRICS, Origin
from quotaform.usage.prometheus import ATTRIBUTES, BODY_LIMIT, QUERY, Prometheus
from quotaform.usage.record.recording import Reading, read_rows
from quotaform.usage.sample import Item, Sample

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

MOST_SAMPLES: Final = 500_000
"""The most samples of an answer: 10,000 buckets have 20,000."""


@dataclass
class Reader:
    """Reads one source again and again."""

    shown: str  # The source as messages show it, without what may be secret
    ask: Callable[[float, float], tuple[int, Iterable[Item]]]
    """Takes a timeout and the time since the epoch, in seconds, and returns the size of an answer in bytes, and what it
    holds. Raises `HttpError` or `MetricsError` if there is no answer that can be used."""
    cancel: Callable[[], None] = lambda: None  # Ends a read that is under way, if that is a process of its own

    def read(self, timeout: float) -> Reading:
        """Read it once; `timeout` is in seconds, for the request and for reading the answer.

        Raises `MetricsError` if it does not answer, or with something that cannot be used.
        """
        at, started = time(), monotonic()
        try:
            size, found = self.ask(timeout, at)
        except HttpError as error:
            is_closed = error.problem.startswith("closed")
            remedy = "; check that it is the port of an exporter, or of a Prometheus" if is_closed else ""
            raise self.error(error.problem + remedy) from None
        seconds, items = monotonic() - started, []
        for item in found:
            items.append(item)
            if len(items) > MOST_SAMPLES:
                raise self.error(f"answered with more than {MOST_SAMPLES:,} samples; have it serve fewer metrics")
            if monotonic() > started + timeout:
                problem = f"answered with more than can be read within {timeout:g} s; have it serve fewer metrics"
                raise self.error(problem)
        return read_rows(items)._replace(size=size, seconds=seconds)

    def error(self, problem: str) -> MetricsError:
        """Return the error for what is wrong with it, the rest of a sentence."""
        return MetricsError(self.shown, problem)


def problem_of(error: BaseException) -> str:
    """Return what is wrong with a source, as the rest of a sentence about it, an internal error included."""
    if isinstance(error, MetricsError):
        return error.problem
    if isinstance(error, QuotaformError):
        return f"cannot be read: {str(error).rstrip('.')}"
    return f"cannot be used because of an internal error: {type(error).__name__}; please report it"


def open_reader(source: MetricsSource, cluster: str, jmx_command: Sequence[str] = ()) -> Reader:
    """Return what reads a source; nothing is sent yet.

    `jmx_command`: the command line of JmxTool, for JMX. Raises `UsageError` if it is an invalid URL.
    """
    # Labels on the page of a broker say nothing about the cluster or the broker.
    origin = Origin(cluster, source.broker, {**LABELS, "cluster": (), "broker": ()})
    if source.is_jmx:
        return jmx_reader(source.address, jmx_command, origin)
    with as_usage_error(f"the source of broker {quote(source.broker)} is an invalid URL: "):
        url = Url.parse(source.address)

    def ask(timeout: float, at: float) -> tuple[int, Iterable[Item]]:
        headers = {"Accept": "text/plain;version=0.0.4, text/plain"}
        request = HttpRequest(method="GET", url=url, headers=headers, body_limit=BODY_LIMIT)
        response = Transport(connect=timeout, total=timeout).send_once(request)
        if not response.is_success:
            remedy = "check the path of the URL" if response.status in (404, 405) else "check the URL and the server"
            raise reader.error(f"answered with status {response.status}; {remedy}")
        if response.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html")):
            raise reader.error("answered with a web page, not as an exporter of Prometheus does; check the URL")
        return len(response.body), parse("exposition", response.body, origin, at)

    reader = Reader(url.origin, ask)
    return reader


def broker_readers(
    cluster: Cluster, sources: Sequence[MetricsSource] = (), progress: Progress = no_progress
) -> Mapping[str, Reader]:
    """Return what reads the brokers of a cluster, by broker: at `sources`, or where quotaform.yaml names them.

    Raises `UsageError` if nothing says where, `InvalidFilesError` if quotaform.yaml names a forbidden host, and
    `SandboxError` if one needs JmxTool, which cannot be had.
    """
    if not sources and not cluster.metrics.sources:
        raise ArgumentError(
            "cluster {} has no metrics.brokers in quotaform.yaml; add them, or give {source} "
            "BROKER=http://HOST:PORT/metrics",
            cluster.name,
        )
    if not sources:
        require_allowed_metrics(cluster.metrics)
        sources = cluster.metrics.sources
    command: list[str] = []
    if any(source.is_jmx for source in sources):
        from quotaform.sandbox.tool import jmx_tool_command

        command = jmx_tool_command(progress)
    return {source.broker: open_reader(source, cluster.label, command) for source in sources}


def readers_of(
    cluster: Cluster,
    sources: Sequence[MetricsSource] = (),
    *,
    prometheus: str | None = None,
    labels: Mapping[str, str],
    progress: Progress = no_progress,
) -> dict[str, Reader]:
    """Return the readers of where a cluster is measured, by their names in messages.

    That is at `sources` or a `prometheus` with `labels`, if they are given, else what quotaform.yaml names. Raises
    the errors of `broker_readers`, and `UsageError` or `InvalidFilesError` for a Prometheus that cannot be used.
    """
    metrics = cluster.metrics
    if sources or (metrics.sources and not (prometheus or labels)):
        opened = broker_readers(cluster, sources, progress)
        return {f"broker {broker} ({reader.shown})": reader for broker, reader in opened.items()}
    text = prometheus or metrics.prometheus
    if text is None:
        raise ArgumentError(
            "it is not known where cluster {} is measured; give {source} BROKER=http://HOST:PORT/metrics "
            "or {prometheus} URL, or add metrics to the cluster in quotaform.yaml",
            cluster.label,
        )
    server = Prometheus.at(text, environ)
    if not prometheus:
        require_allowed_metrics(metrics, has_login=bool(server.credentials or server.headers))
    reader = prometheus_reader(server, cluster.name, labels or metrics.labels)
    return {reader.shown: reader}


def jmx_reader(address: str, command: Sequence[str], origin: Origin) -> Reader:
    """Return what reads the JMX of a broker by JmxTool, whose command line without options is `command`."""
    options = ["--jmx-url", f"service:jmx:rmi:///jndi/rmi://{address}/jmxrmi", "--attributes", ",".join(ATTRIBUTES)]
    for key, metrics in METRICS.items():
        others = "ip=*" if IP in QUOTA_KEYS[key].entity_types else "*"
        options += ["--object-name", f"kafka.server:type={metrics.mbean},{others}"]
    line = [*command, *options, "--date-format", "yyyy-MM-dd'T'HH:mm:ss.SSSX", "--one-time"]
    started: list[Popen[bytes]] = []  # The process of the last answer

    def ask(timeout: float, at: float) -> tuple[int, Iterable[Item]]:
        """Return the size of what JmxTool prints, and what it holds; nothing where no MBean is there."""
        if problem := parse_server(address).problem(environ):
            raise reader.error(problem)
        # A session of its own: a Ctrl-C is for the recording, which reads this answer to its end.
        try:
            process = Popen(line, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True)  # noqa: S603 (Kafka's own command)
        except OSError as failure:
            # No memory or no process left, or Java was removed while it is recorded.
            reason = failure.strerror or failure
            raise reader.error(f"cannot be read, as {inert(line[0])} cannot be started: {reason}") from failure
        started[:] = [process]
        try:
            output, error = process.communicate(timeout=timeout)
        except TimeoutExpired:
            process.kill()
            process.communicate()
            raise reader.error(
                f"did not answer within {timeout:g} s; check the address and JMX_PORT of the broker, or ask less often"
            ) from None
        finally:
            kill()
        if len(output) > BODY_LIMIT:
            raise reader.error(f"answered with more than {BODY_LIMIT >> 20} MiB")
        if b"filter status: REJECTED" in error:
            # Java says so of an object that the filter of the command line leaves out.
            raise reader.error("answered with a Java class that is not allowed; check the address")
        if b"No matched attributes" in output + error:
            return 0, ()
        if process.returncode:
            lines = [line.strip() for line in error.decode(errors="replace").splitlines()]
            said = [line for line in lines if line and not line.startswith("at ")]
            reason = inert(said[-1][:200]) if said else "JmxTool says nothing about it"
            raise reader.error(f"cannot be read: {reason}")
        return len(output), parse("jmxtool", output, origin, at)

    def kill() -> None:
        for process in started:
            if process.poll() is None:
                process.kill()

    reader = Reader(f"JMX at {address}", ask, kill)
    return reader


_MOST_VALUES: Final = 4_000_000
"""The most values of an answer, of which all are read before the first is looked at; a sample has some ten."""


def prometheus_reader(server: Prometheus, cluster: str, labels: Mapping[str, str]) -> Reader:
    """Return what asks a Prometheus for the last value of each series of a cluster, which are those with some labels.

    Without any, the series with the label of another cluster are left out.
    """
    # JSON spells a text as PromQL does.
    matchers = "".join(f", {name}={dumps(value, ensure_ascii=False)}" for name, value in labels.items())
    query = {"query": f'{{__name__=~"{QUERY}"{matchers}}}'}
    origin = Origin(cluster, labels={**LABELS, "cluster": ()} if labels else LABELS)

    def ask(timeout: float, at: float) -> tuple[int, Iterable[Item]]:
        response = server.ask("/api/v1/query", query, Transport(connect=timeout, total=timeout))
        if not response.is_success and response.status not in (400, 422, 503):
            raise reader.error(f"answered with status {response.status}; check the URL")
        if sum(map(response.body.count, (b"{", b"[", b","))) > _MOST_VALUES:
            raise reader.error(f"answered with more than {_MOST_VALUES:,} values; have it serve fewer metrics")
        return len(response.body), own_items(parse("prometheus", response.body, origin, at))

    def own_items(items: Iterable[Item]) -> Iterator[Item]:
        others, is_any = set(), False
        for item in items:
            if isinstance(item, Sample) and item.series.cluster != cluster:
                others.add(item.series.cluster)
            else:
                is_any |= isinstance(item, Sample)
                yield item
        if others and not is_any:
            names = ", ".join(sorted(quote(name) for name in others if name is not None)[:5])
            raise reader.error(
                f"has series of the clusters {names} and none of {quote(cluster)}; choose with "
                f"{option_of('label')} NAME=VALUE, or metrics.labels in quotaform.yaml"
            )

    reader = Reader(server.shown, ask)
    return reader
