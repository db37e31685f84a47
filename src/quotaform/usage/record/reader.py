"""Reads what brokers measure at this moment: exporters, JMX, and a Prometheus with its login."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import dumps
from os import environ
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from time import monotonic, time
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from msgspec import Struct

from quotaform.http.client import Timeouts, send
from quotaform.http.message import HttpRequest, Response, Url
from quotaform.model.entity import IP
from quotaform.model.errors import ArgumentError, HttpError, MetricsError, QuotaformError, UsageError
from quotaform.model.outcome import Progress, no_progress
from quotaform.model.quota_key import QUOTA_KEYS
from quotaform.model.server import parse_server
from quotaform.model.settings import MetricsSource, SourceKind
from quotaform.model.text import Secret, inert, option_of, quote
from quotaform.model.variable import OwnSecret
from quotaform.repository.gateway import require_allowed_metrics
from quotaform.usage.format.jmxtool import parse_jmxtool
from quotaform.usage.format.prometheus import parse_exposition, parse_prometheus
from quotaform.usage.metric_name import LABELS, Origin, type_pattern
from quotaform.usage.record.recording import ReadRows, read_rows
from quotaform.usage.sample import Item, Sample

if TYPE_CHECKING:
    from quotaform.desired.config import Cluster

BODY_LIMIT: Final = 64 << 20
"""The most bytes of an answer: 10,000 buckets have some 5 MB."""
MOST_SAMPLES: Final = 500_000
"""The most samples of an answer: 10,000 buckets have 20,000."""

_MEASURED: Final = {key: key.metrics for key in QUOTA_KEYS.values() if key.metrics is not None}
OBJECT_NAMES: Final = tuple(
    f"kafka.server:type={metrics.mbean},{'ip=*' if IP in key.entity_types else '*'}"
    for key, metrics in _MEASURED.items()
)
"""The MBeans of client quotas, as patterns."""

ATTRIBUTES: Final = (*dict.fromkeys(metrics.rate for metrics in _MEASURED.values()), "throttle-time")
"""Their attributes that are recorded."""


class Reading(NamedTuple):
    """One answer."""

    seconds: float  # How long it took until it was there
    size: int  # Its bytes
    read: ReadRows


class Reader(ABC):
    """Reads one source again and again."""

    shown: str
    """The source as messages show it, without what may be secret."""

    @abstractmethod
    def fetch(self, timeout: float) -> bytes:
        """Return an answer; `timeout` in seconds. Raises `MetricsError` if there is none that can be used."""

    @abstractmethod
    def items(self, body: bytes, at: float) -> Iterable[Item]:
        """Yield what an answer holds that was asked for at a time, in seconds since the epoch."""

    def read(self, timeout: float) -> Reading:
        """Read it once.

        `timeout`: seconds for the request and for reading the answer. Raises `MetricsError` if it does not answer, or
        with something that cannot be used.
        """
        at, started = time(), monotonic()
        body = self.fetch(timeout)
        seconds = monotonic() - started
        return Reading(seconds, len(body), read_rows(in_bounds(self.items(body, at), self.shown, timeout, started)))

    def error(self, problem: str) -> MetricsError:
        """Return the error for what is wrong with it, the rest of a sentence."""
        return MetricsError(self.shown, problem)

    def cancel(self) -> None:  # noqa: B027 (most have no process)
        """End a read that is under way, as far as that is a process of its own."""


def in_bounds(items: Iterable[Item], source: str, timeout: float, started: float) -> Iterator[Item]:
    """Yield what an answer holds.

    `timeout`: seconds for the request and for reading the answer. `started`: when the request began, of `monotonic`.
    Raises `MetricsError` if it holds too much, or takes too long to read.
    """
    for number, item in enumerate(items, 1):
        if number > MOST_SAMPLES:
            raise MetricsError(source, f"answered with more than {MOST_SAMPLES:,} samples; have it serve fewer metrics")
        if monotonic() > started + timeout:
            problem = f"answered with more than can be read within {timeout:g} s; have it serve fewer metrics"
            raise MetricsError(source, problem)
        yield item


def problem_of(error: BaseException) -> str:
    """Return what is wrong with a source, as the rest of a sentence about it, an internal error included.

    >>> problem_of(MetricsError("http://b1", "cannot be reached")), problem_of(ValueError("3"))
    ('cannot be reached', 'cannot be used because of an internal error: ValueError; please report it')
    """
    if isinstance(error, MetricsError):
        return error.problem
    if isinstance(error, QuotaformError):
        return f"cannot be read: {str(error).rstrip('.')}"
    return f"cannot be used because of an internal error: {type(error).__name__}; please report it"


def origin_of(cluster: str, broker: str | None) -> Origin:
    """Return the origin of what one broker offers: labels on its page say nothing about the cluster or the broker."""
    return Origin(cluster, broker, {**LABELS, "cluster": (), "broker": ()})


def open_reader(source: MetricsSource, cluster: str, jmx_command: Sequence[str] = ()) -> Reader:
    """Return what reads a source; nothing is sent yet.

    `jmx_command`: the command line of JmxTool, for JMX. Raises `UsageError` if it is an invalid URL.
    """
    origin = origin_of(cluster, source.broker)
    if source.kind is SourceKind.JMX:
        return JmxReader(source.address, jmx_command, origin)
    try:
        return ExporterReader(Url.parse(source.address), origin)
    except ValueError as error:
        raise UsageError(f"the source of broker {quote(source.broker)} is an invalid URL: {error}") from None


def open_readers(
    sources: Sequence[MetricsSource], cluster: str, progress: Progress = no_progress
) -> Mapping[str, Reader]:
    """Return what reads sources, by broker.

    Raises `UsageError` if one has an invalid URL, and `SandboxError` if one needs JmxTool, which cannot be had.
    """
    command: list[str] = []
    if any(source.kind is SourceKind.JMX for source in sources):
        from quotaform.sandbox.tool import jmx_tool_command

        command = jmx_tool_command(progress)
    return {source.broker: open_reader(source, cluster, command) for source in sources}


def broker_readers(
    cluster: Cluster, sources: Sequence[MetricsSource] = (), progress: Progress = no_progress
) -> Mapping[str, Reader]:
    """Return what reads the brokers of a cluster, by broker: at `sources`, or where quotaform.yaml names them.

    Raises `UsageError` if nothing says where, and `InvalidFilesError` if quotaform.yaml names a forbidden host.
    """
    if not sources and not cluster.metrics.sources:
        raise ArgumentError(
            "cluster {} has no metrics.brokers in quotaform.yaml; add them, or give {source} "
            "BROKER=http://HOST:PORT/metrics",
            cluster.name,
        )
    if not sources:
        require_allowed_metrics(cluster.metrics)
    return open_readers(sources or cluster.metrics.sources, cluster.label, progress)


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
    `UsageError` if nothing says where it is, and `InvalidFilesError` if quotaform.yaml names a forbidden host.
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
    reader = PrometheusReader(server, cluster.name, labels or metrics.labels)
    return {reader.shown: reader}


class ExporterReader(Reader):
    """Reads the page of an exporter of Prometheus."""

    def __init__(self, url: Url, origin: Origin) -> None:
        self.shown = url.origin
        self._url = url
        self._origin = origin

    def fetch(self, timeout: float) -> bytes:
        """Return the page."""
        headers = {"Accept": "text/plain;version=0.0.4, text/plain"}
        request = HttpRequest(method="GET", url=self._url, headers=headers, body_limit=BODY_LIMIT)
        try:
            response = send(request, Timeouts(connect=timeout, total=timeout))
        except HttpError as error:
            is_closed = error.problem.startswith("closed")
            remedy = "; check that it is the port of an exporter of Prometheus" if is_closed else ""
            raise self.error(error.problem + remedy) from None
        if not response.is_success:
            remedy = "check the path of the URL" if response.status in (404, 405) else "check the URL and the server"
            raise self.error(f"answered with status {response.status}; {remedy}")
        if response.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html")):
            raise self.error("answered with a web page, not as an exporter of Prometheus does; check the URL")
        return response.body

    def items(self, body: bytes, at: float) -> Iterable[Item]:
        """Yield what the page holds."""
        return parse_exposition(body, self._origin, at)


_NOTHING: Final = b"No matched attributes"
_NO_CONNECTION: Final = b"Could not connect to JMX url"
_REJECTED: Final = b"filter status: REJECTED"
"""What Java says of an object that the filter of the command line leaves out."""
_DATE: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSX"


class JmxReader(Reader):
    """Reads the JMX of a broker."""

    def __init__(self, address: str, command: Sequence[str], origin: Origin) -> None:
        """Read host and port by JmxTool, whose command line without options is `command`."""
        self.shown = f"JMX at {address}"
        self._address = address
        names = [argument for name in OBJECT_NAMES for argument in ("--object-name", name)]
        url = f"service:jmx:rmi:///jndi/rmi://{address}/jmxrmi"
        self._command = [
            *command, "--jmx-url", url, *names, "--attributes", ",".join(ATTRIBUTES), "--date-format", _DATE,
            "--one-time",
        ]  # fmt: skip
        self._origin = origin
        self._process: Popen[bytes] | None = None

    def fetch(self, timeout: float) -> bytes:
        """Return what JmxTool prints; nothing where no MBean is there."""
        if problem := parse_server(self._address).problem(environ):
            raise self.error(problem)
        # A session of its own: a Ctrl-C is for the recording, which reads this answer to its end.
        try:
            self._process = process = Popen(  # noqa: S603 (Kafka's own command)
                self._command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as failure:
            # No memory or no process left, or Java was removed while it is recorded.
            reason = failure.strerror or failure
            raise self.error(f"cannot be read, as {inert(self._command[0])} cannot be started: {reason}") from failure
        try:
            output, error = process.communicate(timeout=timeout)
        except TimeoutExpired:
            process.kill()
            _, error = process.communicate()
            if _NO_CONNECTION in error:
                problem = f"cannot be reached within {timeout:g} s; check the address, and JMX_PORT of the broker"
            else:
                problem = f"did not answer within {timeout:g} s; check that it is a port of JMX, or ask less often"
            raise self.error(problem) from None
        finally:
            self.cancel()
        if len(output) > BODY_LIMIT:
            raise self.error(f"answered with more than {BODY_LIMIT >> 20} MiB")
        if _REJECTED in error:
            raise self.error("answered with a Java class that is not allowed; check the address")
        if _NOTHING in output or _NOTHING in error:
            return b""
        if process.returncode:
            raise self.error(f"cannot be read: {_last_line(error.decode(errors='replace'))}")
        return output

    def items(self, body: bytes, at: float) -> Iterable[Item]:
        """Yield what JmxTool printed."""
        return parse_jmxtool(body, self._origin, at) if body else ()

    def cancel(self) -> None:
        """End the process of a read that is under way."""
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return inert(lines[-1][:200]) if lines else "JmxTool says nothing about it"


_SPELLED: Final = "|".join(name.replace("-", "_?") for name in ATTRIBUTES)
QUERY: Final = (
    f"(?i:kafka_(server|broker|clients?|users?|quotas?)_.*({_SPELLED}).*|"
    f"kafka_server_(quotas?|{'|'.join(type_pattern(metrics.mbean) for metrics in _MEASURED.values())})|kafka_server)"
)
"""The names of metrics of client quotas, whatever the rules of an exporter make of them, as a regular expression."""


# How to log in to a Prometheus is in variables alone: what stands on a command line is seen by others.

_TOKEN: Final = OwnSecret.PROMETHEUS_TOKEN
_USER: Final = OwnSecret.PROMETHEUS_USER
_PASSWORD: Final = OwnSecret.PROMETHEUS_PASSWORD
_TENANT: Final = OwnSecret.PROMETHEUS_TENANT
_TENANT_HEADERS: Final = ("X-Scope-OrgID", "THANOS-TENANT")
"""What Mimir, Cortex and Thanos read."""


class Prometheus(Struct, frozen=True):
    """A Prometheus, and what is sent to it with each request."""

    url: Url  # Its URL, without `/api`
    credentials: Mapping[str, Secret]  # Headers that are secret
    headers: Mapping[str, str]  # Headers that are not secret

    @classmethod
    def at(cls, address: str, environment: Mapping[str, str]) -> Self:
        """Return the one at a URL, with the bearer token, or the user and the password, and the tenant of variables.

        Raises `UsageError` if the URL is invalid, or the variables contradict each other, or one is missing.
        """
        try:
            url = Url.parse(address)
        except ValueError as error:
            raise ArgumentError("{prometheus}: invalid URL: {}", error) from None
        token, user, password, tenant = map(environment.get, (_TOKEN, _USER, _PASSWORD, _TENANT))
        if token and user:
            raise UsageError(f"{_TOKEN} and {_USER} are both set; unset one of them")
        if bool(user) != bool(password):
            raise UsageError(f"{_USER} and {_PASSWORD} are used together; set both, or none of them")
        if user and ":" in user:
            raise UsageError(f"{_USER} contains a colon, which a user cannot have over HTTP")
        if tenant and not (tenant.isascii() and tenant.isprintable()):
            raise UsageError(f"{_TENANT} contains a character that a header cannot have")
        login = "Basic " + b64encode(f"{user}:{password}".encode()).decode() if user else ""
        login = f"Bearer {token}" if token else login
        credentials = {"Authorization": Secret(login)} if login else {}
        return cls(url, credentials, dict.fromkeys(_TENANT_HEADERS, tenant) if tenant else {})

    @property
    def shown(self) -> str:
        """Scheme, host and port."""
        return f"Prometheus at {self.url.origin}"

    def ask(self, path: str, fields: Mapping[str, str], limits: Timeouts) -> Response:
        """Return an answer, whatever its status. Raises `HttpError`, and `MetricsError` if it wants another login."""
        request = HttpRequest(
            method="GET",
            url=self.url.under(path).with_query(fields),
            headers=self.headers,
            credentials=self.credentials,
            body_limit=BODY_LIMIT,
        )
        response = send(request, limits)
        if response.status in (401, 403):
            remedy = f"give a token in {_TOKEN}, or {_USER} and {_PASSWORD}"
            raise MetricsError(self.shown, f"refused this with status {response.status}; {remedy}")
        return response


_MOST_VALUES: Final = 4_000_000
"""The most values of an answer, of which all are read before the first is looked at; a sample has some ten."""


class PrometheusReader(Reader):
    """Asks a Prometheus for the last value of each series."""

    def __init__(self, server: Prometheus, cluster: str, labels: Mapping[str, str]) -> None:
        """Read series with these labels; without any, those with the label of another cluster are left out."""
        self.shown = server.shown
        self._server = server
        self._cluster = cluster
        self._labels = labels

    def fetch(self, timeout: float) -> bytes:
        """Return the answer to an instant query."""
        # JSON spells a text as PromQL does.
        matchers = "".join(f", {name}={dumps(value, ensure_ascii=False)}" for name, value in self._labels.items())
        query = {"query": f'{{__name__=~"{QUERY}"{matchers}}}'}
        try:
            response = self._server.ask("/api/v1/query", query, Timeouts(connect=timeout, total=timeout))
        except HttpError as error:
            raise self.error(error.problem) from None
        if not response.is_success and response.status not in (400, 422, 503):
            raise self.error(f"answered with status {response.status}; check the URL")
        if sum(map(response.body.count, (b"{", b"[", b","))) > _MOST_VALUES:
            raise self.error(f"answered with more than {_MOST_VALUES:,} values; have it serve fewer metrics")
        return response.body

    def items(self, body: bytes, at: float) -> Iterator[Item]:
        """Yield what the answer holds, without the samples of other clusters."""
        origin = Origin(self._cluster, labels={**LABELS, "cluster": ()} if self._labels else LABELS)
        others, is_any = set(), False
        for item in parse_prometheus(body, origin, at):
            if isinstance(item, Sample) and item.series.cluster != self._cluster:
                others.add(item.series.cluster)
            else:
                is_any |= isinstance(item, Sample)
                yield item
        if others and not is_any:
            names = ", ".join(sorted(quote(name) for name in others if name is not None)[:5])
            raise self.error(
                f"has series of the clusters {names} and none of {quote(self._cluster)}; choose with "
                f"{option_of('label')} NAME=VALUE, or metrics.labels in quotaform.yaml"
            )
