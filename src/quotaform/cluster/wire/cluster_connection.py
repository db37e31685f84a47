"""A connection to a cluster: one broker at a time, failing over to another broker of the same cluster.

Servers are tried once each, in order; the error is that of the socket, TLS or the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import Event, Lock
from time import monotonic
from typing import Final

from msgspec.structs import replace

from quotaform.cluster.broker import BrokerRelease, service_hint
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.broker_connection import SLICE, BrokerConnection, canonical_servers
from quotaform.cluster.wire.failure import (
    AUTHENTICATION,
    AttemptError,
    Failure,
    LoginError,
    Stage,
    connect_error,
    unanswered,
)
from quotaform.cluster.wire.message import BrokerRequest, ResponseT
from quotaform.model.errors import ClusterError, UnsupportedError
from quotaform.model.server import Server
from quotaform.model.text import inert

_FIRST_BACKOFF: Final = 0.1
_MAX_BACKOFF: Final = 2.0
_SHARE: Final = 2.0  # seconds that one of many servers gets at least before the next is tried


class ClusterConnection:
    """One connection to one broker at a time.

    Any broker answers for quotas, so the connection that was opened first is used as long as it lives; then the
    next server's turn comes: those given, after them the brokers that the cluster named. Advertised addresses
    that cannot be reached from here do no harm therefore. Nothing happens in the background: a session is renewed
    (KIP-368) and a throttle waited for (KIP-219) before the next request.

    Every connection leads to the same cluster: whatever a server's address says, one that shows another cluster's
    id than the first one did is not asked for anything.

    `brokers` are those that the cluster named, by node id; `versions` are the lowest and the highest that the broker in
    use speaks, by API key.

    Not safe for use from several threads at a time; only `close` may be called from another one, and ends what is
    being done.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        config: ClientConfig,
        *,
        name: str,
        timeout: float,
        cluster_id: str | None = None,
        observe: Callable[[BrokerConnection, Failure | None], None] = lambda *_: None,
    ) -> None:
        """Connect; see `quotaform.cluster.kafka.BrokerGateway.connect`.

        `cluster_id` is the one that the cluster must have. `observe` is called after each attempt to connect to
        a broker, with what went wrong if it failed.
        """
        self.name = name
        self.cluster_id = cluster_id
        self.brokers: Mapping[int, Server] = {}
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.broker: BrokerConnection | None = None
        self._closing = Event()
        if config.canonical_names:
            begin = monotonic()
            # The other half is for connecting, whatever becomes of the names.
            found = [canonical_servers(server, begin + timeout / 2, self._closing) for server in servers]
            servers = list(dict.fromkeys(chain.from_iterable(found)))
            timeout -= monotonic() - begin
            # The addresses of brokers, which the cluster names, are used as they are.
            config = replace(config, canonical_names=False)
        self._config = config
        self._observe = observe
        self._ssl_context = config.tls.context() if config.tls else None
        self._timeout = timeout
        self._given = tuple(servers)
        self._servers = list(servers)
        self._quiet_until = 0.0
        self._lock = Lock()
        with self._in_use():
            if failures := self._open(monotonic() + timeout):
                raise connect_error(self.name, self._config, failures)

    def send(self, request: BrokerRequest[ResponseT], *, timeout: float, silence: float | None = None) -> ResponseT:
        """Send a request to any broker and return its answer.

        `silence`: seconds without a byte of the answer after which it is given up earlier.

        Raises `UnansweredError` if it went out and no answer came, and `ClusterError` if it never went out.
        """
        with self._in_use():
            broker = self._ready(monotonic() + max(self._timeout, timeout))
            try:
                version = broker.choose_version(request)
            except AttemptError:
                raise UnsupportedError(
                    f"{self.name} runs Kafka {BrokerRelease.of(broker.versions)}, which does not support this request",
                    remedy=service_hint([broker.server.host]) or f"{request.NEEDS}.",
                ) from None
            # What cannot be encoded raises here, before anything goes out.
            frame = broker.encode(request, version)
            deadline = monotonic() + timeout
            try:
                broker.send(frame, deadline)
                answer = broker.read_answer(request, version, deadline, silence)
            except Exception as error:
                self._abandon(broker)
                raise unanswered(str(broker.server), error, timeout) from None
            self._quiet_until = max(self._quiet_until, monotonic() + broker.throttle_ms / 1000)
            return answer

    def send_to(self, node_id: int, request: BrokerRequest[ResponseT], *, timeout: float) -> ResponseT:
        """Send a request to one of `brokers`, connecting to it for that if need be, and return its answer."""
        server = self.brokers[node_id]
        if len(self.brokers) == 1 or (self.broker is not None and self.broker.server == server):
            return self.send(request, timeout=timeout)
        other = ClusterConnection(
            [server],
            self._config,
            name=f"broker {node_id} at {server}",
            timeout=min(timeout, self._timeout),
            cluster_id=self.cluster_id,
        )
        try:
            return other.send(request, timeout=timeout)
        finally:
            other.close()

    def close(self) -> None:
        """Close the connection; if called from another thread, abort the request in progress, which then closes it."""
        self._closing.set()
        broker = self.broker
        if broker is not None:
            broker.shutdown()
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keep the connection open for a while; an interrupt leaves it in an unknown state and closes it."""
        with self._lock:
            if self._closing.is_set():
                raise ClusterError(f"The connection to {self.name} is closed.")
            try:
                yield
            except BaseException as error:
                if not isinstance(error, Exception):
                    self._drop()
                raise
            finally:
                if self._closing.is_set():
                    self._drop()

    def _ready(self, ready_by: float) -> BrokerConnection:
        """Return a connection on which the next request goes out at once."""
        broker = self.broker
        # While it throttles, a broker would not read from the connection.
        if self._quiet_until > ready_by:
            raise ClusterError(
                f"{broker.server if broker is not None else self.name} throttles this client for longer than its"
                " timeout, perhaps by its own quota; nothing was sent."
            )
        self._pause(self._quiet_until)
        if broker is not None and broker.is_idle and broker.must_authenticate:
            try:
                broker.authenticate(monotonic() + self._timeout)
            except Exception as error:
                self._drop()
                # For another reason than the credentials, a new connection is tried.
                is_refused = isinstance(error, AttemptError) and error.case in AUTHENTICATION
                if is_refused or isinstance(error, LoginError):
                    failure = Failure(server=str(broker.server), stage=Stage.SASL, cause=error, seconds=self._timeout)
                    raise connect_error(self.name, self._config, [failure]) from None
        # The broker may have ended an idle connection, or the session of it.
        if self.broker is not None and self.broker.is_idle:
            return self.broker
        self._drop()
        deadline, backoff = min(ready_by, monotonic() + self._timeout), _FIRST_BACKOFF
        while failures := self._open(deadline):
            if monotonic() + backoff > deadline or any(failure.is_certain for failure in failures):
                raise connect_error(self.name, self._config, failures)
            self._pause(monotonic() + backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF)
        if self.broker is None:
            raise ClusterError(f"The connection to {self.name} is closed.")
        return self.broker

    def _pause(self, until: float) -> None:
        while (left := until - monotonic()) > 0 and not self._closing.wait(min(left, SLICE)):
            pass
        if self._closing.is_set():
            raise ClusterError(f"The connection to {self.name} is closed.")

    def _open(self, deadline: float) -> list[Failure]:
        """Connect to the first server that can be used, trying each once; return what went wrong if none can."""
        failures: list[Failure] = []
        for number, server in enumerate(tuple(self._servers)):
            left = deadline - monotonic()
            if failures and left <= 0:
                break
            failure = self._try(server, max(0.1, min(left, max(_SHARE, left / (len(self._servers) - number)))))
            if failure is None:
                return []
            failures.append(failure)
            if failure.is_final:
                break
        return failures

    def _try(self, server: Server, seconds: float) -> Failure | None:
        broker = BrokerConnection(server, self._config, ssl_context=self._ssl_context, closing=self._closing)
        self.broker = broker
        try:
            metadata = broker.open(monotonic() + seconds)
            broker.stage = Stage.CLUSTER_ID
            if self.cluster_id is not None and metadata.cluster_id != self.cluster_id:
                found = inert(metadata.cluster_id) if metadata.cluster_id else "without an id"
                sentence = f"is cluster {found}, not {inert(self.cluster_id)}"
                raise AttemptError("OtherCluster", "another cluster", sentence)
        except ClusterError:
            self._drop()
            raise
        except Exception as error:
            self._abandon(broker)
            failure = Failure(server=str(broker.server), stage=broker.stage, cause=error, seconds=seconds)
            self._observe(broker, failure)
            return failure
        self._observe(broker, None)
        self.cluster_id = metadata.cluster_id
        self.versions = broker.versions
        # A server that was given is shown as it was given, also when the cluster gives its address.
        given = {each: each for each in self._given}
        self.brokers = {node_id: given.get(each, each) for node_id, each in metadata.brokers.items()}
        # Servers that no broker names any more are removed, except for the given ones.
        named = {*self.brokers.values(), *self._given, server}
        self._servers = list(
            dict.fromkeys([*(each for each in self._servers if each in named), *self.brokers.values()])
        )
        return None

    def _abandon(self, broker: BrokerConnection) -> None:
        """Close the connection to a broker that failed, and move it to the end of the list."""
        self._drop()
        self._servers.remove(broker.server)
        self._servers.append(broker.server)

    def _drop(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.close()
