"""Bootstrap servers."""

from __future__ import annotations

from collections.abc import Iterable
from re import compile as regex
from typing import Final, NamedTuple

from quotaform.errors import UsageError

_WRITTEN: Final = regex(
    r"(?:[0-9A-Za-z_]+://)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s\[\]:/,]+)):(?P<port>[0-9]{1,5})"
).fullmatch


class Server(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(written: str | Iterable[str]) -> tuple[Server, ...]:
    """Read servers as `host:port`, in a list or separated by commas, without duplicates.

    >>> [str(server) for server in parse_servers("b1:9092, [::1]:9093,b1:9092")]
    ['b1:9092', '[::1]:9093']

    Raises:
        UsageError: There is none, or one is not `host:port`.
    """
    items = [written] if isinstance(written, str) else list(written)
    names = [name.strip() for item in items for name in item.split(",") if name.strip()]
    if not names:
        raise UsageError("There is no bootstrap server to connect to; give at least one as host:port.")
    servers: dict[Server, None] = {}
    for name in names:
        match = _WRITTEN(name)
        port = int(match["port"]) if match else 0
        if match is None or not 0 < port < 65536:
            raise UsageError(f"The bootstrap server {name!r} is not host:port; write for example broker1:9092.")
        servers[Server(match["v6"] or match["host"], port)] = None
    return tuple(servers)
