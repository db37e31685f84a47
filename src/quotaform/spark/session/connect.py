"""Sessions of Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final
from warnings import catch_warnings, filterwarnings

from quotaform.errors import EngineError
from quotaform.interrupt import held_signals
from quotaform.model.text import inert
from quotaform.spark.session.endpoint import Remote
from quotaform.spark.session.environment import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE: Final = 10.0
"""How many seconds a server has to accept a connection."""
_MOST_RETRIES: Final = 6
"""How often a request to a server that is gone is repeated, over half a minute; by default it takes ten minutes."""
_LONGEST_WAIT: Final = 15_000
"""The longest time in milliseconds between two such requests."""
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which the functions of PySpark know which kind of column to make."""


def is_connect(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has neither a SparkContext nor a Java process here."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(session).__mro__)


@contextmanager
def connect_session(remote: Remote, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session of a Spark Connect server, which is released at the end; the server goes on.

    Raises `EngineError` if the server does not answer, is of another version, or refuses a setting.
    """
    with environment({_MODE: "1"}), catch_warnings():
        # Said beside the error of the request that was repeated.
        filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
        # Of windows over a row per series; a session of one's own only logs it.
        filterwarnings("ignore", "WARN WindowExpression")
        own: Any = None
        try:
            _require_answer(remote)
            with held_signals():
                own = _start(remote)
            _require_version(remote, own.version)
            _apply(conf, own)
            yield own
        finally:
            if own is not None:
                own.stop()


def _start(remote: Remote) -> Any:
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.config("spark.remote", remote.url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_MOST_RETRIES, max_backoff=_LONGEST_WAIT)])
    return session


def _require_answer(remote: Remote) -> None:
    """Make sure that a server accepts connections; PySpark itself would try for ten minutes."""
    from grpc import ChannelConnectivity
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    states: SimpleQueue[ChannelConnectivity] = SimpleQueue()
    channel = DefaultChannelBuilder(remote.url).toChannel()
    channel.subscribe(states.put, try_to_connect=True)
    try:
        while (state := states.get(timeout=_PATIENCE)) is not ChannelConnectivity.READY:
            if state is ChannelConnectivity.TRANSIENT_FAILURE:
                raise Empty
    except Empty:
        raise EngineError(
            f"The Spark Connect server {inert(remote.shown)} does not answer; check that it runs and that this machine "
            "may connect to it, and whether it needs ;use_ssl=true, or correct --remote."
        ) from None
    finally:
        channel.close()


def _require_version(remote: Remote, version: str) -> None:
    """Make sure that a server understands this client: it may be newer, within one major version."""
    from pyspark import __version__ as own

    if not is_compatible(own, version):
        raise EngineError(
            f"The Spark Connect server {inert(remote.shown)} runs Spark {inert(version)}, and pyspark here is {own}; "
            f"use a server of Spark {'.'.join(own.split('.')[:2])} or a newer one of the same major version."
        )


def is_compatible(client: str, server: str) -> bool:
    """Whether a Spark Connect server supports a client: one that is not newer, of the same major version.

    >>> is_compatible("4.2.0", "4.2.1"), is_compatible("4.2.0", "4.3.0-SNAPSHOT"), is_compatible("4.2.0", "4.1.1")
    (True, True, False)
    >>> is_compatible("4.2.0", "5.0.0"), is_compatible("4.2.0", "unknown")
    (False, False)
    """
    try:
        (major, minor), (server_major, server_minor) = (map(int, text.split(".")[:2]) for text in (client, server))
    except ValueError:
        return False
    return server_major == major and server_minor >= minor


def _apply(conf: Mapping[str, str], session: SparkSession) -> None:
    """Change settings of the session. Raises `EngineError` if one of them is a setting of the server."""
    from pyspark.errors import PySparkException

    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            raise EngineError(
                f"The Spark Connect server does not change {inert(name)} for a session; set it where the server is "
                "started, or leave --spark-conf out."
            ) from error
