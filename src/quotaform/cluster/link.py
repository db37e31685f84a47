"""The connection to Kafka brokers: the one module that imports kafka-python.

It uses kafka-python's connection and codec and none of its cluster client, whose constructor reports every
problem as the same timeout after 30 seconds and repeats wrong credentials all the while. Here an attempt is made
once per server, in order, and fails with what the socket, TLS or the broker said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from logging import Filter, LogRecord, getLogger
from ssl import SSLSocket
from threading import Event, Thread
from time import monotonic
from typing import Any, Final
from warnings import catch_warnings, simplefilter

from quotaform import __version__
from quotaform.cluster.client_config import ClientConfig
from quotaform.cluster.connect_error import (
    Failure,
    Intent,
    Stage,
    UnansweredError,
    connect_error,
    is_timeout,
    shorten,
)
from quotaform.cluster.dial import open_socket, shake_hands
from quotaform.cluster.server import Server
from quotaform.errors import ClusterError, ConnectError, UnsupportedError

with catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion, KafkaProtocolError
    from kafka.net.connection import KafkaConnection
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.protocol.admin import (
        AlterClientQuotasRequest,
        AlterUserScramCredentialsRequest,
        DescribeClientQuotasRequest,
        DescribeConfigsRequest,
        DescribeUserScramCredentialsRequest,
    )
    from kafka.protocol.metadata import MetadataRequest

_MAX_FRAME: Final = 256 << 20
"""Over three million quotas; and less than what the first bytes of a TLS alert say when read as a length."""
_THREAD_ID: Final = "quotaform"
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
_SLICE: Final = 0.2
"""Seconds after which a thread that waits for an answer looks up for signals."""


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
    """

    def __init__(self, servers: Sequence[Server], config: ClientConfig, *, name: str, timeout: float) -> None:
        """Connect; see `quotaform.cluster.kafka.KafkaGateway.connect`."""
        _hush()
        self.cluster_id: str | None = None
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
        self._net = NetworkSelector(client_id=_THREAD_ID, slow_task_threshold_secs=0)
        self._net.start()
        self._thread = self._net._io_thread
        try:
            self._run(self._open_or_raise, timeout + _LOOKUP_GRACE)
        except UnansweredError:
            self.close()
            raise ConnectError(
                f"Cannot connect to {name}: looking up its host names takes longer than {timeout:g} s; check your DNS."
            ) from None
        except BaseException:
            self.close()
            raise

    def send(self, make_request: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request; see `quotaform.cluster.kafka.Link.send`."""
        if self._closed:
            raise ClusterError(f"The connection to {self._intent.name} is closed.")
        return self._run(lambda: self._send(make_request, timeout), timeout + self._timeout + _GRACE)

    def send_to(self, node_id: int, make_request: Callable[[], Any], *, timeout: float) -> Any:
        """Send a request to one broker; see `quotaform.cluster.kafka.Link.send_to`."""
        server = self.brokers[node_id]
        connection = self._connection
        if len(self.brokers) == 1 or (connection is not None and connection.node_id == str(server)):
            return self.send(make_request, timeout=timeout)
        name = f"broker {node_id} at {server}"
        other = KafkaLink([server], self._config, name=name, timeout=min(timeout, self._timeout))
        try:
            return other.send(make_request, timeout=timeout)
        finally:
            other.close()

    def close(self) -> None:
        """Close the connection and end the IO thread."""
        if self._closed:
            return
        self._closed = True
        with suppress(Exception):
            self._net.call_soon_threadsafe(self._drop)
        self._net.stop(timeout_ms=1000)
        if self._thread.is_alive():
            # It hangs in a DNS lookup; nobody waits for that.
            Thread(target=self._finish, name=f"{self._thread.name}-end", daemon=True).start()
        else:
            self._finish()

    def _finish(self) -> None:
        self._thread.join()
        self._net.close()

    def _run(self, work: Callable[[], Any], timeout: float) -> Any:
        done = Event()
        future = self._net.call_soon_with_future(work)
        future.add_both(lambda _: done.set())
        deadline = monotonic() + timeout
        # In slices: a signal that another thread received is acted upon when this one wakes up.
        while not done.wait(_SLICE):
            if monotonic() > deadline:
                raise UnansweredError(f"{self._intent.name} did not answer within {timeout:.0f} s.")
        if future.exception is not None:
            raise future.exception
        return future.value

    # What follows runs on the IO thread.

    async def _send(self, make_request: Callable[[], Any], timeout: float) -> Any:
        connection = await self._ready()
        # What cannot be encoded raises here, before anything goes out.
        answer = connection.send_request(make_request(), request_timeout_ms=timeout * 1000)
        try:
            response = await answer
        except IncompatibleBrokerVersion:
            raise UnsupportedError(
                f"{self._intent.name} runs Kafka {connection.broker_version_data.broker_version_str}, which cannot do"
                " this; client quotas need Kafka 2.6 or later."
            ) from None
        except Exception as error:
            raise unanswered(connection.node_id, error, timeout) from None
        self._quiet_until = monotonic() + response.throttle_time_ms / 1000
        return response

    async def _ready(self) -> Any:
        """Return a connection on which the next request goes out at once."""
        deadline = monotonic() + self._timeout
        backoff = _FIRST_BACKOFF
        while self._connection is None or not self._connection.connected:
            failures = await self._open(deadline)
            if failures and (failures[-1].is_final or monotonic() + backoff > deadline):
                raise connect_error(self._intent, failures)
            if failures:
                await self._net.sleep(backoff)
                backoff = min(2 * backoff, _MAX_BACKOFF)
        # A broker mutes a client that is over its own quota; kafka-python refuses to send meanwhile.
        while self._connection.paused or monotonic() < self._quiet_until:
            await self._net.sleep(max(0.005, self._quiet_until - monotonic()))
            if not self._connection.connected:
                return await self._ready()
        return self._connection

    async def _open_or_raise(self) -> None:
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
        connection = KafkaConnection(self._net, node_id=str(server), **self._settings)
        try:
            sock = await open_socket(self._net, server, timeout_at)
            transport: Any
            if self._ssl_context is None:
                transport = _PlainTransport(self._net, sock, host=server.host)
            else:
                stage = Stage.TLS
                sock = await shake_hands(self._net, sock, self._ssl_context, server, timeout_at)
                transport = _TlsTransport(self._net, sock, server.host)
            stage = Stage.SPEAK
            connection.connection_made(transport)
            await connection.initialize(timeout_at)
            await connection.init_future
            stage = Stage.ASK
            request = MetadataRequest(topics=MetadataRequest.NO_TOPICS, allow_auto_topic_creation=False)
            metadata = await connection.send_request(
                request, request_timeout_ms=max(1, (timeout_at - monotonic()) * 1000)
            )
        except Exception as error:
            if stage is Stage.SPEAK and self._intent.is_sasl and connection.broker_version_data is not None:
                stage = Stage.SASL
            connection.close(error)
            return Failure(server=str(server), stage=stage, cause=error, seconds=round(seconds, 1))
        self._connection = connection
        self.cluster_id = metadata.cluster_id
        self.brokers = {broker.node_id: Server(broker.host, broker.port) for broker in metadata.brokers}
        for named in self.brokers.values():
            if named not in self._servers:
                self._servers.append(named)
        return None

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def unanswered(server: str, error: BaseException, seconds: float) -> UnansweredError:
    """Return the error for a request that went out to a server and got no answer."""
    if is_timeout(error):
        return UnansweredError(f"{server} did not answer within {seconds:.0f} s.")
    return UnansweredError(f"The connection to {server} was lost before it answered ({shorten(error)}).")


class _LastWords:
    """Makes a transport hand over what a broker said right before it closed the connection.

    kafka-python drops the bytes that arrive together with the end of the stream. With failed authentication
    that is the broker's error message.
    """

    async def _read_from_sock(self: Any) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            data, error = self._sock_recv()
            try:
                if data:
                    self.last_read = monotonic()
                    self._protocol.data_received(data)
            except KafkaProtocolError as problem:
                error = problem
            if error:
                # Whoever waited for the data is to see it before the connection is gone.
                await self._net.sleep(0)
                self.abort(error=error)
                return


class _PlainTransport(_LastWords, KafkaTCPTransport):  # type: ignore[misc]
    """TCP."""


class _TlsTransport(_LastWords, KafkaSSLTransport):  # type: ignore[misc]
    """TLS over a socket whose handshake is done."""

    def __init__(self, net: Any, sock: SSLSocket, host: str) -> None:
        KafkaTCPTransport.__init__(self, net, sock, host=host)


class _Hush(Filter):
    """Drops what kafka-python logs on our IO threads; of others' use of kafka-python in the process it lets all pass.

    Its warnings are told by our errors, and at debug level it logs requests whole, passwords included.
    """

    def filter(self, record: LogRecord) -> bool:
        return record.threadName != f"kafka-io-{_THREAD_ID}"


_HUSH: Final = _Hush()
_TALKERS: Final = (
    "kafka.net.connection",
    "kafka.net.transport",
    "kafka.net.selector",
    "kafka.net.sasl.plain",
    "kafka.net.sasl.scram",
    "kafka.protocol",
    "kafka.protocol.parser",
    "kafka.future",
)


def _hush() -> None:
    for name in _TALKERS:
        getLogger(name).addFilter(_HUSH)
