"""What is sent over HTTP and what comes back, as values that show no secret.

A URL may be a secret itself: that of a webhook has a token in its path. So a URL prints as its origin alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from json import loads
from typing import Any, Final, Self
from urllib.parse import quote_plus, unquote, urlencode, urljoin, urlsplit

from quotaform.model.errors import HttpError
from quotaform.model.server import Server
from quotaform.model.text import MIB, Secret

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
