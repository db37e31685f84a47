"""A broker on loopback that does what a real one cannot be made to do: hang, reset, cut, delay and garble its answers.

* It speaks Kafka's protocol by kafka-python's codec, so that ours is held against another one.
* It has `quotas`, one SASL user (`alice`, `alice-secret`, mechanism PLAIN) and one cluster id. It accepts every alter
  and applies none.
* `asked` holds every request that reached it, whole; `connections` and `ended` count what began and what is closed.
* `spoil` is called with each request and the frame that answers it, and returns what is sent instead: bytes, or a list
  of bytes to send, seconds to wait, and how it goes on: `HANG` sends nothing more, `RESET` and `HANG_UP` end the
  connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from socket import SO_LINGER, SOL_SOCKET, create_server, socket
from ssl import SSLContext
from threading import Event, Thread
from time import sleep
from typing import Any, Final

API_VERSIONS, METADATA, HANDSHAKE, AUTHENTICATE, DESCRIBE, ALTER = 18, 3, 17, 36, 48, 49

HANG: Final = "hang"
HANGING: Final = 60.0
"""Seconds until a broker that hangs ends the connection."""
RESET: Final = "reset"
HANG_UP: Final = "hang up"
Step = bytes | str | float
"""Bytes to send, seconds to wait, or one of the words above."""


@cache
def messages() -> Mapping[int, tuple[Any, Any]]:
    """Return kafka-python's classes of requests and answers by API key; importing them takes a while."""
    from kafka.protocol import admin, metadata, sasl

    return {
        API_VERSIONS: (metadata.ApiVersionsRequest, metadata.ApiVersionsResponse),
        METADATA: (metadata.MetadataRequest, metadata.MetadataResponse),
        HANDSHAKE: (sasl.SaslHandshakeRequest, sasl.SaslHandshakeResponse),
        AUTHENTICATE: (sasl.SaslAuthenticateRequest, sasl.SaslAuthenticateResponse),
        DESCRIBE: (admin.DescribeClientQuotasRequest, admin.DescribeClientQuotasResponse),
        ALTER: (admin.AlterClientQuotasRequest, admin.AlterClientQuotasResponse),
    }


@dataclass(frozen=True)
class Asked:
    """A request that reached the broker; `fields` are kafka-python's."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    fields: Any


@dataclass
class FakeBroker:
    """See the module; the lists of versions are what the broker says that it speaks."""

    cluster_id: str = "fake-cluster"
    quotas: Sequence[tuple[list[tuple[str, str | None]], list[tuple[str, float]]]] = ()
    versions: dict[int, tuple[int, int]] = field(
        default_factory=lambda: {
            API_VERSIONS: (0, 4),
            METADATA: (0, 13),
            HANDSHAKE: (0, 1),
            AUTHENTICATE: (0, 2),
            DESCRIBE: (0, 1),
            ALTER: (0, 1),
        }
    )
    throttle_time_ms: int = 0
    session_lifetime_ms: int = 0
    spoil: Callable[[Asked, bytes], bytes | Sequence[Step]] = lambda asked, frame: frame
    tls: SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    address: str = ""
    connections: int = 0
    ended: int = 0
    over: Event = field(default_factory=Event)

    def asked_keys(self) -> list[int]:
        return [each.api_key for each in self.asked]

    def talk(self, connection: socket) -> None:
        self.connections += 1
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, suppress(OSError):
                while head := read_exactly(connection, 4):
                    asked = decode(read_exactly(connection, struct.unpack(">i", head)[0]))
                    self.asked.append(asked)
                    sent = self.spoil(asked, self.answer(asked))
                    if not all(self._do(step, connection) for step in ([sent] if isinstance(sent, bytes) else sent)):
                        return
        finally:
            self.ended += 1

    def _do(self, step: Step, connection: socket) -> bool:
        """Do a step, and return whether there are others."""
        if isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, float):
            sleep(step)
        elif step == HANG:
            self.over.wait(HANGING)
        elif step == RESET:
            connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        return not isinstance(step, str)

    def answer(self, asked: Asked) -> bytes:
        """Return the frame that answers a request well."""
        fields = getattr(self, f"_answer_{asked.api_key}")(asked)
        version = asked.version
        if asked.api_key == API_VERSIONS and fields["error_code"]:
            version = 0
        return frame(messages()[asked.api_key][1], version, asked.correlation_id, **fields)

    def _answer_18(self, asked: Asked) -> dict[str, Any]:
        _, newest = self.versions[API_VERSIONS]
        if asked.version > newest:
            return {"error_code": 35, "api_keys": [(API_VERSIONS, *self.versions[API_VERSIONS])]}
        return {"error_code": 0, "api_keys": [(key, *each) for key, each in self.versions.items()]}

    def _answer_3(self, asked: Asked) -> dict[str, Any]:
        host, _, port = self.address.rpartition(":")
        brokers = [(1, host, int(port), None)]
        return {"brokers": brokers, "cluster_id": self.cluster_id, "controller_id": 1, "topics": []}

    def _answer_17(self, asked: Asked) -> dict[str, Any]:
        return {"error_code": 0 if asked.fields.mechanism == "PLAIN" else 33, "mechanisms": ["PLAIN"]}

    def _answer_36(self, asked: Asked) -> dict[str, Any]:
        is_right = asked.fields.auth_bytes == b"\0alice\0alice-secret"
        lifetime = {"session_lifetime_ms": self.session_lifetime_ms} if asked.version else {}
        return {"error_code": 0 if is_right else 58, "error_message": None, "auth_bytes": b""} | lifetime

    def _answer_48(self, asked: Asked) -> dict[str, Any]:
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "error_code": 0,
            "error_message": "",
            "entries": list(self.quotas),
        }

    def _answer_49(self, asked: Asked) -> dict[str, Any]:
        rows = [
            (0, None, [(part.entity_type, part.entity_name) for part in each.entity]) for each in asked.fields.entries
        ]
        return {"throttle_time_ms": self.throttle_time_ms, "entries": rows}


def frame(kind: Any, version: int, correlation_id: int, **fields: Any) -> bytes:
    """Return the frame of an answer, given kafka-python's class of it."""
    answer = kind(**fields, version=version)
    answer.with_header(correlation_id)
    return bytes(answer.encode(header=True, framed=True))


def decode(request: bytes) -> Asked:
    """Return a request without its length."""
    api_key, version = struct.unpack_from(">hh", request)
    decoded = messages()[api_key][0].decode(request, version=version, header=True)
    header = decoded.header
    return Asked(api_key, version, header.correlation_id, header.client_id, decoded)


def read_exactly(connection: socket, size: int) -> bytes:
    """Return so many bytes, or none at the end of the stream."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data


@contextmanager
def serving(broker: FakeBroker, host: str = "127.0.0.1") -> Iterator[FakeBroker]:
    """Serve on a loopback port; at the end all connections are gone."""
    messages()
    open_ones: list[socket] = []
    with closing(create_server((host, 0))) as listening:
        broker.address = f"{host}:{listening.getsockname()[1]}"

        def talk(connection: socket) -> None:
            with connection, suppress(OSError):
                broker.talk(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    open_ones.append(connection)
                    thread = Thread(target=talk, args=(connection,))
                    threads.append(thread)
                    thread.start()

        threads = [Thread(target=accept)]
        threads[0].start()
        try:
            yield broker
        finally:
            broker.over.set()
            listening.shutdown(2)
            for connection in open_ones:
                with suppress(OSError):
                    connection.shutdown(2)
            for thread in threads:
                thread.join(10)
