"""Bootstrap servers: the one grammar of HOST:PORT."""

from __future__ import annotations

from collections.abc import Iterable
from re import ASCII
from re import compile as regex
from typing import Final, NamedTuple

_WRITTEN: Final = regex(
    r"(?:\w+://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s\[\]:/,]+)):(?P<port>[0-9]{1,5})", ASCII
).fullmatch


class Server(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @property
    def is_valid(self) -> bool:
        """Whether one could write it: a broker may name anything as its address."""
        return (
            self.host.isprintable()
            and len(self.host) < 256
            and _WRITTEN(str(self)) is not None
            and 0 < self.port < 65536
        )

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_server(written: str) -> Server:
    """Read one server.

    The host is a name, an IPv4 address, or an IPv6 address in brackets, with a zone if need be. A listener's name in
    front is what brokers show of their listeners (`PLAINTEXT://b1:9092`); Kafka's clients pass over it, too.

    >>> parse_server("PLAINTEXT://b1:9092"), str(parse_server("[fe80::1%eth0]:9092"))
    (Server(host='b1', port=9092), '[fe80::1%eth0]:9092')

    Raises:
        ValueError: It is not `host:port`.
    """
    match = _WRITTEN(written)
    port = int(match["port"]) if match else 0
    if match is None or not 0 < port < 65536:
        raise ValueError(f"The bootstrap server {written!r} is not host:port; write for example broker1:9092.")
    return Server(match["v6"] or match["host"], port)


def parse_servers(written: str | Iterable[str]) -> tuple[Server, ...]:
    """Read servers, in a list or separated by commas, without duplicates.

    >>> [str(server) for server in parse_servers("b1:9092, [::1]:9093,b1:9092")]
    ['b1:9092', '[::1]:9093']

    Raises:
        ValueError: There is none, or one is not `host:port`.
    """
    items = [written] if isinstance(written, str) else list(written)
    names = [name.strip() for item in items for name in item.split(",") if name.strip()]
    if not names:
        raise ValueError("There is no bootstrap server to connect to; give at least one as host:port.")
    return tuple(dict.fromkeys(map(parse_server, names)))
