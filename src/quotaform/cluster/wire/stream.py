"""A blocking TCP or TLS connection on which every call has a deadline.

A call waits in slices. If another thread closes the connection, or a signal (Ctrl-C) arrives just before the wait
begins, the call ends within one slice; any other signal interrupts it immediately. Deadlines are times of `monotonic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from errno import EINPROGRESS
from os import environ, strerror
from select import POLLOUT, poll
from socket import (
    AF_UNSPEC,
    AI_NUMERICHOST,
    IPPROTO_TCP,
    NI_NAMEREQD,
    SHUT_RDWR,
    SO_ERROR,
    SO_KEEPALIVE,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    gaierror,
    getaddrinfo,
    getnameinfo,
    socket,
)
from ssl import SSLContext, SSLSocket, SSLWantReadError, cert_time_to_seconds
from threading import Event, Thread
from time import monotonic
from typing import Any, Final, TypeVar

from quotaform.cluster.wire.failure import LookupTimeoutError, LostError, SilentError, UnlistedError
from quotaform.model.server import HiddenServer, Server

T = TypeVar("T")

SLICE: Final = 0.2
"""The length of a slice in seconds."""
_READ_SIZE: Final = 1 << 16
_DNS_THREAD: Final = "quotaform-dns"


class Stream:
    """One connection; not safe for use from several threads at a time, `shutdown` aside.

    `session` is what the TLS handshake negotiated, and whose certificate the server showed, to be shown.
    """

    def __init__(self, closing: Event) -> None:
        """Begin without a connection.

        Once `closing` is set, every call ends with `LostError`.
        """
        self._closing = closing
        self._socket: socket | None = None
        self.addresses: tuple[str, ...] = ()
        self.session: Mapping[str, str] = {}

    def connect(self, server: Server, deadline: float) -> None:
        """Open a TCP connection to the first address of a host that accepts one."""
        if server.problem(environ):
            raise UnlistedError
        addresses = resolve(server, deadline, self._closing)
        self.addresses = tuple(dict.fromkeys(address[0] for *_, address in addresses))
        problem: Exception = OSError("the host name has no address")
        for number, (family, kind, protocol, _, address) in enumerate(addresses):
            # An address that swallows connections leaves time for the others.
            share = (deadline - monotonic()) / (len(addresses) - number)
            try:
                self._socket = socket(family, kind, protocol)
                self._connect(self._socket, address, monotonic() + share)
                return
            except Exception as error:
                self.close()
                problem = error
        raise problem

    def _connect(self, sock: socket, address: Any, deadline: float) -> None:
        sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        sock.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        sock.setblocking(False)
        code = sock.connect_ex(address)
        if code == EINPROGRESS:
            poller = poll()
            poller.register(sock, POLLOUT)
            while not poller.poll(1000 * self._slice(deadline)):
                pass
            code = sock.getsockopt(SOL_SOCKET, SO_ERROR)
        if code:
            raise OSError(code, strerror(code))

    def start_tls(self, context: SSLContext, host: str, deadline: float) -> None:
        """Do the TLS handshake."""
        # A certificate has neither the dot that ends a full name nor the zone of an IPv6 address.
        name = host.rstrip(".").partition("%")[0]
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

    def send(self, data: bytes, deadline: float) -> None:
        """Send everything."""
        left = memoryview(data)
        while left:
            left = left[self._until(deadline, self._open_socket.send, left) :]

    def receive(self, size: int, deadline: float, silence: float | None = None) -> bytes:
        """Return so many bytes, taking no more memory than has arrived.

        `silence`: seconds to wait for the next ones, if not until the deadline. Raises `LostError` if the other
        side ended the connection before, and `SilentError` if nothing came for so long.
        """
        received = bytearray()
        while len(received) < size:
            until = deadline if silence is None else min(deadline, monotonic() + silence)
            try:
                part = self._until(until, self._open_socket.recv, min(size - len(received), _READ_SIZE))
            except TimeoutError as error:
                if silence is not None and error.errno is None and until < deadline:
                    raise SilentError(silence) from None
                raise
            if not part:
                raise LostError("it closed the connection")
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
                socket.shutdown(sock, SHUT_RDWR)

    def close(self) -> None:
        """Close the connection without sending pending data; may be called more than once."""
        self.shutdown()
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    @property
    def _open_socket(self) -> socket:
        if self._socket is None:
            raise LostError("it is closed")
        return self._socket

    def _slice(self, deadline: float) -> float:
        """Return how long to wait in the next slice."""
        return next_wait(deadline, self._closing)

    def _until(self, deadline: float, operation: Callable[..., T], *arguments: Any) -> T:
        """Do one operation of the socket, again and again until it is not for time that it fails."""
        while True:
            self._open_socket.settimeout(self._slice(deadline))
            try:
                return operation(*arguments)
            except TimeoutError as error:
                if error.errno is not None:
                    # ETIMEDOUT: the system gave the connection up.
                    raise


def next_wait(deadline: float, closing: Event) -> float:
    """Return how long to wait in the next slice.

    Raises `LostError` once `closing` is set, and `TimeoutError` after the deadline.
    """
    if closing.is_set():
        raise LostError("it was closed")
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, SLICE)


def resolve(server: Server, deadline: float, closing: Event) -> list[Any]:
    """Return the addresses of a server, as `getaddrinfo` does."""
    with suppress(gaierror):
        return getaddrinfo(server.host, server.port, AF_UNSPEC, SOCK_STREAM, flags=AI_NUMERICHOST)
    return _look_up(lambda: _addresses(server), deadline, closing)


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
                name, _ = getnameinfo((address, *rest), NI_NAMEREQD)
                if any(found[0] == address for *_, found in _addresses(Server(name, server.port))):
                    hosts[-1] = name
        if isinstance(server, HiddenServer):
            return [HiddenServer(host, server.port, server.written) for host in hosts]
        return [Server(host, server.port) for host in hosts]

    try:
        return [server] if server.problem(environ) else _look_up(look_up, deadline, closing)
    except Exception:
        return [server]


def _addresses(server: Server) -> list[Any]:
    return getaddrinfo(server.host, server.port, AF_UNSPEC, SOCK_STREAM)


def _look_up(ask: Callable[[], list[T]], deadline: float, closing: Event) -> list[T]:
    """Return what the name service answers.

    Looking up a name can neither be interrupted nor be given a time limit, hence a thread of its own does it, which is
    left alone when it takes too long; nothing waits for it at the end of the process either.
    """
    found: list[T] = []
    problems: list[Exception] = []
    done = Event()

    def look_up() -> None:
        try:
            found.extend(ask())
        except Exception as error:
            problems.append(error)
        finally:
            done.set()

    Thread(target=look_up, name=_DNS_THREAD, daemon=True).start()
    try:
        while not done.wait(next_wait(deadline, closing)):
            pass
    except TimeoutError:
        raise LookupTimeoutError from None
    for problem in problems:
        raise problem
    return found
