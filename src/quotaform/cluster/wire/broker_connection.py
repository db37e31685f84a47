"""A connection to one broker: TCP or TLS, frames, API versions, authentication, one request at a time.

Every call has a deadline, a time of `monotonic`, and waits in slices: if another thread closes the connection, or a
signal (Ctrl-C) arrives just before the wait begins, the call ends within one slice; any other signal interrupts it
immediately.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from os import environ
from ssl import SSLContext, SSLSocket, SSLWantReadError, cert_time_to_seconds
from threading import Event
from time import monotonic
from typing import Any, Final, TypeVar

from quotaform import __version__
from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.wire.failure import SASL_FAILED, AttemptError, LoginError, Stage, code_error
from quotaform.cluster.wire.message import (
    INT32,
    UNSUPPORTED_VERSION,
    ApiVersions,
    BrokerRequest,
    ClusterMetadata,
    MalformedError,
    Metadata,
    ResponseT,
    SaslAuthenticate,
    SaslHandshake,
)
from quotaform.model.server import ALLOWED_HOSTS, Server
from quotaform.system.process import in_thread

T = TypeVar("T")

SLICE: Final = 0.2
"""The length of a slice in seconds."""
_READ_SIZE: Final = 1 << 16
MAX_FRAME: Final = 256 << 20
"""Over three million quotas; and less than what the first bytes of a TLS alert say when read as a length."""
_SESSION_SHARE: Final = 0.85
"""The part of a session's lifetime after which one authenticates again; Kafka's own clients choose 0.85 to 0.95."""


class BrokerConnection:
    """A connection to a broker; not safe for use from several threads at a time, `shutdown` aside.

    To be shown are the `addresses` of the host, and `session`: what the TLS handshake negotiated, and whose certificate
    the server has. `versions` are the lowest and the highest that the broker speaks, by API key. `session_lifetime` is
    in seconds, 0 for never; `throttle_ms` is how long the broker asked to wait in its last answer.
    """

    def __init__(
        self,
        server: Server,
        config: ClientConfig,
        *,
        ssl_context: SSLContext | None,
        closing: Event,
    ) -> None:
        """Describe a connection; `open` makes it. Once `closing` is set, every call ends with the case Lost."""
        self.server = server
        self.stage = Stage.CONNECT
        self.addresses: tuple[str, ...] = ()
        self.session: Mapping[str, str] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        self.session_lifetime = 0.0
        self.throttle_ms = 0
        self.client_id = config.client_id or f"quotaform/{__version__}"
        self._config = config
        self._ssl_context = ssl_context
        self._closing = closing
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._authenticate_at: float | None = None

    def open(self, deadline: float) -> ClusterMetadata:
        """Connect, authenticate, and return which cluster this is.

        Raises any cause of `quotaform.cluster.wire.failure`; `stage` says where.
        """
        self._connect(deadline)
        if self._ssl_context is not None:
            self.stage = Stage.TLS
            self._start_tls(self._ssl_context, deadline)
        self.stage = Stage.API_VERSIONS
        asked = ApiVersions(__version__)
        oldest, newest = asked.VERSIONS
        code, versions = self.exchange(asked, deadline, newest)
        if code == UNSUPPORTED_VERSION:
            code, versions = self.exchange(asked, deadline, oldest)
        if code:
            raise code_error(code)
        self.versions = dict(versions)
        if self._config.credentials is not None:
            self.stage = Stage.SASL
            deadline = self.authenticate(deadline)
        self.stage = Stage.METADATA
        return self.exchange(Metadata(), deadline)

    def _connect(self, deadline: float) -> None:
        """Open a TCP connection to the first address of the host that accepts one."""
        if self.server.problem(environ):
            raise AttemptError("Unlisted", f"not listed in {ALLOWED_HOSTS}")
        try:
            addresses = _addresses(self.server, socket.AI_NUMERICHOST)
        except socket.gaierror:
            addresses = _look_up(lambda: _addresses(self.server), deadline, self._closing)
        self.addresses = tuple(dict.fromkeys(address[0] for *_, address in addresses))
        problem: Exception = OSError("the host name has no address")
        for number, (family, kind, protocol, _, address) in enumerate(addresses):
            if self._closing.is_set():
                raise AttemptError("Lost", "it was closed")
            # An address that swallows connections leaves time for the others.
            share = (deadline - monotonic()) / (len(addresses) - number)
            try:
                self._socket = sock = socket.socket(family, kind, protocol)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                sock.settimeout(max(share, 0.001))
                sock.connect(address)
                return
            except Exception as error:
                self.close()
                problem = error
        raise problem

    def _start_tls(self, context: SSLContext, deadline: float) -> None:
        # A certificate has neither the dot that ends a full name nor the zone of an IPv6 address.
        name = self.server.host.rstrip(".").partition("%")[0]
        tls: SSLSocket = context.wrap_socket(self._open_socket, server_hostname=name, do_handshake_on_connect=False)
        self._socket = tls
        self._until(deadline, tls.do_handshake)
        peer: Any = tls.getpeercert()  # its certificate, which was verified
        self.session = {
            "version": tls.version() or "",
            "cipher": (tls.cipher() or ("",))[0],
            "certificate_of": ", ".join(name for _, name in peer.get("subjectAltName", ())),
            "valid_until": f"{datetime.fromtimestamp(cert_time_to_seconds(peer['notAfter']), UTC):%Y-%m-%dT%H:%M:%SZ}",
        }

    def authenticate(self, deadline: float) -> float:
        """Authenticate with SASL; repeated on the same connection before a session expires (KIP-368).

        Getting a token or ticket, in which the broker has no part, moves the deadline; it is returned. Raises
        `LoginError` before anything was sent, and `AttemptError` if the server does not accept the mechanism or the
        credentials, with the case Lost if it hung up, as it does after wrong credentials.
        """
        credentials = self._config.credentials
        if credentials is None:
            return deadline
        begun_at = monotonic()
        steps = credentials.exchange(self.server.host)
        token = next(steps)
        deadline += monotonic() - begun_at
        if code := self.exchange(SaslHandshake(credentials.mechanism), deadline):
            raise code_error(code)
        while True:
            begun_at = monotonic()
            code, answer, milliseconds = self.exchange(SaslAuthenticate(token), deadline)
            if code:
                # A mechanism may know more of the reason.
                steps.throw(code_error(SASL_FAILED))
                raise code_error(SASL_FAILED)
            self.session_lifetime = lifetime = milliseconds / 1000
            try:
                token = steps.send(answer)
            except StopIteration:
                break
            except (AttemptError, LoginError, MalformedError):
                raise
            except Exception:
                # A mechanism reads what a server says before that has proved anything.
                raise AttemptError("Unproven", "wrong SASL answer") from None
        self._authenticate_at = begun_at + _SESSION_SHARE * lifetime if lifetime > 0 else None
        return deadline

    @property
    def must_authenticate(self) -> bool:
        """Whether the session is about to expire, so the next request requires authentication."""
        return self._authenticate_at is not None and monotonic() >= self._authenticate_at

    def choose_version(self, request: BrokerRequest[ResponseT]) -> int:
        """Return the best version of a request that both sides speak."""
        lowest, highest = self.versions.get(request.API_KEY, (0, -1))
        known = [version for version in request.VERSIONS if lowest <= version <= highest]
        if not known:
            # Whatever was being done: more is known than that it failed, and other servers may be newer.
            self.stage = Stage.METADATA
            raise AttemptError("TooOld", "too old")
        return known[-1]

    def exchange(self, request: BrokerRequest[ResponseT], deadline: float, version: int | None = None) -> ResponseT:
        """Send a request and return its answer, in a version that was chosen for it unless one is given.

        Raises the causes of `quotaform.cluster.wire.failure`, or `OSError`.
        """
        version = self.choose_version(request) if version is None else version
        frame = self.encode(request, version)
        try:
            self.send(frame, deadline)
        except OSError as error:
            # The last response before the connection was closed is more informative.
            if isinstance(error, TimeoutError):
                raise
        return self.read_answer(request, version, deadline)

    def encode(self, request: BrokerRequest[ResponseT], version: int) -> bytes:
        """Return the bytes of the next request."""
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        return request.encode(version, correlation_id=self._correlation_id, client_id=self.client_id)

    def read_answer(
        self, request: BrokerRequest[ResponseT], version: int, deadline: float, silence: float | None = None
    ) -> ResponseT:
        """Return the answer to the request that was sent last; see `exchange` and `receive`."""
        head = self.receive(INT32.size, deadline, silence)
        (size,) = INT32.unpack(head)
        if not 0 <= size <= MAX_FRAME:
            # A TLS alert begins with 0x15.
            case = "SpeaksTls" if head[:1] == b"\x15" else "SpeaksHttp" if head == b"HTTP" else "NotKafka"
            raise AttemptError(case, "not the Kafka protocol")
        if size < INT32.size:
            raise MalformedError(f"it has {size} bytes, fewer than the header of a response")
        if size > request.MAX_RESPONSE:
            raise MalformedError(f"it has {size:,} bytes, more than the limit of {request.MAX_RESPONSE:,}")
        answer = self.receive(size, deadline, silence)
        (correlation_id,) = INT32.unpack_from(answer)
        if correlation_id != self._correlation_id:
            raise MalformedError("it belongs to another request")
        decoded, self.throttle_ms = request.decode(answer, version)
        return decoded

    def send(self, data: bytes, deadline: float) -> None:
        """Send everything."""
        left = memoryview(data)
        while left:
            left = left[self._until(deadline, self._open_socket.send, left) :]

    def receive(self, size: int, deadline: float, silence: float | None = None) -> bytes:
        """Return so many bytes, taking no more memory than has arrived.

        `silence`: seconds to wait for the next ones, if not until the deadline. Raises the case Lost if the other side
        ended the connection before, and Silent if nothing came for so long.
        """
        received = bytearray()
        while len(received) < size:
            until = deadline if silence is None else min(deadline, monotonic() + silence)
            try:
                part = self._until(until, self._open_socket.recv, min(size - len(received), _READ_SIZE))
            except TimeoutError as error:
                if silence is not None and error.errno is None and until < deadline:
                    raise AttemptError("Silent", f"nothing for {silence:g} s") from None
                raise
            if not part:
                raise AttemptError("Lost", "it closed the connection")
            received += part
        return bytes(received)

    @property
    def is_idle(self) -> bool:
        """Whether the connection lives and nothing has arrived on it."""
        if self._socket is None:
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except (BlockingIOError, SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def shutdown(self) -> None:
        """Shut the connection down, from any thread; waiting calls return."""
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                # Not that of a TLS socket, which would remove the TLS layer while another thread reads.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection without sending pending data; may be called more than once."""
        self.shutdown()
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    @property
    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise AttemptError("Lost", "it is closed")
        return self._socket

    def _until(self, deadline: float, operation: Callable[..., T], *arguments: Any) -> T:
        """Do one operation of the socket, again and again until it is not for time that it fails."""
        while True:
            self._open_socket.settimeout(_next_wait(deadline, self._closing))
            try:
                return operation(*arguments)
            except TimeoutError as error:
                if error.errno is not None:
                    # ETIMEDOUT: the system gave the connection up.
                    raise


