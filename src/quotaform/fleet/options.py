"""Where a command runs Spark, and with which settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from re import compile as regex
from typing import Final, Self

from msgspec import Struct, field

from quotaform.model.errors import ArgumentError
from quotaform.model.server import Server, parse_server
from quotaform.model.text import quote
from quotaform.model.variable import OwnSecret

LOCAL: Final = "local[*]"
CONNECT_PORT: Final = 15002
"""The port of a Spark Connect server whose URL has none."""

_LOCAL: Final = regex(
    r"local(\[([0-9]+|\*)(\s*,\s*[0-9]+)?\])?|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
)
_KUBERNETES_URL: Final = regex(r"k8s://(https?://)?([^/@]+)(/[^@\s]*)?")
_REMOTE: Final = regex(r"sc://(\[[0-9A-Fa-f:.]+\]|[^/:;@\[\]?#\s]+)(:[0-9]{1,5})?(/(;[^;=]+=[^;=]*)*)?")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Master(Struct, frozen=True):
    """The URL of a master."""

    url: str
    is_local: bool = False  # Whether Spark runs in one process on this machine, without a master
    servers: tuple[Server, ...] = ()  # Where the master listens, any of these; none where Spark finds it by other means

    @classmethod
    def parse(cls, source: str, url: str) -> Self:
        """Read a URL.

        >>> Master.parse("{master}", "spark://a:7077,b:7077").servers
        (Server('a:7077'), Server('b:7077'))
        >>> Master.parse("{master}", "local[2]").is_local
        True
        """
        if _LOCAL.fullmatch(url):
            return cls(url, is_local=True)
        if url == "yarn":
            return cls(url)
        with suppress(ValueError):
            if url.startswith("spark://"):
                return cls(url, servers=tuple(map(parse_server, url.removeprefix("spark://").split(","))))
            if match := _KUBERNETES_URL.fullmatch(url):
                has_port = match[2].rpartition(":")[2].isdecimal()
                server = match[2] if has_port else f"{match[2]}:{80 if match[1] == 'http://' else 443}"
                return cls(url, servers=(parse_server(server),))
        # Not shown: it may hold a password.
        raise ArgumentError(
            f"{source}: this is not the URL of a Spark master; write local[2], spark://host:7077, yarn or "
            "k8s://https://host:443, or give the sc:// URL of a Spark Connect server with {remote}"
        )

    @property
    def is_here(self) -> bool:
        """Whether the executors are on this machine, as far as the URL says."""
        return self.is_local or (bool(self.servers) and all(server.host in _LOOPBACK for server in self.servers))


class Remote(Struct, frozen=True):
    """The URL of a Spark Connect server."""

    url: str  # As Spark takes it; its parameters may hold a token
    server: Server
    parameters: tuple[str, ...] = ()  # The names of its parameters

    @classmethod
    def parse(cls, source: str, url: str) -> Self:
        """Read a URL.

        >>> Remote.parse("{remote}", "sc://host/;use_ssl=true").shown
        'sc://host:15002'
        """
        with suppress(ValueError):
            if match := _REMOTE.fullmatch(url):
                names = (part.partition("=")[0] for part in url.partition("/;")[2].split(";"))
                server = parse_server(f"{match[1]}{match[2] or f':{CONNECT_PORT}'}")
                return cls(url, server, tuple(filter(None, names)))
        raise ArgumentError(
            f"{source}: this is not the URL of a Spark Connect server; write sc://host:{CONNECT_PORT}, and "
            "parameters as in sc://host:443/;use_ssl=true, or give the URL of a master with {master}"
        )

    @property
    def shown(self) -> str:
        """The URL without its parameters."""
        return f"sc://{self.server}"


_SECRET: Final = regex(r"(?i)secret|passw(or)?d|token|access[._-]?key|([._-]|api|private)key$|sasl[._]jaas[._]config")
"""What `spark.redaction.regex` of Spark looks for, and names of settings of Kafka and of cloud storage."""
_PLACE: Final = regex(r"(?i)(file|path|location|provider|class|enabled|interval|lifetime)$")
"""How names of settings end that say where a secret is, or what is done with one."""
_KUBERNETES_SECRET: Final = regex(r"spark\.kubernetes\.(driver|executor)\.secret(s|KeyRef)\..*")
"""Settings that name a secret of Kubernetes."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Where Spark runs; in this process if nothing says anything else."""

    master: str | None = None
    """The URL of a master, e.g. `spark://host:7077`, `yarn`, `k8s://https://host:443` or `local[2]`."""
    remote: str | None = None  # The URL of a Spark Connect server, e.g. `sc://host:15002`.
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, which take precedence over those that quotaform chooses."""
    has_joins: bool = False
    """Whether Spark itself computes, as in joins of millions of rows, so that Java's second compiler pays."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the arguments that say anything."""
        arguments = {"master": self.master, "remote": self.remote, "spark_conf": self.conf}
        return tuple(name for name, value in arguments.items() if value)

    def require_valid(self) -> None:
        """Check the options. Raises `UsageError` if a URL is invalid, both are given, or a setting is not allowed."""
        if self.master is not None and self.remote is not None:
            raise ArgumentError("{master} and {remote} cannot be combined; give one of them")
        if self.master is not None:
            Master.parse("{master}", self.master)
        if self.remote is not None:
            # Not shown: an option is seen in the list of processes and in the logs of CI.
            for name in Remote.parse("{remote}", self.remote).parameters:
                if is_secret(name):
                    raise ArgumentError(
                        "{remote}: {} is a secret, and options are visible to others; put a token into the "
                        f"environment variable {OwnSecret.SPARK_CONNECT_TOKEN}, or the whole URL into "
                        f"{OwnSecret.SPARK_REMOTE}",
                        quote(name),
                    )
        for name in self.conf:
            if not name.startswith("spark.") or not name.isprintable() or any(sign.isspace() for sign in name):
                raise ArgumentError("{spark_conf} {}: the name of a Spark setting begins with spark.", quote(name))
            if name in ("spark.master", "spark.remote"):
                raise ArgumentError(f"{{spark_conf}} {name}: give {{{name.removeprefix('spark.')}}} instead")
            if is_secret(name):
                raise ArgumentError(
                    "{spark_conf} {}: this is a secret, and options are visible to others, in Spark's UI and in logs; "
                    "put it into spark-defaults.conf in the folder that SPARK_CONF_DIR names, or into a file on the "
                    "executors",
                    quote(name),
                )


