"""A connected socket as kafka-python's connection uses one: the transport of asyncio, as far as it is needed."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from socket import SHUT_RDWR, socket
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Any, Final

from quotaform.cluster.wire.cause import LostError

_BLOCKED: Final = (BlockingIOError, InterruptedError, SSLWantReadError, SSLWantWriteError)
_READ_SIZE: Final = 1 << 16


class Transport:
    """Plain TCP, or TLS whose handshake is done.

    kafka-python's own transports drop the bytes that arrive together with the end of the stream, which with failed
    authentication are the broker's error message; and closing one sends what is left, though nobody waits for it.

    Attributes:
        host: The host name that was connected to.
        first_bytes: The first bytes that the server sent, four at most.
    """

    def __init__(self, net: Any, sock: socket, host: str) -> None:
        """Take over a socket.

        Args:
            net: kafka-python's event loop.
            sock: A connected socket that does not block.
            host: Its host name.
        """
        self.host = host
        self.first_bytes = b""
        self._net = net
        self._sock: socket | None = sock
        self._peer: Any = (host, 0)
        # The other side may be gone already; reading will say so.
        with suppress(OSError):
            self._peer = sock.getpeername()
        self._protocol: Any = None
        self._unsent: deque[memoryview] = deque()
        self._reader: Any = None
        self._writer: Any = None

    def get_protocol(self) -> Any:
        """Return who is told what arrives."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Tell somebody what arrives, by `data_received` and `connection_lost`."""
        self._protocol = protocol

    def getPeer(self) -> Any:  # noqa: N802 (Twisted's name, which kafka-python uses)
        """Return the address of the other side."""
        return self._peer

    def host_port(self) -> str:
        """Return the address of the other side for logs."""
        return f"{self._peer[0]}:{self._peer[1]}"

    def resume_reading(self) -> None:
        """Begin to read."""
        if self._reader is None and self._sock is not None:
            self._reader = self._net.call_soon(self._read)

    def write(self, data: bytes) -> None:
        """Send bytes as soon as the socket takes them."""
        if self._sock is None:
            raise LostError("connection closed")
        self._unsent.append(memoryview(data))
        if self._writer is None:
            self._writer = self._net.call_soon(self._write)

    def close(self) -> None:
        """Close the connection; what was not sent yet is not sent."""
        self.abort()

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection and say why."""
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self._unsent.clear()
        self._net.unregister_event(sock, EVENT_READ | EVENT_WRITE)
        with suppress(OSError):
            sock.shutdown(SHUT_RDWR)
        sock.close()
        for task in (self._reader, self._writer):
            if task is not None:
                self._net.cancel(task)
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    async def _read(self) -> None:
        while self._sock is not None:
            await self._net.wait_read(self._sock)
            data, error = self._receive()
            if data:
                self.first_bytes = (self.first_bytes + data[:4])[:4]
                try:
                    self._protocol.data_received(data)
                except Exception as problem:
                    error = problem
            if error is not None:
                # Whoever waited for the data is to see it before the connection is gone.
                await self._net.sleep(0)
                self.abort(error)

    def _receive(self) -> tuple[bytes, Exception | None]:
        """Return what has arrived, and how the stream ended if it did."""
        parts: list[bytes] = []
        error: Exception | None = None
        while self._sock is not None and error is None:
            try:
                part = self._sock.recv(_READ_SIZE)
            except _BLOCKED:
                break
            except Exception as problem:
                error = problem
            else:
                parts.append(part)
                if not part:
                    error = LostError("it hung up")
        return b"".join(parts), error

    async def _write(self) -> None:
        try:
            while self._unsent and self._sock is not None:
                await self._net.wait_write(self._sock)
                if (error := self._flush()) is not None:
                    self.abort(error)
        finally:
            self._writer = None

    def _flush(self) -> Exception | None:
        """Send what the socket takes; return why no more can be sent ever, if so."""
        while self._unsent and self._sock is not None:
            try:
                sent = self._sock.send(self._unsent[0])
            except _BLOCKED:
                return None
            except Exception as problem:
                return problem
            if sent == len(self._unsent[0]):
                self._unsent.popleft()
            else:
                self._unsent[0] = self._unsent[0][sent:]
        return None
