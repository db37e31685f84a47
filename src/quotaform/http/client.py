"""Requests over HTTP, bounded in time and size, sent again where that helps; errors show no token, path or query.

| limit | what happens |
| --- | --- |
| `Transport.connect` seconds for each address of the host | an error |
| `Transport.total` seconds from first to last byte, redirects included | an error, also when bytes keep coming |
| `HttpRequest.body_limit` bytes of the answer | an error |
| a redirect within the same scheme, host and port | followed, at most three times |
| a redirect to anywhere else | an error that names the other host |

Proxies are those of the environment (`https_proxy`, `http_proxy`, `no_proxy`), and this machine is asked without one.
The server and the proxy are held to `QUOTAFORM_ALLOWED_HOSTS` before their names are looked up, except for downloads.
A token is sent encrypted, or to this machine; never to a proxy. TLS is always verified, against the system's
certificates (or those of `SSL_CERT_FILE`) or a CA file.

| what happened | sent again, for a bounded time |
| --- | --- |
| the server was not reached, for a reason that may pass | always |
| a rate limit (429, or 403 with its marks), 503 with `Retry-After` | always, after the time that it asks for |
| another 5xx, or no answer to what was sent | only what may be sent twice (`HttpRequest.may_repeat`) |
| anything else | never |

When a server asks for more time than is left, nothing is waited for: the answer is returned at once.

A URL may be a secret itself: that of a webhook has a token in its path. So a URL prints as its origin alone.
"""

from __future__ import annotations

import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from ipaddress import ip_address
from json import loads
from os import environ
from pathlib import Path
from random import random
from socket import SHUT_RDWR, gaierror, socket
from threading import Timer
from typing import Any, Final, Self
from urllib.parse import quote_plus, unquote, urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from quotaform import __version__
from quotaform.model.errors import HttpError, QuotaformError
from quotaform.model.server import Server
from quotaform.model.text import MIB, Secret
from quotaform.system.clock import SYSTEM_CLOCK, Clock
from quotaform.system.files import PEM_LIMIT, read_text

BODY_LIMIT: Final = MIB
"""The most bytes of an answer, unless a request allows more."""

_PORTS: Final = {"http": 80, "https": 443}
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Url:
    """Where a request goes."""

    scheme: str
    host: str  # the name or the address, without brackets
    port: int
    target: str = field(repr=False)  # path and query

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL. Raises `ValueError` if it cannot be used; the message says why and does not show it."""
        if not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("it contains a space or a character that URLs cannot contain")
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError("its host or its port is invalid") from None
        if parts.scheme not in _PORTS:
            raise ValueError("it must begin with https:// or http://")
        if not parts.hostname or not _is_host(parts.hostname):
            raise ValueError("it names no valid host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("it must not contain a user name or a password")
        if port == 0:
            raise ValueError("its host or its port is invalid")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target)

    @property
    def origin(self) -> str:
        """Scheme, host and port: all of it that is ever shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def server(self) -> Server:
        """The host and the port."""
        return Server(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def reveal(self) -> str:
        """Return the whole URL, to be sent and never shown."""
        return self.origin + self.target

    def follow(self, location: str) -> Url:
        """Return the URL to which a redirect from this one leads."""
        return Url.parse(urljoin(self.reveal(), location))

    def under(self, path: str) -> Url:
        """Return the URL of a path below this one, which has no query."""
        return Url(self.scheme, self.host, self.port, self.target.rstrip("/") + path)

    def with_query(self, query: Mapping[str, str]) -> Url:
        """Return this URL, which has no query, with one."""
        return Url(self.scheme, self.host, self.port, f"{self.target}?{urlencode(query)}")

    def __str__(self) -> str:
        return self.origin


form_value: Final = quote_plus
"""Returns a value as forms encode it: `a b&c` is `a+b%26c`."""


def file_of(url: str) -> str | None:
    """Return the path of a `file:` URL of this machine; `None` for any other text.

    >>> file_of("file:///run/a%20b"), file_of("https://host/a")
    ('/run/a b', None)
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def _is_host(host: str) -> bool:
    """Whether a host is an address, or a name of labels that a resolver takes."""
    try:
        ip_address(host)
    except ValueError:
        labels = host.removesuffix(".").split(".")
        return all(0 < len(label) < 64 and label.replace("-", "").replace("_", "").isalnum() for label in labels)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request."""

    method: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Secret] = field(default_factory=dict)
    """Headers that are never shown; they are sent encrypted, or to this machine without a proxy."""
    body: bytes | None = field(default=None, repr=False)
    is_repeatable: bool = False
    """Whether sending it twice does no more than sending it once; by default the method says so."""
    body_limit: int = BODY_LIMIT  # the most bytes of the answer
    is_download: bool = False
    """Whether it is public, from a host that no file names: `QUOTAFORM_ALLOWED_HOSTS` does not apply to it."""

    @property
    def may_repeat(self) -> bool:
        """Whether the request may be sent again when it is unknown whether it arrived."""
        return self.is_repeatable or self.method in _REPEATABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer, whatever its status."""

    url: Url
    status: int
    headers: Mapping[str, str]  # the headers, by name in lower case; repeated ones are joined by commas
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status says that the request was done."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body read as JSON."""
        try:
            return loads(self.body)
        except (ValueError, RecursionError):
            raise HttpError(
                self.url.origin, "answered with something that is not JSON; check the URL", status=self.status
            ) from None


