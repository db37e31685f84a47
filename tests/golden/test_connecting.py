"""What is said when a server is not what it should be: servers on loopback that do one wrong thing each.

A case of `connecting.txt` names the protocol and the settings of the client, then the servers: what one does, or an
address. In what is said, `A` and `B` are those on loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET, create_server, getaddrinfo, socket
from ssl import (
    CERT_REQUIRED,
    PROTOCOL_TLS_SERVER,
    SSLCertVerificationError,
    SSLContext,
    TLSVersion,
)
from subprocess import run
from threading import Event, Thread
from threading import enumerate as threads
from time import monotonic
from typing import Any

import pytest

from quotaform.cluster.client.config import ClientConfig
from quotaform.cluster.client.tls import Tls
from quotaform.cluster.kafka import KafkaGateway
from quotaform.cluster.sasl.password import Password
from quotaform.cluster.wire.failure import Failure, LoginError, Stage, connect_error
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError
from quotaform.model.text import Secret
from tests.golden.conftest import Golden
from tests.golden.table import Lines, check_told
from tests.waiting import PATIENCE, PatientClock

pytestmark = pytest.mark.slow

Talk = Callable[[socket], None]


@contextmanager
def server(talk: Talk, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve every connection on a loopback port by `talk`; yield its address."""
    with closing(create_server((host, 0))) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    talk(connection)

        thread = Thread(target=accept)
        thread.start()
        try:
            yield f"{host}:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(2)
            thread.join(PATIENCE)


