"""A proxy on loopback before the brokers of a cluster, which knows Kafka's frames and disturbs one of them.

The brokers that a Metadata answer names are replaced by their proxies, so that a client never gets past them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from select import select
from socket import SHUT_RDWR, SO_LINGER, SOL_SOCKET, create_connection, create_server, socket
from struct import pack, unpack, unpack_from
from threading import Event, Lock, Thread
from typing import Final

from tests.faults.raw import RawError, read_exactly

METADATA: Final = 3
_HOST: Final = "127.0.0.1"
_DRIPS: Final = 20


class Side(StrEnum):
    REQUEST = "request"
    ANSWER = "answer"


class Action(StrEnum):
    """What is done to a frame and its connection."""

    PASS = "pass"  # nothing: something else happens at this moment
    CUT = "cut"  # the connection ends after a part of it
    RESET = "reset"  # the connection is reset after a part of it
    FREEZE = "freeze"  # after a part of it nothing passes any more, either way, and the connection stays open
    DELAY = "delay"  # there is a pause in it
    DRIP = "drip"  # it comes in small pieces
    HOLD = "hold"  # it waits until it is released
    CORRUPT = "corrupt"  # it is no frame of Kafka's protocol any more


@dataclass(frozen=True, slots=True)
class Moment:
    side: Side  # the way that it goes
    api_key: int | None  # the API key of the request; any if `None`
    skip: int = 0  # how many of those come before it


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFault:
    moment: Moment  # the first frame that it happens to
    action: Action = Action.PASS  # what
    share: float = 1.0  # which part of the frame passes before, from 0 to 1
    seconds: float = 0.0  # how long a pause takes, or all pieces
    times: int = 1  # how many frames like this it happens to
    seed: int = 0  # for what is chosen at random


@dataclass(slots=True)
class _Link:
    """One connection through the proxy, served by one thread: there is one request at a time."""

    node: int
    client: socket
    broker: socket
    asked: dict[int, int] = field(default_factory=dict)
    over: Event = field(default_factory=Event)

    def end(self) -> None:
        """Let the thread that serves it end, from any other thread."""
        self.over.set()
        for sock in (self.client, self.broker):
            with suppress(OSError):
                sock.shutdown(SHUT_RDWR)

    def reset(self) -> None:
        """Reset both connections; nobody waits for them meanwhile, or no reset would go out."""
        for sock in (self.client, self.broker):
            sock.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
            sock.close()


class Proxy:
    """Proxies of all brokers, numbered from 1."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.reached = Event()  # set when the moment of the fault has come
        self.released = Event()  # set when frames that are held may go on
        self.node = 0  # the broker through whose proxy that frame went
        self._lock = Lock()
        self._fault: FrameFault | None = None
        self._seen = 0
        self._links: list[_Link] = []
        self._listening = [create_server((_HOST, 0)) for _ in brokers]
        ports = [listening.getsockname()[1] for listening in self._listening]
        self.bootstrap_servers = ",".join(f"{_HOST}:{port}" for port in ports)  # their addresses
        self._advertised: Mapping[bytes, bytes] = {
            _HOST.encode() + pack(">i", int(broker.rpartition(":")[2])): _HOST.encode() + pack(">i", port)
            for broker, port in zip(brokers, ports, strict=True)
        }
        for number, (listening, broker) in enumerate(zip(self._listening, brokers, strict=True), 1):
            Thread(target=self._accept, args=(number, listening, int(broker.rpartition(":")[2])), daemon=True).start()

    @contextmanager
    def disturbed(self, fault: FrameFault) -> Iterator[None]:
        """Let a fault happen at its moment; at the end all connections through the proxy are gone."""
        self.reached.clear()
        self.released.clear()
        with self._lock:
            self._fault, self._seen = fault, 0
        try:
            yield
        finally:
            with self._lock:
                self._fault = None
            self._end_links()

    def close(self) -> None:
        for listening in self._listening:
            # Closing alone would leave it to whoever waits for a connection.
            with suppress(OSError):
                listening.shutdown(SHUT_RDWR)
            listening.close()
        self._end_links()

    def _end_links(self) -> None:
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.end()

    def _accept(self, node: int, listening: socket, port: int) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                Thread(target=self._connect, args=(node, client, port), daemon=True).start()

    def _connect(self, node: int, client: socket, port: int) -> None:
        try:
            broker = create_connection((_HOST, port), 60)
        except OSError:
            client.close()
            return
        broker.settimeout(None)
        link = _Link(node, client, broker)
        with client, broker:
            with self._lock:
                self._links.append(link)
            with suppress(OSError, RawError):
                self._serve(link)

    def _serve(self, link: _Link) -> None:
        while not link.over.is_set():
            for source in select([link.client, link.broker], [], [])[0]:
                head = read_exactly(source, 4)
                frame = head + read_exactly(source, unpack(">i", head)[0])
                if source is link.client:
                    self._pass(link, Side.REQUEST, frame, link.broker)
                else:
                    self._pass(link, Side.ANSWER, frame, link.client)

    def _pass(self, link: _Link, side: Side, frame: bytes, target: socket) -> None:
        """Pass a frame on, or let the fault happen to it.

        Raises `RawError`: the connections are to end.
        """
        if side is Side.REQUEST:
            api_key, _, correlation_id = unpack_from(">hhi", frame, 4)
            link.asked[correlation_id] = api_key
        else:
            api_key = link.asked.pop(unpack_from(">i", frame, 4)[0], -1)
            if api_key == METADATA:
                for advertised, proxy in self._advertised.items():
                    frame = frame.replace(advertised, proxy)
        fault = self._due(link, side, api_key)
        if fault is None or fault.action is Action.PASS:
            target.sendall(frame)
        elif fault.action is Action.HOLD:
            while not self.released.wait(0.02) and not link.over.is_set():
                pass
            target.sendall(frame)
        elif fault.action is Action.CORRUPT:
            target.sendall(corrupt(frame, Random(fault.seed)))
        elif fault.action is Action.DRIP:
            for piece in pieces(frame, _DRIPS):
                target.sendall(piece)
                link.over.wait(fault.seconds / _DRIPS)
        else:
            part = int(len(frame) * fault.share)
            target.sendall(frame[:part])
            if fault.action is Action.DELAY:
                link.over.wait(fault.seconds)
                target.sendall(frame[part:])
                return
            if fault.action is Action.FREEZE:
                link.over.wait()
            if fault.action is Action.RESET:
                link.reset()
            raise RawError("it was ended")

    def _due(self, link: _Link, side: Side, api_key: int) -> FrameFault | None:
        """Return the fault if its moment has come."""
        with self._lock:
            fault = self._fault
            if fault is None or side is not fault.moment.side or fault.moment.api_key not in (None, api_key):
                return None
            self._seen += 1
            if not 0 < self._seen - fault.moment.skip <= fault.times:
                return None
        self.node = link.node
        self.reached.set()
        return fault


def corrupt(frame: bytes, random: Random) -> bytes:
    head, correlation, body = frame[:4], frame[4:8], frame[8:]
    garbage = random.randbytes(len(body))
    longer = body + random.randbytes(random.randint(1, 50))
    shorter = body[: random.randrange(len(body))] if body else b""
    return random.choice(
        [
            random.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\3", b"HTTP", b"\x15\x03\3\0"])
            + correlation
            + body,
            head + random.randbytes(4) + body,
            head + correlation + garbage,
            pack(">i", 4 + len(longer)) + correlation + longer,
            pack(">i", 4 + len(shorter)) + correlation + shorter,
        ]
    )


def pieces(data: bytes, count: int) -> Iterator[bytes]:
    """Yield data in at most so many pieces."""
    size = max(1, -(-len(data) // count))
    for start in range(0, len(data), size):
        yield data[start : start + size]
