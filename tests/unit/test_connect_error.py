"""What is said when a server is not what it should be: servers on loopback that do one wrong thing each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET, create_server, getaddrinfo, socket
from ssl import CERT_REQUIRED, PROTOCOL_TLS_SERVER, SSLCertVerificationError, SSLContext, TLSVersion
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
from quotaform.cluster.wire.connect_error import connect_error
from quotaform.cluster.wire.failure import (
    CertificateError,
    Failure,
    LoginError,
    Stage,
    read_pem_validity,
    read_validity,
)
from quotaform.model.errors import AuthenticationError, ClusterError, ConnectError
from quotaform.model.text import Secret
from quotaform.sandbox.security import Certificates
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


def silent(connection: socket) -> None:
    """Listen until the client goes."""
    while connection.recv(65536):
        pass


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> PatientClock:
    """The clock of all connections."""
    return PatientClock.of_connections(monkeypatch)


def failure(servers: str, config: ClientConfig | None = None, *, timeout: float = 60.0) -> str:
    """Connect, and return why that failed; what takes as long as the time limit is told as that."""
    before = set(threads())
    with pytest.raises(ClusterError) as caught:
        KafkaGateway.connect(servers, config, name="lab", timeout=timeout)
    assert not [thread for thread in set(threads()) - before if thread.name.startswith("quotaform")]
    text = str(caught.value)
    assert text.startswith("Cannot connect to lab: ")
    assert isinstance(caught.value, (ConnectError, AuthenticationError))
    return text.removeprefix("Cannot connect to lab: ")


TLS = ClientConfig(security_protocol="SSL", tls=Tls())
SASL = ClientConfig(
    security_protocol="SASL_PLAINTEXT",
    credentials=Password(mechanism="PLAIN", username="alice", password=Secret("alice-secret")),
)


def test_several_servers_that_are_down_are_all_tried_and_named() -> None:
    text = failure("127.0.0.1:1,no-such-host.invalid:2,127.0.0.1:3,[::1]:4,127.0.0.1:5")
    assert text == (
        "nothing listens at 127.0.0.1:1 (connection refused); check the host and port, and whether the broker is "
        "running. Also tried: no-such-host.invalid:2 (name not resolved), 127.0.0.1:3 (connection refused),"
        " [::1]:4 (connection refused) and 1 more."
    )


def test_a_name_that_does_not_resolve_is_named_with_its_server() -> None:
    assert failure("no-such-host.invalid:9092") == (
        "the host name no-such-host.invalid of no-such-host.invalid:9092 cannot be resolved;"
        " check its spelling and your DNS."
    )


@pytest.fixture
def lookups() -> Iterator[Event]:
    """Set when lookups of names may end, at the end of the test in any case."""
    over, before = Event(), set(threads())
    yield over
    over.set()
    for thread in set(threads()) - before:
        thread.join(PATIENCE)


def test_a_name_server_that_does_not_answer_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch, lookups: Event
) -> None:
    monkeypatch.setattr("quotaform.cluster.wire.stream.getaddrinfo", slow_getaddrinfo(lookups))
    begin = monotonic()
    with pytest.raises(ConnectError, match=r"^Cannot connect to lab: looking up .* longer than 0\.5 s; check your DNS"):
        KafkaGateway.connect("slow.example:9092", name="lab", timeout=0.5)
    assert monotonic() - begin < PATIENCE / 2


def test_a_name_that_takes_too_long_leaves_the_other_servers_to_be_tried(
    monkeypatch: pytest.MonkeyPatch, lookups: Event
) -> None:
    """One name whose server does not answer took all the time there was."""
    monkeypatch.setattr("quotaform.cluster.wire.stream.getaddrinfo", slow_getaddrinfo(lookups))
    monkeypatch.setattr("quotaform.cluster.wire.cluster_connection._SHARE", 0.2)
    with pytest.raises(ConnectError) as caught:
        KafkaGateway.connect("slow.example:9092,127.0.0.1:1", name="lab", timeout=1.0)
    text = str(caught.value)
    assert text.startswith("Cannot connect to lab: looking up the host name slow.example takes longer than 0.5 s;")
    assert text.endswith("Also tried: 127.0.0.1:1 (connection refused).")


def slow_getaddrinfo(over: Event) -> Callable[..., object]:
    """Return a lookup that knows addresses and no names until an event is set."""

    def look_up(*arguments: Any, **options: Any) -> Any:
        return getaddrinfo(*arguments, **options) if options else over.wait(PATIENCE) and []

    return look_up


@pytest.mark.parametrize("config", [ClientConfig(), SASL])
def test_a_server_that_accepts_and_does_not_answer_is_given_up_in_time(config: ClientConfig) -> None:
    with server(silent) as address:
        assert failure(address, config, timeout=0.5) == (
            f"{address} accepted the connection and did not answer within 0.5 s; "
            "check that this is a Kafka broker and that it is healthy."
        )


def test_a_server_that_does_not_answer_a_tls_handshake_is_given_up_in_time() -> None:
    with server(silent) as address:
        text = failure(address, TLS, timeout=0.5)
    assert text.startswith(f"{address} did not answer the TLS handshake within 0.5 s; check that the port speaks TLS")


def test_an_address_that_accepts_no_connection_is_given_up_in_time() -> None:
    with closing(socket()) as listening:
        listening.setsockopt(SOL_SOCKET, SO_RCVBUF, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        waiting = [socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        text = failure(address, timeout=0.5)
        for each in waiting:
            each.close()
    assert text.startswith(f"{address} did not accept a connection within 0.5 s; check the address, and whether")


def test_a_time_limit_is_shared_by_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotaform.cluster.wire.cluster_connection._SHARE", 0.5)
    with server(silent) as one, server(silent) as two:
        text = failure(f"{one},{two}", timeout=1.2)
    assert "accepted the connection and did not answer within 0.6 s" in text
    assert "(no response in time)" in text


def test_the_server_that_came_closest_is_told_first() -> None:
    with server(silent) as address:
        text = failure(f"127.0.0.1:1,{address}", timeout=0.5)
    assert text.startswith(f"{address} accepted the connection")
    assert text.endswith("Also tried: 127.0.0.1:1 (connection refused).")


def test_a_server_that_closes_the_connection_is_told_as_that() -> None:
    with server(lambda connection: None) as address:
        assert failure(address).startswith(f"{address} closed the connection at the first request")


def test_a_web_server_is_told_as_that() -> None:
    with server(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        assert failure(address) == f"{address} is a web server; use the port of a Kafka listener."


def test_a_tls_alert_to_plain_text_says_which_protocol_to_set() -> None:
    def alert(connection: socket) -> None:
        connection.recv(1)
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x50")

    with server(alert) as address:
        assert failure(address) == (
            f"{address} speaks TLS but security.protocol is PLAINTEXT; set security.protocol=SSL"
            " (and ssl.truststore.location), or use the port of a listener without TLS."
        )
        assert "set security.protocol=SASL_SSL" in failure(address, SASL)


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
    def talk(connection: socket) -> None:
        connection.recv(1)
        connection.sendall(answer)
        if goes_on:
            silent(connection)

    with server(talk) as address:
        text = failure(address, TLS, timeout=0.4)
    assert text.startswith(
        (
            f"{address} did not answer the TLS handshake",
            f"{address} answered the TLS handshake with something that is not TLS, or damaged (TLS: ",
            f"{address} closed the connection during the TLS handshake",
        )
    )
    assert "PLAINTEXT" not in text


def tls_server(certificates: Certificates) -> Talk:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)

    def talk(connection: socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            silent(tls)

    return talk


def trusting(certificates: Certificates, **more: Any) -> ClientConfig:
    return ClientConfig(security_protocol="SSL", tls=Tls(ca=certificates.authority.read_text(), **more))


def test_a_certificate_of_an_unknown_authority_is_not_trusted(certificates: Certificates) -> None:
    with server(tls_server(certificates)) as address:
        text = failure(address, TLS)
    assert text.startswith(
        f"the certificate of {address} is not trusted (self-signed certificate in certificate chain);"
    )
    assert text.endswith("give the CA that issued it with ssl.truststore.type=PEM and ssl.truststore.location.")


def test_a_certificate_for_another_host_is_refused_unless_that_is_not_checked(certificates: Certificates) -> None:
    """The remedy was to disable the check."""
    with server(tls_server(certificates), host="127.0.0.2") as address:
        assert failure(address, trusting(certificates)) == (
            f"the certificate of {address} was not issued for 127.0.0.2; connect by a name that the certificate"
            " contains, or have it issued for this one."
        )
        unchecked = trusting(certificates, check_host=False)
        assert "accepted the connection and did not answer" in failure(address, unchecked, timeout=0.5)


@pytest.fixture(scope="module")
def make_certificate(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Path]:
    """Return what makes a self-signed certificate for loopback, valid between two times (YYMMDD)."""

    key = certificates.client("tenant").key

    def make(begin: str, end: str) -> Path:
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


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        ("190102", "200304", "has expired: it is valid from 2019-01-02T00:00:00Z until 2020-03-04T00:00:00Z"),
        ("480102", "490304", "is not valid yet: it is valid from 2048-01-02T00:00:00Z until 2049-03-04T00:00:00Z"),
    ],
)
class TestCertificatesOutOfTheirTime:
    def test_that_of_the_broker_is_to_be_renewed(
        self, make_certificate: Callable[[str, str], Path], begin: str, end: str, words: str
    ) -> None:
        """Of a certificate that was not valid yet the remedy was to give the CA."""
        path = make_certificate(begin, end)
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        config = ClientConfig(security_protocol="SSL", tls=Tls(ca=path.read_text()))

        def talk(connection: socket) -> None:
            with context.wrap_socket(connection, server_side=True) as tls:
                silent(tls)

        with server(talk) as address:
            assert failure(address, config) == (
                f"the certificate of {address} {words}; renew it on the broker, or check the clock of this machine."
            )

    def test_that_of_the_client_is_to_be_renewed(
        self,
        certificates: Certificates,
        make_certificate: Callable[[str, str], Path],
        begin: str,
        end: str,
        words: str,
    ) -> None:
        """The remedy was to use one that a CA in the broker's truststore issued, which it was."""
        path = make_certificate(begin, end)
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server)
        context.load_verify_locations(path)
        context.verify_mode = CERT_REQUIRED

        def talk(connection: socket) -> None:
            context.wrap_socket(connection, server_side=True).close()

        with server(talk) as address:
            assert failure(address, trusting(certificates, key_store=Secret(path.read_text()))) == (
                f"{address} did not accept the client certificate, which {words}; renew it, or check the clock of this "
                "machine."
            )


