"""The proxy between this machine and a server, as the environment names it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from quotaform.errors import HttpError
from quotaform.http.message import Url


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy.

    Attributes:
        headers: What it is sent: the login of its URL, if there is one.
    """

    host: str
    port: int
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: Url) -> Proxy | None:
        """Return the proxy that the environment names for a URL; `None` when there is none, and for this machine.

        Another machine's proxy would read what is sent, and would ask its own `localhost`. Raises `HttpError` if it
        cannot be used.
        """
        if url.is_loopback:
            return None
        proxies = getproxies()
        text = proxies.get(url.scheme) or proxies.get("all")
        if not text or proxy_bypass(f"{url.host}:{url.port}"):
            return None
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname, parts.port or 80
        except ValueError:
            host, port = None, 0
        if not host or parts.scheme != "http":
            raise HttpError(
                url.origin,
                f"cannot be reached: the proxy of the variable {url.scheme}_proxy must be http://HOST:PORT",
                may_have_arrived=False,
            )
        if parts.username is None:
            return cls(host, port, {})
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return cls(host, port, {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"})
