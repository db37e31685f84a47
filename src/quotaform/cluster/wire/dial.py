"""Opening a stream to a server on kafka-python's event loop, with every error as the system or OpenSSL tells it.

kafka-python's own way turns errors into text, gives a TLS handshake no time limit and leaves the sockets of failed
attempts open.
"""

from __future__ import annotations

from errno import EINPROGRESS
from os import strerror
from socket import (
    AF_UNSPEC,
    IPPROTO_TCP,
    SO_ERROR,
    SO_KEEPALIVE,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    getaddrinfo,
    socket,
)
from ssl import SSLContext, SSLSocket, SSLWantReadError, SSLWantWriteError
from typing import Any

from quotaform.model.server import Server


async def open_socket(net: Any, server: Server, timeout_at: float) -> socket:
    """Open a TCP connection to the first address of a name that takes it.

    Raises:
        OSError: The name has no address, or none of its addresses can be reached.
        KafkaTimeoutError: Nothing happened for too long.
    """
    problem: Exception = OSError(f"{server.host} has no address")
    for family, kind, protocol, _, address in getaddrinfo(server.host, server.port, AF_UNSPEC, SOCK_STREAM):
        sock = socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            sock.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
            code = sock.connect_ex(address)
            if code == EINPROGRESS:
                await net.wait_write(sock, timeout_at=timeout_at)
                code = sock.getsockopt(SOL_SOCKET, SO_ERROR)
            if code:
                raise OSError(code, strerror(code))
            return sock
        except Exception as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
    raise problem


async def shake_hands(net: Any, sock: socket, context: SSLContext, server: Server, timeout_at: float) -> SSLSocket:
    """Do the TLS handshake.

    Raises:
        SSLError: It failed.
        OSError: The connection was lost.
        KafkaTimeoutError: Nothing happened for too long.
    """
    try:
        tls = context.wrap_socket(sock, server_hostname=server.host.rstrip("."), do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        while True:
            try:
                tls.do_handshake()
                return tls
            except SSLWantReadError:
                await net.wait_read(tls, timeout_at=timeout_at)
            except SSLWantWriteError:
                await net.wait_write(tls, timeout_at=timeout_at)
    except BaseException:
        tls.close()
        raise