def test_a_self_signed_certificate_is_not_trusted(make_certificate: Callable[[str, str], Path]) -> None:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_certificate("200102", "490304"))

    def talk(connection: socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with server(talk) as address:
        assert failure(address, TLS) == (
            f"the certificate of {address} is self-signed and not trusted; if it is the right one, give it with"
            " ssl.truststore.type=PEM and ssl.truststore.location."
        )


def test_the_validity_of_a_certificate_is_read_or_left_out() -> None:
    times = b"\x30\x20" + b"\x17\x0d991231235959Z" + b"\x18\x0f20500101000000Z"
    found = read_validity(b"\x30\x82garbage" + times + b"rest")
    assert str(found) == "it is valid from 1999-12-31T23:59:59Z until 2050-01-01T00:00:00Z"
    assert read_validity(b"\x30\x20" + b"\x17\x0d991331235959Z" * 2) is None
    assert read_validity(b"") is None
    for text in ("", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"):
        assert read_pem_validity(text) is None


def test_without_a_tls_version_in_common_the_setting_is_named(certificates: Certificates) -> None:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    context.maximum_version = TLSVersion.TLSv1_2

    def talk(connection: socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    config = ClientConfig(
        security_protocol="SSL", tls=Tls(ca=certificates.authority.read_text(), versions=("TLSv1.3",))
    )
    with server(talk) as address:
        assert failure(address, config) == (
            f"{address} and this client have no TLS version in common;"
            " compare ssl.enabled.protocols of this client and of the broker."
        )


@pytest.mark.parametrize(("server", "shown"), [("10.0.0.1:9092", "b1.example"), ("${env:SERVERS}", "${env:SERVERS}")])
def test_the_dns_name_of_a_server_that_a_variable_holds_is_not_shown(server: str, shown: str) -> None:
    cause = LoginError("the service kafka/{name} is unknown", "check it", name="b1.example")
    failure = Failure(server=server, stage=Stage.SASL, cause=cause, seconds=1)
    error = connect_error("lab", SASL, [failure])
    assert str(error) == f"Cannot connect to lab: the service kafka/{shown} is unknown; check it."


@pytest.mark.parametrize(
    ("has_truststore", "remedy"),
    [
        (False, "give the CA that issued it with ssl.truststore.type=PEM and ssl.truststore.location."),
        (True, "add the CA that issued it to the truststore of the client properties, which does not contain it."),
    ],
)
def test_a_truststore_that_lacks_the_issuer_is_to_be_completed(has_truststore: bool, remedy: str) -> None:
    refused = SSLCertVerificationError("x")
    refused.verify_code, refused.verify_message = 20, "unable to get local issuer certificate"
    failure = Failure(server="b:1", stage=Stage.TLS, cause=CertificateError(refused, None), seconds=1)
    error = connect_error(
        "lab", ClientConfig(security_protocol="SSL", tls=Tls(ca="" if has_truststore else None)), [failure]
    )
    assert str(error).endswith(f"(unable to get local issuer certificate); {remedy}")