def _next_wait(deadline: float, closing: Event) -> float:
    """Return how long the next slice is. Raises Lost once `closing` is set, and `TimeoutError` after the deadline."""
    if closing.is_set():
        raise AttemptError("Lost", "it was closed")
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, SLICE)


def canonical_servers(server: Server, deadline: float, closing: Event) -> list[Server]:
    """Return a server once for each of its addresses, by the name that belongs to the address, as Java does.

    An address without a name, or whose name has other addresses, stands for itself. A server that cannot be looked up
    stays as it is: connecting to it says why.
    """

    def look_up() -> list[Server]:
        hosts = []
        for *_, (address, *rest) in _addresses(server):
            hosts.append(address)
            with suppress(OSError, UnicodeError):
                name, _ = socket.getnameinfo((address, *rest), socket.NI_NAMEREQD)
                if any(found[0] == address for *_, found in _addresses(Server(name, server.port))):
                    hosts[-1] = name
        return [replace(server, host=host) for host in hosts]

    try:
        return [server] if server.problem(environ) else _look_up(look_up, deadline, closing)
    except Exception:
        return [server]


def _addresses(server: Server, flags: int = 0) -> list[Any]:
    return socket.getaddrinfo(server.host, server.port, socket.AF_UNSPEC, socket.SOCK_STREAM, flags=flags)


def _look_up(ask: Callable[[], list[T]], deadline: float, closing: Event) -> list[T]:
    """Return what the name service answers.

    Looking up a name can neither be interrupted nor be given a time limit, hence a thread of its own does it, which is
    left alone when it takes too long; nothing waits for it at the end of the process either.
    """
    answer = in_thread(ask, "quotaform-dns")
    try:
        while not wait([answer], _next_wait(deadline, closing)).done:
            pass
    except TimeoutError:
        raise AttemptError("LookupTimeout", "name not resolved in time") from None
    return answer.result()
