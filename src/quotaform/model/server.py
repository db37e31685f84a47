"""Parses bootstrap servers (HOST:PORT), and says which hosts this process may connect to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from re import ASCII, escape, fullmatch
from re import compile as regex
from typing import Final

from quotaform.model.text import quote

_WRITTEN: Final = regex(
    r"(?:\w+://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s\[\]:/,@]+)):(?P<port>[0-9]{1,5})", ASCII
).fullmatch

ALLOWED_HOSTS: Final = "QUOTAFORM_ALLOWED_HOSTS"
"""The variable that lists the hosts that may be connected to, separated by commas; any if it is not set."""
UNLISTED: Final = f"is not listed in {ALLOWED_HOSTS}, so nothing is sent to it"
LIST_IT: Final = "correct it, or list it there"
_LABELS: Final = r"(?:[a-z0-9_-]+\.)+"


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """A host and a port.

    It prints as it was `written`, if that is given: the address is a secret, which an environment variable holds.

    >>> Server("b1", 9092, "${env:QUOTAFORM_HOST}:9092"), str(Server("::1", 9092))
    (Server('${env:QUOTAFORM_HOST}:9092'), '[::1]:9092')
    """

    host: str
    port: int
    written: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, int]:
        """What is equal for two spellings of one name: a name has no case, and may end with a dot."""
        return self.host.lower().removesuffix("."), self.port

    def is_listed(self, environment: Mapping[str, str]) -> bool:
        """Whether `QUOTAFORM_ALLOWED_HOSTS` lists it, or is not set; every connection is held to this.

        An item is a name or an address, and may end with a port. `*.` at its beginning stands for one label or more,
        any other `*` for a part of a label, so that `10.0.0.*` is no name that others can register.

        >>> listed = {"QUOTAFORM_ALLOWED_HOSTS": "*.kafka.example, b-*:9093, 10.0.0.*"}
        >>> Server("b1.eu.kafka.example", 1).is_listed(listed), Server("b-1", 9092).is_listed(listed)
        (True, False)
        """
        if ALLOWED_HOSTS not in environment:
            return True
        host, port = self.key
        for item in environment[ALLOWED_HOSTS].lower().split(","):
            name, its_port = item.strip(), str(port)
            if name.startswith("[") or name.count(":") == 1:
                name, _, after = name.removeprefix("[").rpartition("]" if "]" in name else ":")
                its_port = after.removeprefix(":") or its_port
            labels = _LABELS if name.startswith("*.") else ""
            rest = escape(name.removeprefix("*.").removesuffix(".")).replace(r"\*", "[a-z0-9_-]*")
            if its_port == str(port) and fullmatch(labels + rest, host):
                return True
        return False

    def problem(self, environment: Mapping[str, str]) -> str | None:
        """Return why nothing may be sent to it, as the rest of a sentence about it; `None` if it `is_listed`."""
        return None if self.is_listed(environment) else f"{UNLISTED}; {LIST_IT}"

    @property
    def is_valid(self) -> bool:
        """Whether one could write it: a broker may name anything as its address.

        >>> [Server("a." * 127 + "a" * more, 9092).is_valid for more in (1, 2)]
        [True, False]
        """
        return (
            self.host.isprintable()
            and len(self.host) < 256
            and _WRITTEN(str(self)) is not None
            and 0 < self.port < 65536
        )

    @property
    def address(self) -> str:
        """The address, whatever is shown of it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.written or self.address

    def __repr__(self) -> str:
        return f"Server({str(self)!r})"


def parse_server(written: str) -> Server:
    """Read one server. Raises `ValueError` if it is not `host:port`.

    The host is a name, an IPv4 address, or an IPv6 address in brackets, with a zone if need be. A listener's name in
    front is what brokers show of their listeners (`PLAINTEXT://b1:9092`); Kafka's clients pass over it, too.

    >>> parse_server("PLAINTEXT://b1:9092"), str(parse_server("[fe80::1%eth0]:9092"))
    (Server('b1:9092'), '[fe80::1%eth0]:9092')
    """
    match = _WRITTEN(written)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(
            f"The bootstrap server {spell_server(written)} is not host:port; write for example broker1:9092."
        )
    return Server(match["v6"] or match["host"], int(match["port"]))


def spell_server(written: str) -> str:
    """Return a text that is no server as messages show it, without the password that may be in front of an `@`.

    >>> print(spell_server("b1"), spell_server("https://me:hunter2@b1"))
    "b1" "…@b1"
    """
    return quote(f"…@{written.rpartition('@')[2]}" if "@" in written else written)


def parse_servers(written: str | Iterable[str | Server]) -> tuple[Server, ...]:
    """Read servers, in a list or separated by commas, without duplicates.

    >>> [str(server) for server in parse_servers("b1:9092, [::1]:9093,b1:9092")]
    ['b1:9092', '[::1]:9093']

    Raises `ValueError`: there is none, or one is not `host:port`.
    """
    items = [written] if isinstance(written, str) else list(written)
    servers: list[Server] = []
    for item in items:
        if isinstance(item, Server):
            servers.append(item)
        else:
            servers += [parse_server(name.strip()) for name in item.split(",") if name.strip()]
    if not servers:
        raise ValueError("There is no bootstrap server to connect to; give at least one as host:port.")
    return tuple(dict.fromkeys(servers))
