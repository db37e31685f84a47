"""A server on loopback whose answers are bytes, so that it can do what no HTTP library would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Event, Lock, Thread
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def answer(status: int = 200, body: object = b"", /, **headers: str) -> bytes:
    """Return the bytes of an answer; what is not bytes is sent as JSON, and `_` in names of headers is `-`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass
class HttpServer:
    # Returns the answer, whole or in pieces, which are sent as they come
    reply: Callable[[Received], bytes | Iterable[bytes]]
    tls: tuple[str, str] | None = None  # a certificate and its key in one file, and the server speaks TLS
    received: list[Received] = field(default_factory=list)  # all requests
    is_over: Event = field(default_factory=Event)  # set when the test ends, for replies that hang

    def __enter__(self) -> Self:
        server = self
        lock = Lock()

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                try:
                    request = _read(self.rfile)
                    with lock:
                        server.received.append(request)
                    reply = server.reply(request)
                    for piece in (reply,) if isinstance(reply, bytes) else reply:
                        self.wfile.write(piece)
                except OSError:  # The client went away, as it should.
                    pass

        class Tcp(ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A handshake that the client ends is no output of a test."""

        self._server = Tcp(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            context = SSLContext(PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return f"{'http' if self.tls is None else 'https'}://localhost:{self.port}"


def _read(stream: Any) -> Received:
    method, target, _ = stream.readline().decode().split(" ", 2)
    headers: dict[str, str] = {}
    while line := stream.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body)
