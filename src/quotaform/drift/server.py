"""`/metrics` and `/healthz` over HTTP, for a process that goes on.

At most some connections are served at a time; when another one comes, the oldest is closed, so that clients that send
slowly cannot keep Prometheus out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from json import dumps
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from quotaform.drift.metric import MetricSamples, metric_registry

AT_ONCE: Final = 16
"""How many connections are served at a time."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves metrics in threads that end with the process."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        read: Callable[[], MetricSamples],
        health: Callable[[], tuple[bool, dict[str, Any]]],
    ) -> None:
        """Begin to listen; port 0 is any. Raises `OSError` if nothing can listen there.

        `read` returns the metrics, for each request. `health` returns whether the process works, and what it says about
        itself.
        """
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self._open: dict[int, socket] = {}
        self._lock = Lock()
        super().__init__((host, port), _Handler)
        metrics = make_wsgi_app(metric_registry(read))

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

        self.set_app(answer)

    def start(self) -> None:
        """Begin to answer."""
        Thread(target=self.serve_forever, name="quotaform-metrics", daemon=True).start()

    def server_bind(self) -> None:
        """Bind without asking for the name of the host, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; the connection that is open longest is closed if there are too many."""
        with self._lock:
            oldest = next(iter(self._open), None) if len(self._open) >= AT_ONCE else None
            left = None if oldest is None else self._open.pop(oldest)
            self._open[id(request)] = request
        if left is not None:
            with suppress(OSError):  # It may be closed already.
                left.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # For how many seconds a connection may be silent

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: every scrape is one request."""


def _text(
    start: Callable[..., Any],
    status: str,
    text: str,
    *headers: tuple[str, str],
    content_type: str = "text/plain; charset=utf-8",
) -> list[bytes]:
    start(status, [("Content-Type", content_type), *headers])
    return [text.encode()]
