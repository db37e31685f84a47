"""What becomes of requests when a broker hangs, cuts, garbles or refuses: `broker.txt`, a line per word of `Talk`."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from os import getpid, kill
from pathlib import Path
from signal import SIGINT
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from struct import pack
from threading import enumerate as threads
from time import monotonic, sleep
from tracemalloc import get_traced_memory
from tracemalloc import start as trace_memory
from tracemalloc import stop as end_trace
from typing import Any, Final

import pytest

from quotaform.cluster.broker import AlterClientQuotas, DescribeClientQuotas
from quotaform.cluster.client.config import ClientConfig, Exchange
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.broker_connection import BrokerConnection
from quotaform.cluster.wire.cluster_connection import ClusterConnection
from quotaform.model.alteration import Alteration
from quotaform.model.entity import Entity
from quotaform.model.errors import ClusterError
from quotaform.model.filter import EVERYTHING
from quotaform.model.server import parse_servers
from quotaform.model.text import Secret
from quotaform.resolve.quota_admin import QuotaAdmin
from tests.fake_broker import (
    ALTER,
    API_VERSIONS,
    AUTHENTICATE,
    DESCRIBE,
    HANDSHAKE,
    HANG,
    HANG_UP,
    HANGING,
    METADATA,
    RESET,
    Asked,
    FakeBroker,
    Step,
    serving,
)
from tests.golden.conftest import Golden
from tests.golden.table import Text, check_told
from tests.waiting import PatientClock, once, wait_until

pytestmark = pytest.mark.slow

KEY: Final = "producer_byte_rate"
KINDS: Final = {
    "versions": API_VERSIONS, "metadata": METADATA, "handshake": HANDSHAKE, "authenticate": AUTHENTICATE,
    "describe": DESCRIBE, "alter": ALTER, "acls": 29,
}  # fmt: skip
NAMES: Final = {api_key: name for name, api_key in KINDS.items()}
SPOILED: Final[dict[str, Callable[[bytes], Step]]] = {
    "answer": lambda frame: frame,
    "other": lambda frame: frame[:4] + b"\x7f\0\0\0" + frame[8:],
    "torn": lambda frame: frame[:-1] + b"\xff",
    "longer": lambda frame: pack(">i", len(frame) - 3) + frame[4:] + b"x",
    "empty": lambda frame: b"\0\0\0\0",
    "lie": lambda frame: pack(">ii", 200 << 20, 1),
    "huge": lambda frame: pack(">ii", 20 << 20, 1) + bytes(1 << 20),
    "end": lambda frame: HANG_UP,
    "reset": lambda frame: RESET,
    "hang": lambda frame: HANG,
}


class Talk:
    """A broker, and a client of it; `lab` is what the client calls the cluster, `A` and `B` are the brokers."""

    def __init__(self, clock: PatientClock, stack: ExitStack, patch: pytest.MonkeyPatch, certificates: Path) -> None:
        quotas = [([("user", "a")], [(KEY, 1.0)]), ([("user", None), ("client-id", "c")], [(KEY, 2.0)])]
        self.clock, self.stack, self.patch, self.certificates = clock, stack, patch, certificates
        self.brokers = [stack.enter_context(serving(FakeBroker(quotas=quotas)))]  # type: ignore[arg-type]
        self.broker = self.brokers[0]
        self.config = ClientConfig()
        self.connection: ClusterConnection | None = None

    def tell(self, line: str) -> Iterator[str]:
        word, *rest = line.split(maxsplit=1)
        begin = monotonic()
        arguments = rest if word in ("challenge", "names") else " ".join(rest).split()
        for said in getattr(self, word)(*arguments) or ():
            for name, broker in zip("AB", self.brokers, strict=False):
                said = said.replace(broker.address, name)
            yield said
        assert monotonic() - begin < HANGING / 2

    def second(self) -> None:
        """`second`: there is another broker of the cluster, which the client knows as well."""
        self.brokers.append(self.stack.enter_context(serving(FakeBroker(quotas=self.broker.quotas))))

    def speaks(self, *each: str) -> None:
        """`speaks KIND=LOWEST-HIGHEST`: the versions that the broker knows."""
        for name, _, versions in (said.partition("=") for said in each):
            lowest, highest = versions.split("-")
            self.broker.versions[KINDS[name]] = int(lowest), int(highest)

    def lacks(self, *kinds: str) -> None:
        """`lacks KIND`: such requests are not known to the broker."""
        for name in kinds:
            del self.broker.versions[KINDS[name]]

    def is_(self, name: str, value: str) -> None:
        """`is_ cluster_id x`: what the broker has from now on, `throttle_time_ms` or `session_lifetime_ms` too."""
        setattr(self.broker, name, int(value) if value.isdigit() else value)

    def called(self, client_id: str) -> None:
        """`called NAME`: the client has a client id."""
        self.config = ClientConfig(client_id=client_id)

    def tls(self) -> None:
        """`tls`: broker and client speak TLS."""
        self.broker.tls = SSLContext(PROTOCOL_TLS_SERVER)
        self.broker.tls.load_cert_chain(self.certificates / "server.pem")
        self.config = ClientConfig(security_protocol="SSL", tls=Tls(ca=(self.certificates / "ca.pem").read_text()))

    def login_takes(self, seconds: str) -> None:
        """`login_takes SECONDS`: to get what the broker is sent, as the command for a token may."""
        exchange = Password.exchange

        def slowly(login: Password, host: str) -> Exchange:
            self.clock.advance(float(seconds))
            yield from exchange(login, host)

        self.patch.setattr(Password, "exchange", slowly)

    def names(self, literal: str) -> None:
        """`names [HOST, PORT], ...`: the brokers 2, 3 and so on that the broker names beside itself."""
        host, _, port = self.broker.address.rpartition(":")
        brokers = [(number, *each, None) for number, each in enumerate([(host, int(port)), *literal_eval(literal)], 1)]
        fields = {"brokers": brokers, "controller_id": 1, "topics": [], "cluster_id": "fake-cluster"}
        self.answer(METADATA, fields)

    def servers(self) -> Iterator[str]:
        """`servers`: tell which brokers are known, and which servers are tried in turn."""
        assert self.connection is not None
        yield f"brokers {', '.join(f'{number} {each}' for number, each in self.connection.brokers.items())}"
        yield f"servers {', '.join(map(str, self.connection._servers))}"

    def sasl(self, password: str = "alice-secret", mechanism: str = "PLAIN") -> None:  # noqa: S107
        """`sasl PASSWORD MECHANISM`: the client logs in as alice."""
        login = Password(mechanism=mechanism, username="alice", password=Secret(password))
        self.config = ClientConfig(security_protocol="SASL_PLAINTEXT", credentials=login)

    def refuses(self, kind: str, code: str) -> None:
        """`refuses authenticate CODE`: from now on."""
        fields: dict[str, Any] = {"error_code": int(code)}
        more: dict[str, Any] = {"mechanisms": []} if kind == "handshake" else {"error_message": None, "auth_bytes": b""}
        self.answer(KINDS[kind], fields | more)

    def challenge(self, token: str) -> None:
        """`challenge b'TOKEN'`: the broker takes any mechanism, and answers this to the first token."""
        self.answer(HANDSHAKE, {"error_code": 0, "mechanisms": []})
        self.answer(AUTHENTICATE, {"error_code": 0, "error_message": None, "auth_bytes": literal_eval(token)})

    def answer(self, api_key: int, fields: dict[str, Any]) -> None:
        setattr(self.broker, f"_answer_{api_key}", lambda asked: fields)

    def spoil(self, kind: str, *steps: str) -> None:
        """`spoil KIND STEP...`: how such requests are answered; `KIND*1` only once.

        A number is seconds, and `+10` that so many go by at once; `drip` sends each byte by itself, `pieces` 8 parts.
        """
        kind, _, times = kind.partition("*")
        left = [int(times or 10**9)]

        def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
            if asked.api_key != KINDS[kind] or not left[0]:
                return frame
            left[0] -= 1
            if steps[0] in ("drip", "pieces"):
                size, pause = (1, 0.05) if steps[0] == "drip" else (len(frame) // 8 + 1, 0.25)
                parts = [frame[start : start + size] for start in range(0, len(frame), size)]
                return [step for part in parts for step in (part, pause)]
            if steps[0].startswith("+"):
                self.clock.advance(float(steps[0]))
                return [SPOILED[step](frame) for step in steps[1:]]
            return [SPOILED[step](frame) if step in SPOILED else float(step) for step in steps]

        self.broker.spoil = spoil

    def connect(self, seconds: str = "60") -> Iterator[str]:
        servers = parse_servers([broker.address for broker in self.brokers])
        try:
            self.connection = ClusterConnection(servers, self.config, name="lab", timeout=float(seconds))
        except ClusterError as error:
            yield f"{type(error).__name__}: {error}"
        else:
            self.stack.callback(self.connection.close)
            yield f"connected to {self.connection.cluster_id}"

    def open(self) -> Iterator[str]:
        """`open`: connect without saying how long that may take."""
        for connect in (KafkaGateway.connect, QuotaAdmin.connect):
            try:
                connect(self.broker.address)
            except ClusterError as error:
                yield f"{type(error).__name__}: {error}"

    def send(self, seconds: str) -> Iterator[str]:
        """`send SECONDS`: a describe that is sent once."""
        assert self.connection is not None
        try:
            self.connection.send(DescribeClientQuotas(EVERYTHING), timeout=float(seconds))
        except ClusterError as error:
            yield f"{type(error).__name__}: {error}"
        yield from self.state()

    def state(self) -> Iterator[str]:
        assert self.connection is not None
        yield "not connected any more" if self.connection.broker is None else "still connected"

    def flood(self, seconds: str) -> Iterator[str]:
        """`flood SECONDS`: send more than fits to a broker that reads nothing since the first request."""
        assert self.connection is not None
        broker, request = self.connection.broker, DescribeClientQuotas(EVERYTHING)
        assert broker is not None
        broker.send(broker.encode(request, broker.choose_version(request)), self.clock() + 60)
        with pytest.raises(TimeoutError):
            broker.send(bytes(64 << 20), self.clock() + float(seconds))
        yield "given up"

    def large(self, count: str) -> Iterator[str]:
        """`large COUNT`: read and alter so many quotas, of entities with long names."""
        assert self.connection is not None
        names = [f"{number}" + "x" * 1000 for number in range(int(count))]
        self.broker.quotas = [([("user", name)], [(KEY, 1.0)]) for name in names]
        found = self.connection.send(DescribeClientQuotas(EVERYTHING), timeout=60).found
        asked = [Alteration(Entity(user=name), {KEY: 1.0}) for name in names]
        yield f"read {len(found)}, altered {len(self.connection.send(AlterClientQuotas(asked), timeout=60))}"

    def meanwhile(self, kind: str, what: str, word: str) -> Iterator[str]:
        """`meanwhile KIND close WORD`: the client is closed once such a request was sent; `interrupt` is Ctrl-C."""
        assert self.connection is not None
        close = self.connection.close

        def act() -> None:
            sleep(0.05)  # Until it is waited for the answer.
            close() if what == "close" else kill(getpid(), SIGINT)

        acting = once(lambda: KINDS[kind] in self.broker.asked_keys(), act)
        try:
            yield from [*getattr(self, word)()]
        except KeyboardInterrupt:
            yield "interrupted"
            yield from self.state()
        finally:
            acting.join()

    def waits(self, seconds: str, *words: str) -> Iterator[str]:
        """`waits SECONDS WORD`: something that takes so long at least."""
        begin = monotonic()
        yield from self.tell(" ".join(words))
        assert monotonic() - begin >= float(seconds)

    def within(self, mebibytes: str, *words: str) -> Iterator[str]:
        """`within MIB WORD`: something that takes less memory."""
        trace_memory()
        yield from self.tell(" ".join(words))
        _, peak = get_traced_memory()
        end_trace()
        assert peak < int(mebibytes) << 20

    def silence(self, seconds: str) -> None:
        """`silence SECONDS`: for so long, a broker that is alone may be silent at first; `waited` tells how long."""
        receive = BrokerConnection.receive
        self.silences = dict[float, None]()

        def receive_and_note(by: BrokerConnection, size: int, end: float, silence: float | None = None) -> bytes:
            self.silences |= {silence: None} if silence else {}
            return receive(by, size, end, silence)

        self.patch.setattr(BrokerConnection, "receive", receive_and_note)
        self.patch.setattr("quotaform.cluster.kafka.LONE_SILENCE", float(seconds))

    def waited(self) -> Iterator[str]:
        yield f"waited {[*self.silences]}"

    def describe(self, seconds: str = "60") -> Iterator[str]:
        assert self.connection is not None
        try:
            found = KafkaGateway(self.connection, name="lab").describe(timeout=float(seconds))
        except ClusterError as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield ", ".join(f"{entity.address} {dict(values)}" for entity, values in found.items())

    def alter(self) -> Iterator[str]:
        assert self.connection is not None
        try:
            [row] = KafkaGateway(self.connection, name="lab").alter([Alteration(Entity(user="a"), {KEY: 1.0})])
        except ClusterError as error:
            yield f"{type(error).__name__}: {error}"
        else:
            yield f"{row.outcome} {row.message}".rstrip()

    def cut(self, kind: str, end: str, word: str) -> Iterator[str]:
        """`cut KIND END WORD`: what is said when the answer to a request is cut anywhere, and the connection ends."""
        size, whole = [0], [30]

        def spoil(asked: Asked, frame: bytes) -> bytes | list[Step]:
            if asked.api_key != KINDS[kind]:
                return frame
            whole[0] = len(frame)
            return [frame[: size[0]], SPOILED[end](frame)]

        self.broker.spoil = spoil
        said = set[str]()
        while size[0] < min(whole[0], 30):
            said.update(getattr(self, word)())
            size[0] += 1
        yield from sorted(said)

    def pause(self, seconds: str) -> None:
        sleep(float(seconds))

    def advance(self, seconds: str) -> None:
        """`advance SECONDS`: time goes by."""
        self.clock.advance(float(seconds))

    def ended(self, count: str) -> None:
        """`ended COUNT`: wait until the broker has closed so many connections."""
        wait_until(lambda: self.broker.ended >= int(count))

    def asked(self) -> Iterator[str]:
        """`asked`: tell what each broker was asked, in which versions, and on how many connections."""
        for name, broker in zip("AB", self.brokers, strict=False):
            requests = " ".join(f"{NAMES[each.api_key]}/{each.version}" for each in broker.asked)
            who = {each.client_id.partition("/")[0] for each in broker.asked}
            by = f" by {', '.join(sorted(who))}" if who else ""
            yield f"{name} was asked {requests or 'nothing'}{by} on {broker.connections} connections"


def test_this_becomes_of_requests_to_such_a_broker(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, certificates: Path
) -> None:
    clock = PatientClock.of_connections(monkeypatch)
    monkeypatch.setattr("quotaform.cluster.kafka.sleep", lambda seconds: None)
    monkeypatch.setattr("quotaform.cluster.kafka.SILENCE", 1.0)

    def of_talk(text: Text) -> Iterator[str]:
        before = set(threads())
        with ExitStack() as stack, monkeypatch.context() as patch:
            talk = Talk(clock, stack, patch, certificates)
            for line in str(text).splitlines():
                yield from talk.tell(line)
        assert not [thread for thread in set(threads()) - before if thread.name.startswith("quotaform")]

    check_told(golden, "broker.txt", of_talk)
