"""What the gateways to a running cluster share: connecting, reading with retries, closing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.cluster.wire.failure import UnansweredError
from quotaform.cluster.wire.message import BrokerRequest, BrokerResponse, ResponseT
from quotaform.errors import ClusterError, UsageError
from quotaform.model.server import Server, parse_servers

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to get a usable connection."""
ALTER_TIMEOUT: Final = 65.0
"""Seconds to wait for an alter: a broker forwards it to the controller for up to 60 s before it gives up."""


PendingT = TypeVar("PendingT", bound=BrokerResponse, covariant=True)


class Pending(Protocol[PendingT]):
    """The answer to a request that was sent."""

    def result(self) -> PendingT:
        """Wait for the answer and return it.

        Raises:
            UnansweredError: None came.
        """


class Connection(Protocol):
    """A way to send one request and get its answer; the seam at which tests let brokers fail.

    `quotaform.cluster.wire.cluster_connection.ClusterConnection` is the one that is used.
    """

    cluster_id: str | None
    brokers: Mapping[int, Server]
    """The brokers that the cluster named, by node id."""

    def send(self, request: BrokerRequest[ResponseT], *, timeout: float) -> ResponseT:
        """Send a request to any broker and return its answer.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def begin(self, request: BrokerRequest[ResponseT], *, timeout: float) -> Pending[ResponseT]:
        """Send a request to any broker and return at once, so that one can do something else while it is answered.

        Any other request waits for that answer first.

        Raises:
            UnansweredError: It may have gone out.
            ClusterError: It never went out.
        """

    def send_to(self, node_id: int, request: BrokerRequest[ResponseT], *, timeout: float) -> ResponseT:
        """Send a request to one of `brokers`, connecting to it for that if need be, and return its answer.

        Raises:
            UnansweredError: It went out, and no answer came.
            ClusterError: It never went out.
        """

    def close(self) -> None:
        """Let go of the connection, from any thread; more than once is fine."""


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
        bootstrap_servers: str | Iterable[str] = (),
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
            timeout: Seconds after which it is given up. Most problems are certain, and told, much earlier.

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
        deadline = monotonic() + api_timeout
        attempt = 1
        while True:
            timeout = max(1.0, min(request_timeout, deadline - monotonic()))
            try:
                return self.connection.send(request, timeout=timeout)
            except UnansweredError as error:
                if attempt == tries or monotonic() >= deadline:
                    raise ClusterError(f"{problem}: {error}{hint}") from None
            sleep(0.1 * 2**attempt)
            attempt += 1

    def _alter(self, request: BrokerRequest[ResponseT]) -> ResponseT:
        """Send an alter, once: an answer that does not come leaves its outcome unknown."""
        return self.connection.send(request, timeout=max(ALTER_TIMEOUT, self._request_timeout))

    def close(self) -> None:
        """Let go of the connection; from another thread, end what is being done on it."""
        self.connection.close()

    def __enter__(self) -> Self:
        """Return the gateway itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the gateway."""
        self.close()
