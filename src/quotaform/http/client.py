"""One request over HTTP, bounded in time and size. Nothing that it raises shows a token, a path or a query.

| limit | what happens |
| --- | --- |
| `Limits.connect` seconds for each address of the host | an error |
| `Limits.total` seconds from the first byte to the last, redirects included | an error, also when bytes keep coming |
| `Request.body_limit` bytes of the answer | an error |
| a redirect within the same scheme, host and port | followed, at most three times |
| a redirect to anywhere else | an error that names the other host |

Proxies are those of the environment (`https_proxy`, `http_proxy`, `no_proxy`), and this machine is asked without one.
The server and the proxy are held to `QUOTAFORM_ALLOWED_HOSTS` before their names are looked up.
A token is sent encrypted, or to this machine; never to a proxy. TLS is always verified, against the system's
certificates (or those of `SSL_CERT_FILE`) or a CA file.
"""

from __future__ import annotations

import ssl
import time
from contextlib import closing
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from os import environ
from pathlib import Path
from socket import gaierror, socket
from typing import Any, Final

from quotaform import __version__
from quotaform.errors import HttpError, QuotaformError
from quotaform.files import PEM_LIMIT, read_text
from quotaform.http.message import Request, Response, Url
from quotaform.http.proxy import Proxy
from quotaform.model.server import Server

