"""The connection to Kafka brokers: the one module that imports kafka-python.

It uses kafka-python's connection and codec and none of its cluster client, whose constructor reports every
problem as the same timeout after 30 seconds and repeats wrong credentials all the while. Here an attempt is made
once per server, in order, and fails with what the socket, TLS or the broker said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final
from warnings import catch_warnings, simplefilter

from quotaform import __version__
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.cause import (
    CodeError,
    LostError,
    NotKafkaError,
    OtherClusterError,
    TooOldError,
    UnprovenError,
)
from quotaform.cluster.wire.connect_error import Failure, Intent, Stage, UnansweredError, connect_error, unanswered
from quotaform.cluster.wire.dial import open_socket, shake_hands
from quotaform.cluster.wire.driver import require_members, unusable
from quotaform.cluster.wire.hush import hushed
from quotaform.cluster.wire.io_thread import Call, CrashError, IoThread, OverdueError
from quotaform.cluster.wire.transport import Transport
from quotaform.errors import ClusterError, ConnectError, UnsupportedError
from quotaform.model.server import Server

with catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    simplefilter("ignore", DeprecationWarning)
    from kafka import __version__ as kafka_version

    try:
        from kafka.errors import (
            BrokerResponseError,
            IncompatibleBrokerVersion,
            InvalidReceiveError,
            KafkaError,
            KafkaTimeoutError,
            RequestTimedOutError,
        )
        from kafka.net.connection import KafkaConnection
        from kafka.net.selector import NetworkSelector
        from kafka.protocol.admin import (
            AlterClientQuotasRequest,
            AlterUserScramCredentialsRequest,
            DescribeClientQuotasRequest,
            DescribeConfigsRequest,
            DescribeUserScramCredentialsRequest,
        )
        from kafka.protocol.metadata import MetadataRequest

        # Some members exist on an object alone.
        _CONNECTION: Final = KafkaConnection(None)
    except Exception as error:
        raise unusable(kafka_version, str(error)) from None

require_members(kafka_version, selector=NetworkSelector, connection=_CONNECTION)

_MAX_FRAME: Final = 256 << 20
"""Over three million quotas; and less than what the first bytes of a TLS alert say when read as a length."""
_THREAD: Final = "kafka-io-quotaform"
_FIRST_BACKOFF: Final = 0.1
_MAX_BACKOFF: Final = 2.0
_SHARE: Final = 2.0
"""Seconds that one of many servers gets at least before the next is tried."""
_GRACE: Final = 5.0
"""Seconds beyond all timeouts of a request after which the IO thread itself is given up."""
_LOOKUP_GRACE: Final = 0.5
"""The same for connecting: only a DNS lookup cannot be given a time limit of its own."""
_BROKER_RESOURCE: Final = 4
"""ConfigResource.Type.BROKER."""
_NAP: Final = 0.005
"""Seconds after which a connection that may not send yet is looked at again."""


def describe_request(components: list[tuple[str, int, str | None]], *, is_strict: bool) -> Any:
    """Return a request for client quotas; components are (entity type, match type, match or `None`)."""
    return DescribeClientQuotasRequest(components=components, strict=is_strict)


def alter_request(entries: list[Any], *, validate_only: bool) -> Any:
    """Return a request that alters client quotas; entries are tuples in the order of the protocol's fields."""
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def describe_scram_request(users: Sequence[str]) -> Any:
    """Return a request for the SCRAM credentials of some users, or of all users if there are none."""
    # Not null, which means the same: to a principal without the right a broker never answers it.
    return DescribeUserScramCredentialsRequest(users=[(user,) for user in users])


def alter_scram_request(deletions: list[tuple[str, int]], upsertions: list[tuple[str, int, int, bytes, bytes]]) -> Any:
    """Return a request that alters SCRAM credentials; the tuples are in the order of the protocol's fields."""
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def broker_config_request(node_id: int, name: str) -> Any:
    """Return a request for one configuration value of a broker, which only that broker answers."""
    return DescribeConfigsRequest(resources=[(_BROKER_RESOURCE, str(node_id), [name])])