@contextmanager
def full() -> Iterator[str]:
    """Listen and accept no connection."""
    with closing(socket()) as listening, ExitStack() as waiting:
        listening.setsockopt(SOL_SOCKET, SO_RCVBUF, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            each = waiting.enter_context(closing(socket()))
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def silent(connection: socket) -> None:
    """Listen until the client goes."""
    while connection.recv(65536):
        pass


def hearing(connection: socket) -> None:
    connection.recv(65536)


def sending(content: bytes, *, goes_on: bool = False) -> Talk:
    def talk(connection: socket) -> None:
        connection.recv(65536)
        connection.sendall(content)
        if goes_on:
            silent(connection)

    return talk


def speaking_tls(certificate: Path, *, ends: bool = False, **settings: Any) -> Talk:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if trusted := settings.pop("trusted", None):
        context.load_verify_locations(trusted)
    for name, value in settings.items():
        setattr(context, name, value)

    def talk(connection: socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            if not ends:
                silent(tls)

    return talk


TIMES = {"expired": ("190102", "200304"), "early": ("480102", "490304"), "selfsigned": ("200102", "490304")}
"""Between which certificates are valid (YYMMDD)."""


@pytest.fixture(scope="module")
def make_certificate(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what makes a self-signed certificate for loopback by its name in `TIMES`."""
    key = certificates / "tenant.key"

    @cache
    def make(name: str) -> Path:
        begin, end = TIMES[name]
        folder = tmp_path_factory.mktemp("certificate")
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        (folder / "ca.cnf").write_text(
            "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\npolicy = p\n"
            "default_md = sha256\nx509_extensions = x\n[p]\ncommonName = supplied\n"
            "[x]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = CA:true\n"
            "[req]\ndistinguished_name = n\nprompt = no\n[n]\nCN = localhost\n"
        )
        for arguments in (
            "req -new -config ca.cnf -out request.pem",
            f"ca -batch -selfsign -notext -config ca.cnf -in request.pem -out certificate.pem"
            f" -startdate {begin}000000Z -enddate {end}000000Z",
        ):
            command = ["openssl", *arguments.split(), "-key" if arguments.startswith("req") else "-keyfile", str(key)]
            run(command, cwd=folder, check=True, capture_output=True)
        both = folder / "both.pem"
        both.write_text(key.read_text() + (folder / "certificate.pem").read_text())
        return both

    return make


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> PatientClock:
    """The clock of all connections."""
    return PatientClock.of_connections(monkeypatch)


ALICE = Password(mechanism="PLAIN", username="alice", password=Secret("alice-secret"))
TLS = ClientConfig(security_protocol="SSL", tls=Tls())
SASL = ClientConfig(security_protocol="SASL_PLAINTEXT", credentials=ALICE)


def failure(servers: str, config: ClientConfig | None = None, *, timeout: float = 60.0) -> str:
    """Connect, and return why that failed; what takes as long as the time limit is told as that."""
    before = set(threads())
    with pytest.raises(ClusterError) as caught:
        KafkaGateway.connect(servers, config, name="lab", timeout=timeout)
    assert not [thread for thread in set(threads()) - before if thread.name.startswith("quotaform")]
    assert isinstance(caught.value, (ConnectError, AuthenticationError))
    said = str(caught.value)
    assert said.startswith("Cannot connect to lab: ")
    return said.removeprefix("Cannot connect to lab: ")


def test_this_is_said_when_no_connection_is_made(
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    certificates: Path,
    make_certificate: Callable[[str], Path],
) -> None:
    """A server listens until the client goes (`silent`), hangs up (`closing`), sends bytes, or speaks TLS.

    `trusting` trusts the authority of `tls`, `trusting:NAME` a certificate of `TIMES`; `presenting:NAME` presents one.
    """
    monkeypatch.setattr("quotaform.cluster.wire.cluster_connection._SHARE", 0.5)
    authority = (certificates / "ca.pem").read_text()

    def tls_of(words: list[str]) -> Tls:
        settings: dict[str, Any] = {}
        for word in words:
            kind, _, name = word.partition(":")
            if kind == "trusting":
                settings["ca"] = make_certificate(name).read_text() if name else authority
            elif kind == "presenting":
                settings["key_store"] = Secret(make_certificate(name).read_text())
            elif kind == "unchecked":
                settings["check_host"] = False
            else:
                settings["versions"] = (kind,)
        return Tls(**settings)

    def talk_of(word: str) -> Talk:
        kind, _, more = word.partition(":")
        if kind == "sending":
            return sending(bytes.fromhex(more))
        if kind == "wanting":
            path = make_certificate(more)
            return speaking_tls(certificates / "server.pem", ends=True, verify_mode=CERT_REQUIRED, trusted=path)
        if kind in TIMES:
            return speaking_tls(make_certificate(kind))
        talks: dict[str, Callable[[], Talk]] = {
            "silent": lambda: silent,
            "closing": lambda: hearing,
            "tls": lambda: speaking_tls(certificates / "server.pem"),
            "tls1.2": lambda: speaking_tls(certificates / "server.pem", ends=True, maximum_version=TLSVersion.TLSv1_2),
        }
        return talks[kind]()

    def of_servers(text: str) -> Lines:
        client, _, servers = text.partition(" -> ")
        protocol, *words = client.split()
        config = ClientConfig(security_protocol=protocol)
        if protocol == "SSL":
            config = ClientConfig(security_protocol=protocol, tls=tls_of(words))
        elif protocol.startswith("SASL"):
            config = SASL
        with ExitStack() as started:
            addresses: dict[str, str] = {}
            for word in servers.split():
                kind, _, host = word.partition("@")
                if kind[-1].isdigit() and ":" in kind and not kind.startswith("sending"):
                    addresses[kind] = kind
                else:
                    made = full() if kind == "full" else server(talk_of(kind), host or "127.0.0.1")
                    addresses["AB"[len(addresses)]] = started.enter_context(made)
            asked = ",".join(addresses.values())
            waits = servers.count("silent") or ("full" in servers or "unchecked" in words)
            said = failure(asked, config, timeout=0.6 * waits or 60.0)
        for name, address in addresses.items():
            said = said.replace(address, name)
        return [said]

    check_told(golden, "connecting.txt", of_servers)


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look up addresses, and no names until the end of the test."""
    over, before = Event(), set(threads())

    def look_up(*arguments: Any, **options: Any) -> Any:
        return getaddrinfo(*arguments, **options) if options["flags"] else over.wait(PATIENCE) and []

    monkeypatch.setattr("quotaform.cluster.wire.broker_connection.socket.getaddrinfo", look_up)
    yield
    over.set()
    for thread in set(threads()) - before:
        thread.join(PATIENCE)


def test_a_name_server_that_does_not_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch, lookups: None) -> None:
    """One name whose server does not answer took all the time there was."""
    begin = monotonic()
    with pytest.raises(ConnectError, match=r"^Cannot connect to lab: looking up .* longer than 0\.5 s; check your DNS"):
        KafkaGateway.connect("slow.example:9092", name="lab", timeout=0.5)
    assert monotonic() - begin < PATIENCE / 2
    monkeypatch.setattr("quotaform.cluster.wire.cluster_connection._SHARE", 0.2)
    with pytest.raises(ConnectError) as caught:
        KafkaGateway.connect("slow.example:9092,127.0.0.1:1", name="lab", timeout=1.0)
    text = str(caught.value)
    assert text.startswith("Cannot connect to lab: looking up the host name slow.example takes longer than 0.5 s;")
    assert text.endswith("Also tried: 127.0.0.1:1 (connection refused).")


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x03",
        b"\x16\x03\x03\x00\x7a\x02\x00\x00",
        b"\x15\x03\x03",
        b"\x16\x03\x03\x40\x00" + b"\xff" * 100,
        b"\0\0\0\4abcd",
        b"\0" * 64,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_half_a_tls_handshake_or_garbage_is_one_sentence_in_time(answer: bytes, goes_on: bool) -> None:
    with server(sending(answer, goes_on=goes_on)) as address:
        text = failure(address, TLS, timeout=0.4)
    assert text.startswith(
        (
            f"{address} did not answer the TLS handshake",
            f"{address} answered the TLS handshake with something that is not TLS, or damaged (TLS: ",
            f"{address} closed the connection during the TLS handshake",
        )
    )
    assert "PLAINTEXT" not in text


@pytest.mark.parametrize(("server", "shown"), [("10.0.0.1:9092", "b1.example"), ("${env:SERVERS}", "${env:SERVERS}")])
def test_the_dns_name_of_a_server_that_a_variable_holds_is_not_shown(server: str, shown: str) -> None:
    cause = LoginError("the service kafka/{name} is unknown", "check it", name="b1.example")
    failure = Failure(server=server, stage=Stage.SASL, cause=cause, seconds=1)
    error = connect_error("lab", SASL, [failure])
    assert str(error) == f"Cannot connect to lab: the service kafka/{shown} is unknown; check it."


@pytest.mark.parametrize(
    ("ca", "remedy"),
    [
        (None, "give the CA that issued it with ssl.truststore.type=PEM and ssl.truststore.location."),
        ("", "add the CA that issued it to the truststore of the client properties, which does not contain it."),
    ],
)
def test_a_truststore_that_lacks_the_issuer_is_to_be_completed(ca: str | None, remedy: str) -> None:
    refused = SSLCertVerificationError("x")
    refused.verify_code, refused.verify_message = 20, "unable to get local issuer certificate"
    failure = Failure(server="b:1", stage=Stage.TLS, cause=refused, seconds=1)
    error = connect_error("lab", ClientConfig(security_protocol="SSL", tls=Tls(ca=ca)), [failure])
    assert str(error).endswith(f"(unable to get local issuer certificate); {remedy}")