def find_proxy(url: Url) -> tuple[Server | None, dict[str, str]]:
    """Return the proxy that the environment names for a URL, and what it is sent: the login of its own URL.

    There is none for this machine: another machine's proxy would read what is sent, and would ask its own `localhost`.
    Raises `HttpError` if it cannot be used.
    """
    proxies = {} if url.is_loopback else getproxies()
    text = proxies.get(url.scheme) or proxies.get("all")
    if not text or proxy_bypass(f"{url.host}:{url.port}"):
        return None, {}
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme != "http":
        words = f"cannot be reached: the proxy of the variable {url.scheme}_proxy must be http://HOST:PORT"
        raise HttpError(url.origin, words, may_have_arrived=False)
    if parts.username is None:
        return Server(host, port), {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Server(host, port), {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}


_REDIRECTS: Final = 3
_REDIRECT: Final = frozenset({301, 302, 303, 307, 308})
_SECONDARY_LIMIT_WAIT: Final = 60.0  # seconds that GitHub asks to wait after a secondary rate limit that says no time


class Transport(Struct, frozen=True, kw_only=True):
    """How requests are sent: how long one may take, what is trusted, and how often it is sent; times are in seconds."""

    connect: float = 10.0  # to connect to one address of the host, TLS included
    total: float = 30.0  # for one attempt
    context: ssl.SSLContext | None = None  # what is trusted and shown; `None` for the certificates of the system
    attempts: int = 5
    first_wait: float = 1.0  # after the first failure; each further wait is twice as long
    patience: float = 120.0  # from the beginning, after which nothing is sent again
    jitter: Callable[[], float] = random
    """A random number from 0 to 1, by which a wait is up to a half longer, so that runs that failed together do not
    come back together."""
    limited_wait: float = _SECONDARY_LIMIT_WAIT  # the least after a rate limit that says no time
    clock: Clock = SYSTEM_CLOCK

    def send_once(self, request: HttpRequest) -> Response:
        """Send a request once and return the answer, whatever its status.

        Raises `HttpError` if there is no answer, or none that can be used.
        """
        for value in [*request.headers.values(), *(secret.reveal() for secret in request.credentials.values())]:
            if not value.isascii() or not value.isprintable():
                words = (
                    "was not asked: the token or another header contains a line break or a character outside of ASCII"
                )
                raise HttpError(request.url.origin, words, may_have_arrived=False)
        context = self.context or ssl.create_default_context() if request.url.scheme == "https" else None
        deadline = time.monotonic() + self.total
        for _ in range(_REDIRECTS + 1):
            response = _exchange(request, self, deadline, context)
            if response.status not in _REDIRECT or "location" not in response.headers:
                return response
            request = replace(request, url=_redirected(request, response))
        raise HttpError(request.url.origin, f"redirects more than {_REDIRECTS} times; check the URL")

    def send(self, request: HttpRequest) -> Response:
        """Send a request until the answer would stay the same, and return that. Raises `HttpError` without one."""
        deadline = self.clock.monotonic() + self.patience
        attempt = 0
        while True:
            outcome: Response | HttpError
            try:
                outcome = self.send_once(request)
            except HttpError as error:
                outcome = error
            attempt += 1
            wait = self._wait(request, outcome, attempt)
            if wait is None or attempt >= self.attempts or self.clock.monotonic() + wait >= deadline:
                break
            self.clock.sleep(wait)
        if isinstance(outcome, HttpError):
            raise outcome
        return outcome

    def _wait(self, request: HttpRequest, outcome: Response | HttpError, attempt: int) -> float | None:
        """Return how many seconds to wait before the request is sent again; `None` when it is not."""
        asked = None
        if isinstance(outcome, HttpError):
            is_again = outcome.may_pass and (request.may_repeat or not outcome.may_have_arrived)
        else:
            asked = asked_wait(outcome, self.clock.now(), self.limited_wait)
            is_again = asked is not None or (outcome.status >= 500 and request.may_repeat)
        if not is_again:
            return None
        return max(self.first_wait * 2.0 ** (attempt - 1), asked or 0.0) * (1 + self.jitter() / 2)


def trusting(ca_file: Path) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a file, in PEM. Raises `QuotaformError` if there are none."""
    text = read_text(ca_file, PEM_LIMIT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError, TypeError):
        raise QuotaformError(f"{ca_file} contains no readable PEM certificate") from None
    return context


def _redirected(request: HttpRequest, response: Response) -> Url:
    try:
        url = request.url.follow(response.headers["location"])
    except ValueError:
        raise HttpError(
            request.url.origin, "redirects to something that is not a URL", status=response.status
        ) from None
    if url.origin != request.url.origin:
        problem = (
            f"redirects to {url.origin}, and redirects to another host, scheme or port are not followed; if it is the "
            "right one, give its URL"
        )
    elif request.method not in ("GET", "HEAD") and response.status not in (307, 308):
        problem = f"redirects a {request.method} (status {response.status}); check the URL"
    else:
        return url
    raise HttpError(request.url.origin, problem, status=response.status)


def _exchange(request: HttpRequest, transport: Transport, deadline: float, context: ssl.SSLContext | None) -> Response:
    """Send a request on a connection of its own, which is cut off at the deadline."""
    connected: socket | None = None

    def cut_off() -> None:
        """End what waits: a timeout of the socket begins anew with each byte."""
        if (sock := connected or connection.sock) is not None:
            with suppress(OSError):
                # Not that of a TLS socket, which would remove the TLS layer while another thread reads.
                socket.shutdown(sock, SHUT_RDWR)

    left = deadline - time.monotonic()
    timer = Timer(max(0.0, left), cut_off)
    timer.daemon = True
    try:
        if left <= 0:
            raise TimeoutError
        connection, target, headers = _connection(request, min(transport.connect, left), context)
        timer.start()
        with closing(connection):
            connection.connect()
            # The timer may have found no socket yet, as while a name is looked up.
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            connected = connection.sock
            connected.settimeout(left)
            headers |= {"User-Agent": f"quotaform/{__version__}", "Accept-Encoding": "identity", "Connection": "close"}
            secret = {name: value.reveal() for name, value in request.credentials.items()}
            connection.request(request.method, target, request.body, headers | dict(request.headers) | secret)
            with closing(connection.getresponse()) as answer:
                response = _read(request, answer)
        if time.monotonic() >= deadline:  # What was cut off may look whole.
            raise TimeoutError
    except (OSError, HTTPException) as error:
        cause = TimeoutError() if time.monotonic() >= deadline else error
        words, may_pass = _explain(cause, transport, is_connected=connected is not None)
        raise HttpError(request.url.origin, words, may_have_arrived=connected is not None, may_pass=may_pass) from None
    finally:
        timer.cancel()
    return response


def _connection(
    request: HttpRequest, timeout: float, context: ssl.SSLContext | None
) -> tuple[HTTPConnection, str, dict[str, str]]:
    """Return what to connect to, what the request line names, and headers for a proxy."""
    url = request.url
    proxy, headers = find_proxy(url)
    for server in filter(None, (url.server, proxy)):
        if (problem := server.problem(environ)) and not request.is_download:
            what = f"cannot be reached: the proxy {server} " if server is proxy else ""
            raise HttpError(url.origin, f"{what}{problem}", may_have_arrived=False)
    if request.credentials and context is None and (proxy is not None or not url.is_loopback):
        words = "would receive the token unencrypted, so nothing was sent; use https"
        raise HttpError(url.origin, words, may_have_arrived=False)
    near = proxy or url.server
    connection = HTTPConnection(near.host, near.port, timeout=timeout)
    if context is not None:
        connection = HTTPSConnection(near.host, near.port, timeout=timeout, context=context)
    if proxy is not None and context is None:
        return connection, url.reveal(), headers
    if proxy is not None:
        connection.set_tunnel(url.host, url.port, headers)
    return connection, url.target, {}


def _read(request: HttpRequest, answer: HTTPResponse) -> Response:
    limit = request.body_limit
    try:
        body = answer.read(limit + 1)
    except (ValueError, OverflowError):  # http.client takes the size of a chunk as it is.
        raise HTTPException from None
    if len(body) > limit:
        raise HttpError(request.url.origin, f"answered with more than {limit / MIB:g} MiB", status=answer.status)
    if answer.length:  # http.client says nothing when a body is shorter than announced.
        raise IncompleteRead(body)
    headers: dict[str, str] = {}
    for name, value in answer.getheaders():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Response(url=request.url, status=answer.status, headers=headers, body=body)


def _explain(error: Exception, transport: Transport, *, is_connected: bool) -> tuple[str, bool]:
    """Say why there is no answer, and whether networks and servers recover from that.

    The words of an error may hold the request, so none of them is used.
    """
    if isinstance(error, TimeoutError) and is_connected:
        return f"did not answer within {transport.total:g} s", True
    if isinstance(error, TimeoutError):
        seconds = min(transport.connect, transport.total)
        return f"cannot be reached within {seconds:g} s; check the URL, the network and the proxy", True
    if isinstance(error, gaierror):
        return "cannot be reached: the host name is unknown; check the URL and the proxy", True
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not trusted ({error.verify_message}); give the CA that issued it", False
    if isinstance(error, ssl.SSLError):
        return f"cannot be reached with TLS ({error.reason or 'the connection ended'})", True
    if isinstance(error, ConnectionRefusedError):
        return "cannot be reached: the connection was refused; check the URL and the proxy", True
    if isinstance(error, (ConnectionError, IncompleteRead)):
        return "closed the connection before the answer was complete", True
    if isinstance(error, HTTPException):
        return "answered with something that is not HTTP; check the URL", False
    if str(error).startswith("Tunnel connection failed"):  # the words of http.client
        return "cannot be reached: the proxy refused to connect to it", False
    return f"cannot be reached: {error.strerror or 'the connection failed'}", True  # type: ignore[attr-defined]


def is_rate_limited(response: Response) -> bool:
    """Whether a server refused a request because there were too many.

    GitHub answers 429 or 403, and 403 otherwise means that the token may not do this.
    """
    if response.status != 403:
        return response.status == 429
    is_used_up = _limit_header(response, "remaining") == "0"
    return is_used_up or "retry-after" in response.headers or b"rate limit" in response.body[:4096].lower()


def asked_wait(response: Response, now: datetime, unasked: float = _SECONDARY_LIMIT_WAIT) -> float | None:
    """Return in how many seconds a server says to come again, or `None`; `unasked` for a rate limit without a time."""
    if not is_rate_limited(response) and not (response.status == 503 and "retry-after" in response.headers):
        return None
    after = _seconds(response.headers.get("retry-after"), now)
    if after is None and _limit_header(response, "remaining") == "0":
        after = _seconds(_limit_header(response, "reset"), now)
    return unasked if after is None else after


def _limit_header(response: Response, name: str) -> str | None:
    return response.headers.get(f"x-ratelimit-{name}") or response.headers.get(f"ratelimit-{name}")


def _seconds(value: str | None, now: datetime) -> float | None:
    """Read a number of seconds, a time in seconds since 1970, or a date of HTTP."""
    if value is None:
        return None
    if value.isascii() and value.isdecimal() and len(value) <= 12:
        # Large ones are times (GitHub, GitLab), others a number of seconds (draft-ietf-httpapi-ratelimit).
        number = int(value)
        return float(number) if number < 1_000_000_000 else max(0.0, number - now.timestamp())
    try:
        date = parsedate_to_datetime(value)
    except (OverflowError, ValueError):  # An hour may have any number of digits.
        return None
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())