class KafkaLink:
    """One connection to one broker at a time, on an IO thread of its own.

    Any broker answers for quotas, so the connection that was opened first is used as long as it lives; then the
    next server's turn comes: those given, after them the brokers that the cluster named. Advertised addresses
    that cannot be reached from here do no harm therefore. Nothing happens in the background but
    re-authentication (KIP-368).

    Every connection leads to the same cluster: whatever a server's address says, one that shows another cluster's
    id than the first one did is not asked for anything.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        config: ClientConfig,
        *,
        name: str,
        timeout: float,
        cluster_id: str | None = None,
    ) -> None:
        """Connect; see `quotaform.cluster.kafka.KafkaGateway.connect`.

        Args:
            servers: Where.
            config: How.
            name: What messages call the cluster.
            timeout: Seconds to get a usable connection.
            cluster_id: The id that the cluster must have; any if not given.
        """
        self.cluster_id = cluster_id
        self.brokers: Mapping[int, Server] = {}
        self._config = config
        self._ssl_context = config.ssl_context()
        self._settings = config.connection_settings() | {
            "client_id": config.client_id or f"quotaform/{__version__}",
            "client_software_name": "quotaform",
            "client_software_version": __version__,
            "receive_message_max_bytes": _MAX_FRAME,
        }
        self._timeout = timeout
        self._servers = list(servers)
        self._intent = Intent(
            name=name,
            protocol=config.security_protocol,
            mechanism=config.sasl_mechanism,
            user=config.sasl_username,
            has_certificate=config.has_certificate,
        )
        self._connection: Any = None
        self._quiet_until = 0.0
        self._closed = False
        with hushed():
            self._net = NetworkSelector(slow_task_threshold_secs=0)
        self._io = IoThread(self._net, _THREAD)
        try:
            self._io.run(self._open_or_raise, timeout + _LOOKUP_GRACE)
        except OverdueError:
            self.close()
            raise self._slow_lookup(timeout) from None
        except BaseException:
            self.close()
            raise

    def send(self, make_request: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request; see `quotaform.cluster.kafka.Link.send`."""
        if self._closed:
            raise ClusterError(f"The connection to {self._intent.name} is closed.")
        patience = max(self._timeout, timeout)
        limit = patience + timeout + _GRACE
        try:
            return self._io.run(lambda call: self._send(call, make_request, timeout, patience), limit)
        except OverdueError as error:
            if error.is_sent:
                raise UnansweredError(f"{self._intent.name} did not answer within {limit:.0f} s.") from None
            raise self._slow_lookup(limit) from None
        except CrashError as error:
            text = f"The connection to {self._intent.name} failed: {error.__cause__!r}."
            raise (UnansweredError(text) if error.is_sent else ClusterError(text)) from None

    def send_to(self, node_id: int, make_request: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request to one broker; see `quotaform.cluster.kafka.Link.send_to`."""
        server = self.brokers[node_id]
        connection = self._connection
        if len(self.brokers) == 1 or (connection is not None and connection.node_id == str(server)):
            return self.send(make_request, timeout=timeout)
        name = f"broker {node_id} at {server}"
        limit = min(timeout, self._timeout)
        other = KafkaLink([server], self._config, name=name, timeout=limit, cluster_id=self.cluster_id)
        try:
            return other.send(make_request, timeout=timeout)
        finally:
            other.close()

    def close(self) -> None:
        """Close the connection and end the IO thread."""
        if not self._closed:
            self._closed = True
            self._io.close(self._drop)

    def _slow_lookup(self, seconds: float) -> ConnectError:
        """Return the error for an IO thread that hangs: nothing but a DNS lookup can make it."""
        return ConnectError(
            f"Cannot connect to {self._intent.name}: looking up its host names takes longer than {seconds:g} s;"
            " check your DNS."
        )

    # What follows runs on the IO thread.

    async def _send(self, call: Call, make_request: Callable[[], Any], timeout: float, patience: float) -> Any:
        connection = await self._ready(monotonic() + patience)
        request = make_request()
        call.begin_sending()
        # What cannot be encoded raises here, before anything goes out.
        answer = connection.send_request(request, request_timeout_ms=timeout * 1000)
        try:
            response = await answer
        except IncompatibleBrokerVersion:
            raise UnsupportedError(
                f"{self._intent.name} runs Kafka {connection.broker_version_data.broker_version_str}, which cannot do"
                " this; client quotas need Kafka 2.6 or later."
            ) from None
        except Exception as error:
            raise unanswered(connection.node_id, translate(error), timeout) from None
        self._quiet_until = monotonic() + response.throttle_time_ms / 1000
        return response

    async def _ready(self, ready_by: float) -> Any:
        """Return a connection on which the next request goes out at once and not later."""
        while True:
            if self._connection is None or not self._connection.connected:
                await self._reconnect(min(ready_by, monotonic() + self._timeout))
            connection, now = self._connection, monotonic()
            # A broker mutes a client that is over its own quota; kafka-python refuses to send meanwhile, and it
            # keeps a request back while it authenticates again.
            if not connection.paused and not connection._reauth.is_reauthenticating and now >= self._quiet_until:
                return connection
            if now >= ready_by:
                raise ClusterError(
                    f"{connection.node_id} asks this client to wait for too long, as a quota of its own may say;"
                    " nothing was sent."
                )
            await self._net.sleep(max(_NAP, min(self._quiet_until, ready_by) - now))

    async def _reconnect(self, deadline: float) -> None:
        backoff = _FIRST_BACKOFF
        while failures := await self._open(deadline):
            if monotonic() + backoff > deadline or any(failure.is_certain for failure in failures):
                raise connect_error(self._intent, failures)
            await self._net.sleep(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF)

    async def _open_or_raise(self, call: Call) -> None:
        if failures := await self._open(monotonic() + self._timeout):
            raise connect_error(self._intent, failures)

    async def _open(self, deadline: float) -> list[Failure]:
        """Connect to the first server that can be used, trying each once; return what went wrong if none can."""
        self._drop()
        failures: list[Failure] = []
        for number, server in enumerate(tuple(self._servers)):
            left = deadline - monotonic()
            if failures and left <= 0:
                break
            failure = await self._try(server, max(0.1, min(left, max(_SHARE, left / (len(self._servers) - number)))))
            if failure is None:
                return []
            # Next time the others come first.
            self._servers.remove(server)
            self._servers.append(server)
            failures.append(failure)
            if failure.is_final:
                break
        return failures

    async def _try(self, server: Server, seconds: float) -> Failure | None:
        """Connect to one server; return what went wrong, if anything did."""
        timeout_at = monotonic() + seconds
        stage = Stage.REACH
        transport: Transport | None = None
        connection = KafkaConnection(self._net, node_id=str(server), **self._settings)
        try:
            sock = await open_socket(self._net, server, timeout_at)
            if self._ssl_context is not None:
                stage = Stage.TLS
                sock = await shake_hands(self._net, sock, self._ssl_context, server, timeout_at)
            transport = Transport(self._net, sock, server.host)
            stage = Stage.SPEAK
            connection.connection_made(transport)
            await connection.initialize(timeout_at)
            await connection.init_future
            stage = Stage.ASK
            request = MetadataRequest(topics=MetadataRequest.NO_TOPICS, allow_auto_topic_creation=False)
            metadata = await connection.send_request(
                request, request_timeout_ms=max(1, (timeout_at - monotonic()) * 1000)
            )
            stage = Stage.KNOW
            self._meet(metadata)
        except Exception as error:
            if stage is Stage.SPEAK and self._intent.is_sasl and connection.broker_version_data is not None:
                stage = Stage.SASL
            connection.close(error)
            cause = translate(error, transport.first_bytes if transport else b"")
            if stage is Stage.SASL and isinstance(cause, (ValueError, KeyError)):
                cause = UnprovenError()
            return Failure(server=str(server), stage=stage, cause=cause, seconds=round(seconds, 1))
        except BaseException:
            # Cancelled: nobody waits for this connection any more.
            connection.close()
            raise
        self._connection = connection
        return None

    def _meet(self, metadata: Any) -> None:
        """Note what a server says of its cluster.

        Raises:
            OtherClusterError: It is not the cluster that was connected to.
        """
        if self.cluster_id is not None and metadata.cluster_id != self.cluster_id:
            raise OtherClusterError(metadata.cluster_id, self.cluster_id)
        self.cluster_id = metadata.cluster_id
        self.brokers = {broker.node_id: Server(broker.host, broker.port) for broker in metadata.brokers}
        for named in self.brokers.values():
            if named not in self._servers:
                self._servers.append(named)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def translate(error: BaseException, first_bytes: bytes = b"") -> BaseException:
    """Return an error of kafka-python as one of `quotaform.cluster.wire.cause` or of Python, and others as they are.

    Args:
        error: What was raised.
        first_bytes: The first bytes that the server sent.
    """
    if isinstance(error, (KafkaTimeoutError, RequestTimedOutError)):
        return TimeoutError()
    if isinstance(error, InvalidReceiveError):
        return NotKafkaError(first_bytes)
    if isinstance(error, IncompatibleBrokerVersion):
        return TooOldError()
    if isinstance(error, BrokerResponseError) and error.errno is not None:
        return CodeError(error.errno)
    if not isinstance(error, KafkaError):
        return error
    # Some wrap what the system said.
    wrapped = error.args[0] if error.args else type(error).__name__
    return translate(wrapped, first_bytes) if isinstance(wrapped, BaseException) else LostError(str(wrapped))
