"""The addresses of Spark: the URL of a master, and that of a Spark Connect server."""

from __future__ import annotations

from dataclasses import dataclass
from re import compile as regex
from typing import Final, Self

from quotaform.errors import UsageError
from quotaform.model.server import Server, parse_server

LOCAL: Final = "local[*]"
CONNECT_PORT: Final = 15002
"""The port of a Spark Connect server whose URL has none."""

_LOCAL: Final = regex(
    r"local(\[([0-9]+|\*)(\s*,\s*[0-9]+)?\])?|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
)
_KUBERNETES: Final = regex(r"k8s://(https?://)?([^/@]+)(/[^@\s]*)?")
_REMOTE: Final = regex(r"sc://(\[[0-9A-Fa-f:.]+\]|[^/:;@\[\]?#\s]+)(:[0-9]{1,5})?(/(;[^;=]+=[^;=]*)*)?")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MASTERS: Final = "write local[2], spark://host:7077, yarn or k8s://https://host:443"


@dataclass(frozen=True, slots=True)
class Master:
    """The URL of a master.

    Attributes:
        is_local: Whether Spark runs in one process on this machine, without a master.
        servers: Where the master listens, any of these; none where Spark finds it by other means.
    """

    url: str
    is_local: bool = False
    servers: tuple[Server, ...] = ()

    @classmethod
    def parse(cls, source: str, url: str) -> Self:
        """Read a URL.

        >>> Master.parse("--master", "spark://a:7077,b:7077").servers
        (Server(host='a', port=7077), Server(host='b', port=7077))
        >>> Master.parse("--master", "local[2]").is_local
        True

        Args:
            source: The option or variable that it comes from.
        """
        if _LOCAL.fullmatch(url):
            return cls(url, is_local=True)
        if url == "yarn":
            return cls(url)
        if url.startswith("sc://"):
            raise UsageError(f"{source}: sc:// is the URL of a Spark Connect server; give it with --remote")
        servers: tuple[Server, ...] | None = None
        if url.startswith("spark://"):
            servers = _servers(url.removeprefix("spark://").split(","))
        elif match := _KUBERNETES.fullmatch(url):
            has_port = match[2].rpartition(":")[2].isdecimal()
            servers = _servers([match[2] if has_port else f"{match[2]}:{80 if match[1] == 'http://' else 443}"])
        if servers is None:
            # Not shown: it may hold a password.
            raise UsageError(f"{source}: this is not the URL of a Spark master; {_MASTERS}")
        return cls(url, servers=servers)

    @property
    def is_here(self) -> bool:
        """Whether the executors are on this machine, as far as the URL says."""
        return self.is_local or (bool(self.servers) and all(server.host in _LOOPBACK for server in self.servers))


@dataclass(frozen=True, slots=True)
class Remote:
    """The URL of a Spark Connect server.

    Attributes:
        url: As Spark takes it; its parameters may hold a token.
        parameters: The names of its parameters.
    """

    url: str
    server: Server
    parameters: tuple[str, ...] = ()

    @classmethod
    def parse(cls, source: str, url: str) -> Self:
        """Read a URL.

        >>> Remote.parse("--remote", "sc://host/;use_ssl=true").shown
        'sc://host:15002'

        Args:
            source: The option or variable that it comes from.
        """
        match = _REMOTE.fullmatch(url)
        servers = match and _servers([f"{match[1]}{match[2] or f':{CONNECT_PORT}'}"])
        if not (match and servers):
            if url.startswith(("spark://", "k8s://")) or url == "yarn" or _LOCAL.fullmatch(url):
                raise UsageError(f"{source}: this is the URL of a Spark master; give it with --master")
            raise UsageError(
                f"{source}: this is not the URL of a Spark Connect server; write sc://host:{CONNECT_PORT}, and "
                "parameters as in sc://host:443/;use_ssl=true"
            )
        names = (part.partition("=")[0] for part in url.partition("/;")[2].split(";"))
        return cls(url, servers[0], tuple(filter(None, names)))

    @property
    def shown(self) -> str:
        """The URL without its parameters."""
        return f"sc://{self.server}"


def _servers(texts: list[str]) -> tuple[Server, ...] | None:
    try:
        return tuple(map(parse_server, texts))
    except ValueError:
        return None