def read_session(master: str | None, remote: str | None, settings: Iterable[str] = ()) -> SessionOptions:
    """Return where Spark runs, with settings as KEY=VALUE. Raises `UsageError` if it cannot be asked for this."""
    conf = {}
    for text in settings:
        name, separator, value = text.partition("=")
        if not (name and separator):
            # Not shown: it may be a secret.
            raise ArgumentError("{spark_conf}: write KEY=VALUE, for example spark.executor.memory=4g")
        conf[name] = value
    options = SessionOptions(master=master, remote=remote, conf=conf)
    options.require_valid()
    return options


LOCAL_SESSION: Final = SessionOptions()
"""Nothing says anything: a session that exists, or one of this machine."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting of that name is a secret.

    >>> is_secret("spark.ssl.keyStorePassword"), is_secret("spark.hadoop.fs.s3a.access.key")
    (True, True)
    >>> is_secret("spark.sql.mapKeyDedupPolicy"), is_secret("spark.kubernetes.executor.secrets.kafka-properties")
    (False, False)
    """
    return bool(_SECRET.search(name)) and not (_PLACE.search(name) or _KUBERNETES_SECRET.fullmatch(name))


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables, or unset those that are `None`, and put back what was there."""
    before = {name: os.environ.get(name) for name in variables}

    def set_them(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    set_them(variables)
    try:
        yield
    finally:
        set_them(before)