_REDIRECTS: Final = 3
_REDIRECT: Final = frozenset({301, 302, 303, 307, 308})
_PROXY_REFUSED: Final = "Tunnel connection failed"
"""How http.client begins the error of a proxy that does not connect."""
_SAME_METHOD: Final = frozenset({307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a request may take, in seconds.

    Attributes:
        connect: To connect to one address of the host, TLS included.
        total: For everything together.
    """

    connect: float = 10.0
    total: float = 30.0


DEFAULT_LIMITS: Final = Limits()


def send(
    request: Request,
    limits: Limits = DEFAULT_LIMITS,
    ca_file: Path | None = None,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Send a request once and return the answer, whatever its status.

    Args:
        ca_file: The certificates that are trusted, in PEM; `None` for those of the system.
        context: What is trusted and shown, instead.

    Raises:
        HttpError: There is no answer, or none that can be used.
        QuotaformError: The CA file cannot be read.
    """
    _require_sendable(request)
    context = context or _tls(ca_file) if request.url.scheme == "https" else None
    deadline = time.monotonic() + limits.total
    for _ in range(_REDIRECTS + 1):
        response = _Exchange(request, limits, deadline).run(context)
        if response.status not in _REDIRECT or "location" not in response.headers:
            return response
        request = replace(request, url=_redirected(request, response))
    raise HttpError(request.url.origin, f"redirects more than {_REDIRECTS} times; check the URL")


def _require_sendable(request: Request) -> None:
    for value in [*request.headers.values(), *(secret.reveal() for secret in request.credentials.values())]:
        if not value.isascii() or not value.isprintable():
            raise HttpError(
                request.url.origin,
                "was not asked: the token or another header contains a line break or a character outside of ASCII",
                may_have_arrived=False,
            )


def _require_private(request: Request, proxy: Proxy | None) -> None:
    """Require that nobody on the way can read the credentials: they are encrypted, or do not leave this machine."""
    if request.credentials and request.url.scheme != "https" and (proxy is not None or not request.url.is_loopback):
        raise HttpError(
            request.url.origin,
            "would receive the token unencrypted, so nothing was sent; use https",
            may_have_arrived=False,
        )


def _redirected(request: Request, response: Response) -> Url:
    try:
        url = request.url.follow(response.headers["location"])
    except ValueError:
        raise HttpError(
            request.url.origin, "redirects to something that is not a URL", status=response.status
        ) from None
    if url.origin != request.url.origin:
        raise HttpError(
            request.url.origin,
            f"redirects to {url.origin}, and redirects to another host, scheme or port are not followed; if it is the "
            "right one, give its URL",
            status=response.status,
        )
    if request.method not in ("GET", "HEAD") and response.status not in _SAME_METHOD:
        raise HttpError(
            request.url.origin,
            f"redirects a {request.method} (status {response.status}); check the URL",
            status=response.status,
        )
    return url


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    if ca_file is None:
        return ssl.create_default_context()
    text = read_text(ca_file, PEM_LIMIT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError):
        raise QuotaformError(f"{ca_file} contains no readable PEM certificate") from None
    return context


class _Exchange:
    """One request on one connection."""

    def __init__(self, request: Request, limits: Limits, deadline: float) -> None:
        self._request = request
        self._limits = limits
        self._deadline = deadline
        self._is_connected = False

    def run(self, context: ssl.SSLContext | None) -> Response:
        try:
            connection, target, headers = self._connection(context)
            with closing(connection):
                connection.connect()
                self._is_connected = True
                connection.sock.settimeout(self._left())
                connection.request(self._request.method, target, self._request.body, self._headers() | headers)
                with closing(connection.getresponse()) as answer:
                    return self._read(answer)
        except (OSError, HTTPException) as error:
            raise HttpError(
                self._request.url.origin,
                self._words(error),
                may_have_arrived=self._is_connected,
                may_pass=_may_pass(error),
            ) from None

    def _connection(self, context: ssl.SSLContext | None) -> tuple[HTTPConnection, str, dict[str, str]]:
        """Return what to connect to, what the request line names, and headers for a proxy."""
        url = self._request.url
        self._require_listed(url.host, url.port)
        proxy = Proxy.of(url)
        if proxy is not None:
            self._require_listed(proxy.host, proxy.port)
        _require_private(self._request, proxy)
        host, port = (proxy.host, proxy.port) if proxy else (url.host, url.port)
        timeout = min(self._limits.connect, self._left())
        connection: HTTPConnection
        if context is not None:
            connection = HTTPSConnection(host, port, timeout=timeout, context=context)
        else:
            connection = HTTPConnection(host, port, timeout=timeout)
        connection.response_class = self._answer  # type: ignore[assignment]  # http.client calls it, no more
        if proxy is None:
            return connection, url.target, {}
        if context is None:
            return connection, url.reveal(), proxy.headers
        connection.set_tunnel(url.host, url.port, proxy.headers)
        return connection, url.target, {}

    def _require_listed(self, host: str, port: int) -> None:
        server = Server(host, port)
        if problem := server.problem(environ):
            what = "" if host == self._request.url.host else f"cannot be reached: the proxy {server} "
            raise HttpError(self._request.url.origin, f"{what}{problem}", may_have_arrived=False)

    def _answer(self, sock: socket, *arguments: Any, **options: Any) -> HTTPResponse:
        return _TimedResponse(self._deadline, sock, *arguments, **options)

    def _headers(self) -> dict[str, str]:
        shown = {
            "User-Agent": f"quotaform/{__version__}",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        secret = {name: value.reveal() for name, value in self._request.credentials.items()}
        return shown | dict(self._request.headers) | secret

    def _read(self, answer: HTTPResponse) -> Response:
        limit = self._request.body_limit
        try:
            body = answer.read(limit + 1)
        except (ValueError, OverflowError):  # http.client takes the size of a chunk as it is.
            raise HTTPException from None
        if len(body) > limit:
            raise HttpError(
                self._request.url.origin, f"answered with more than {limit / (1 << 20):g} MiB", status=answer.status
            )
        if answer.length:  # http.client says nothing when a body is shorter than announced.
            raise IncompleteRead(body)
        headers: dict[str, str] = {}
        for name, value in answer.getheaders():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return Response(url=self._request.url, status=answer.status, headers=headers, body=body)

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _words(self, error: Exception) -> str:
        """Say why there is no answer; the words of an error may hold the request, so none of them is used."""
        if isinstance(error, TimeoutError) and self._is_connected:
            return f"did not answer within {self._limits.total:g} s"
        if isinstance(error, TimeoutError):
            seconds = min(self._limits.connect, self._limits.total)
            return f"cannot be reached within {seconds:g} s; check the URL, the network and the proxy"
        if isinstance(error, gaierror):
            return "cannot be reached: the host name is unknown; check the URL and the proxy"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"has a certificate that is not trusted ({error.verify_message}); give the CA that issued it"
        if isinstance(error, ssl.SSLError):
            return f"cannot be reached with TLS ({error.reason or 'the connection ended'})"
        if isinstance(error, ConnectionRefusedError):
            return "cannot be reached: the connection was refused; check the URL and the proxy"
        if isinstance(error, (ConnectionError, IncompleteRead)):
            return "closed the connection before the answer was complete"
        if isinstance(error, HTTPException):
            return "answered with something that is not HTTP; check the URL"
        if str(error).startswith(_PROXY_REFUSED):
            return "cannot be reached: the proxy refused to connect to it"
        return f"cannot be reached: {error.strerror or 'the connection failed'}"  # type: ignore[attr-defined]


def _may_pass(error: Exception) -> bool:
    """Whether a failure is one that networks and servers recover from: no refused certificate, no other protocol."""
    is_proxy = str(error).startswith(_PROXY_REFUSED)
    return (
        isinstance(error, (OSError, IncompleteRead))
        and not isinstance(error, ssl.SSLCertVerificationError)
        and not is_proxy
    )


class _TimedResponse(HTTPResponse):
    """A response whose every read ends at one deadline: a timeout of the socket begins anew with each byte."""

    def __init__(self, deadline: float, sock: socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self.fp = BufferedReader(_TimedReader(deadline, sock))


class _TimedReader(RawIOBase):
    """The bytes of a socket up to a deadline."""

    def __init__(self, deadline: float, sock: socket) -> None:
        super().__init__()
        self._deadline = deadline
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
