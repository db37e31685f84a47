"""Checks whether a broker is ready, with DescribeCluster (KIP-700) over a plain socket.

A broker takes requests only after it has caught up with the metadata and is unfenced
(`kafka.server.BrokerServer.startup`), so a response means that it is ready. The cluster id in the response
distinguishes the sandbox's broker from another server on the same port.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_DESCRIBE_CLUSTER = 60
_CLIENT_ID = b"quotaform-sandbox"


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a broker: the cluster id and the number of live brokers that it sees."""

    cluster_id: str
    brokers: int


def probe(host: str, port: int, *, timeout: float = 1.0) -> Answer | None:
    """Ask the broker at a PLAINTEXT listener for its cluster; None if it does not answer (yet)."""
    header = struct.pack(">hhih", _DESCRIBE_CLUSTER, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    # include_cluster_authorized_operations=false, then no tagged fields.
    request = header + b"\0\0"
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            return _decode(_read(connection, min(size, 1_048_576)))
    except (OSError, EOFError, ValueError, struct.error, IndexError):
        return None


def accepts(host: str, port: int, *, timeout: float = 1.0) -> bool:
    """Return whether somebody listens at a port."""
    try:
        with socket.create_connection((host, port), timeout):
            return True
    except OSError:
        return False


def _decode(response: bytes) -> Answer | None:
    # Correlation id (4), tagged fields (1), throttle time (4), then the error code.
    error, offset = struct.unpack_from(">h", response, 9)[0], 11
    if error:
        return None
    length, offset = _unsigned_varint(response, offset)
    offset += max(length - 1, 0)
    length, offset = _unsigned_varint(response, offset)
    cluster_id = response[offset : offset + length - 1].decode()
    # Skips the controller's id (4).
    brokers, _ = _unsigned_varint(response, offset + length - 1 + 4)
    return Answer(cluster_id, brokers - 1)


def _unsigned_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (piece := connection.recv(count - len(data))):
            raise EOFError
        data += piece
    return data
