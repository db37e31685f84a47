"""The base class of gateways to running clusters: connecting, reading with retries, closing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Protocol, Self

from quotaform.cluster.age import Age, service_hint
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import BrokerRequest, ResponseT
from quotaform.errors import ClusterError, UsageError
from quotaform.model.server import Server, parse_servers

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to get a usable connection."""
SILENCE: Final = 4.0
"""Seconds without data after which a read is sent to another broker on the first try; 100,000 quotas take 2."""
LONE_SILENCE: Final = 10.0
"""The same if there is no other broker and only the connection can be at fault."""
ZOOKEEPER_SILENCE: Final = 30.0
"""The same for brokers that read each quota from ZooKeeper: 6,000 quotas take 8."""
ALTER_TIMEOUT: Final = 65.0
"""The timeout of an alter in seconds: a broker may take up to 60 to forward it to the controller."""


class Connection(Protocol):
    """Sends one request at a time and returns its response; tests replace it to simulate failures.

    `quotaform.cluster.wire.cluster_connection.ClusterConnection` is the one that is used.
    """

    cluster_id: str | None
    brokers: Mapping[int, Server]
    """The brokers that the cluster named, by node id."""
    versions: Mapping[int, tuple[int, int]]
    """The lowest and the highest version that the broker in use offers, by API key."""

    def send(self, request: BrokerRequest[ResponseT], *, timeout: float, silence: float | None = None) -> ResponseT:
        """Send a request to any broker and return its answer.

        Args:
            request: What to ask.
            timeout: Seconds after which it is given up.
            silence: Seconds without a byte of the answer after which it is given up earlier.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def send_to(self, node_id: int, request: BrokerRequest[ResponseT], *, timeout: float) -> ResponseT:
        """Send a request to one of `brokers`, connecting to it for that if need be, and return its answer.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def close(self) -> None:
        """Close the connection, from any thread; may be called more than once."""


class BrokerGateway:
    """A running cluster. Not safe for use from several threads at a time, `close` aside.

    Attributes:
        name: What messages call the cluster.
        connection: How to reach its brokers.
    """

    def __init__(
        self, connection: Connection, *, name: str, request_timeout: float = 30.0, api_timeout: float = 60.0
    ) -> None:
        """Make a gateway from a connection; `connect` makes both.

        Args:
            connection: How to reach the brokers.
            name: What messages call the cluster.
            request_timeout: Seconds for one request; an alter is given 65 at least.
            api_timeout: Seconds for a read with all its retries.
        """
        self.name = name
        self.connection = connection
        self._request_timeout = request_timeout
        self._api_timeout = api_timeout

    @classmethod
    def connect(
        cls,
        bootstrap_servers: str | Iterable[str | Server] = (),
        client_config: ClientConfig | None = None,
        *,
        name: str | None = None,
        timeout: float = CONNECT_TIMEOUT,
    ) -> Self:
        """Connect to a cluster.

        Args:
            bootstrap_servers: `host:port`, several with commas or as a list; none for those of the client config.
            client_config: Protocol, credentials and times; plain if not given.
            name: What messages call the cluster; its bootstrap servers if not given.
            timeout: Seconds after which it is given up. Most problems are certain, and reported, much earlier.

        Raises:
            ConnectError: No server could be used; the message says why and what to do.
            AuthenticationError: A server did not accept the credentials; no other was tried.
            UsageError: There is no server, or one is not `host:port`.
        """
        config = client_config or ClientConfig()
        try:
            servers = parse_servers(bootstrap_servers or config.bootstrap_servers)
        except ValueError as error:
            raise UsageError(str(error)) from None
        label = name or ",".join(map(str, servers))
        connection = ClusterConnection(servers, config, name=label, timeout=timeout)
        return cls(connection, name=label, request_timeout=config.request_timeout, api_timeout=config.api_timeout)

    def _read(
        self,
        request: BrokerRequest[ResponseT],
        *,
        problem: str,
        request_timeout: float,
        api_timeout: float,
        tries: int,
        hint: str = "",
    ) -> ResponseT:
        """Send a read until it is answered; a lost connection is no failure, since reading again is harmless.

        Args:
            request: What to ask.
            problem: What the message begins with when no answer came.
            request_timeout: Seconds for one try.
            api_timeout: Seconds for all of them.
            tries: How many there may be.
            hint: What the message ends with.

        Raises:
            ClusterError: The cluster could not be read.
        """
        try:
            return self._ask(request, request_timeout=request_timeout, api_timeout=api_timeout, tries=tries)
        except UnansweredError as error:
            raise ClusterError(f"{problem}: {error}{hint}") from None

    def _ask(
        self,
        request: BrokerRequest[ResponseT],
        *,
        request_timeout: float,
        api_timeout: float,
        tries: int,
        silence: float | None = None,
    ) -> ResponseT:
        """Send what changes nothing until it is answered: after a lost connection, and after a silence, to the next.

        A broker that is frozen must not use up all the time while others are well, and one that is busy with a large
        answer must not be given up: each try waits twice as long for a byte as the one before.

        Args:
            request: What to ask.
            request_timeout: Seconds for one try.
            api_timeout: Seconds for all of them.
            tries: How many there may be.
            silence: Seconds that the first try waits for a byte, if not the usual ones.

        Raises:
            UnansweredError: The last try got no answer.
            ClusterError: There is no connection to the cluster any more.
        """
        deadline = monotonic() + api_timeout
        silence = silence or self._silence
        attempt = 1
        while True:
            timeout = max(1.0, min(request_timeout, deadline - monotonic()))
            try:
                return self.connection.send(request, timeout=timeout, silence=silence)
            except UnansweredError:
                if attempt == tries or monotonic() >= deadline:
                    raise
            sleep(0.1 * 2**attempt)
            attempt += 1
            silence *= 2

    @property
    def _silence(self) -> float:
        """Seconds that a first try waits for a byte of the answer."""
        if self.age.has_zookeeper:
            return ZOOKEEPER_SILENCE
        return SILENCE if len(self.connection.brokers) > 1 else LONE_SILENCE

    def _alter(self, request: BrokerRequest[ResponseT]) -> ResponseT:
        """Send an alter once; without a response its outcome is unknown."""
        return self.connection.send(request, timeout=max(ALTER_TIMEOUT, self._request_timeout))

    @property
    def age(self) -> Age:
        """Which release the brokers are, as far as the one in use tells."""
        return Age.of(self.connection.versions)

    @property
    def service_hint(self) -> str:
        """Where quotas are set instead, if the brokers are of a service that manages them itself; empty if not."""
        return service_hint(server.host for server in self.connection.brokers.values())

    def close(self) -> None:
        """Close the connection; if called from another thread, abort the request in progress."""
        self.connection.close()

    def __enter__(self) -> Self:
        """Return the gateway itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the gateway."""
        self.close()
