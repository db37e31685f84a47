"""Metrics in the text format of Prometheus: as a file for its textfile collector, and served over HTTP.

The one door to `prometheus_client`. A registry of its own holds the metrics of `quotaform.drift.metric` and no
others: nothing about the process, which would change with every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from json import dumps
from socket import AF_INET6, SHUT_RDWR, socket
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from quotaform.drift.metric import METRICS, MetricSample, MetricSamples, is_sample

MOST_SAMPLES: Final = 200_000
"""How many samples of an existing file are read: 1,000 clusters have some 20,000."""


class _Samples(Collector):
    """Shows samples to `prometheus_client`."""

    def __init__(self, read: Callable[[], MetricSamples]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        samples = self._read()
        for metric in METRICS.values():
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.all_labels)
            for (_, labels), value in sorted(item for item in samples.items() if item[0][0] == metric.name):
                family.add_metric(labels, value)
            if family.samples:
                yield family


def _registry(read: Callable[[], MetricSamples]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(read))
    return registry


def render_metrics(samples: MetricSamples) -> str:
    """Return samples as a file for the textfile collector: sorted, without times."""
    return generate_latest(_registry(lambda: samples)).decode()


def metrics_app(read: Callable[[], MetricSamples]) -> Callable[..., Any]:
    """Return a WSGI application that serves samples, read anew for each request."""
    return make_wsgi_app(_registry(read))


def parse_metrics(text: str) -> dict[MetricSample, float]:
    """Return the samples of a file that `render_metrics` wrote; metrics that are not ours are left out.

    Raises `ValueError` if it is not in the text format, or has too many samples.
    """
    found: dict[MetricSample, float] = {}
    count = 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                count += 1
                if count > MOST_SAMPLES:
                    raise ValueError
                if is_sample(sample.name, sample.labels):
                    labels = tuple(sample.labels[label] for label in METRICS[sample.name].all_labels)
                    found[sample.name, labels] = float(sample.value)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ValueError("it is not in the text format of Prometheus, or has too many samples") from None
    return found


# `/metrics` and `/healthz` over HTTP, for a process that goes on.
#
# At most some connections are served at a time; when another one comes, the oldest is closed, so that clients that send
# slowly cannot keep Prometheus out.

AT_ONCE: Final = 16
"""How many connections are served at a time."""
_SILENCE: Final = 10.0
"""For how many seconds a connection may be silent."""

Health = Callable[[], tuple[bool, dict[str, Any]]]
"""Returns whether the process works, and what it says about itself."""


class MetricsServer:
    """Serves metrics in threads that end with the process."""

    def __init__(self, host: str, port: int, read: Callable[[], MetricSamples], health: Health) -> None:
        """Begin to listen.

        `port`: A port; 0 for any.

        Raises `OSError` if nothing can listen there.
        """
        server_type = type("_Server6", (_Server,), {"address_family": AF_INET6}) if ":" in host else _Server
        self._server: _Server = server_type((host, port), _Handler)
        self._server.set_app(_application(read, health))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        Thread(target=self._server.serve_forever, name="quotaform-metrics", daemon=True).start()

    def close(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[int, socket] = {}
        self._lock = Lock()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without asking for the name of the host, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            oldest = next(iter(self._open), None) if len(self._open) >= AT_ONCE else None
            left = None if oldest is None else self._open.pop(oldest)
            self._open[id(request)] = request
        if left is not None:
            with suppress(OSError):  # It may be closed already.
                left.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: every scrape is one request."""


def _application(read: Callable[[], MetricSamples], health: Health) -> Callable[..., Iterable[bytes]]:
    metrics = metrics_app(read)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") != "GET":
            return _text(start, "405 Method Not Allowed", "only GET\n", ("Allow", "GET"))
        path = environ.get("PATH_INFO")
        if path == "/metrics":
            answered: Iterable[bytes] = metrics(environ, start)
            return answered
        if path == "/healthz":
            is_alive, document = health()
            status = "200 OK" if is_alive else "503 Service Unavailable"
            return _text(start, status, dumps(document) + "\n", content_type="application/json")
        return _text(start, "404 Not Found", "there are /metrics and /healthz\n")

    return answer


def _text(
    start: Callable[..., Any],
    status: str,
    text: str,
    *headers: tuple[str, str],
    content_type: str = "text/plain; charset=utf-8",
) -> list[bytes]:
    start(status, [("Content-Type", content_type), *headers])
    return [text.encode()]
