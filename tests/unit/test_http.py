"""One request: what is sent, in which time, over TLS; `tests/golden/reading-*.txt`: what is answered and refused."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from quotaform import __version__
from quotaform.http.client import HttpRequest, Transport, Url, trusting
from quotaform.model.errors import FileReadError, HttpError, QuotaformError
from quotaform.model.text import Secret
from tests.http_server import HttpServer, Received, answer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_proxy")]

CANARY = "c4nary-T0ken"
USUAL = Transport()
SHORT = Transport(connect=60.0, total=0.5)
"""For a server that hangs; elsewhere a slow machine must not be taken for one."""


def get(server: HttpServer, path: str = f"/hook/{CANARY}?key={CANARY}") -> HttpRequest:
    return HttpRequest(method="GET", url=Url.parse(server.url + path), credentials={"Authorization": Secret(CANARY)})


def fail(request: HttpRequest, transport: Transport = USUAL) -> HttpError:
    """Send a request that must fail, and look for what must not be shown."""
    with pytest.raises(HttpError) as caught:
        transport.send_once(request)
    shown = f"{caught.value} {caught.value!r} {vars(caught.value)} {request!r} {caught.value.__cause__!r}"
    assert CANARY not in shown
    assert caught.value.host == request.url.origin
    return caught.value


def test_a_request_arrives_with_its_headers_and_the_answer_is_whole() -> None:
    with HttpServer(lambda _: answer(201, {"a": 1}, Link="x", link="y", X_Other="z")) as server:
        url = Url.parse(f"{server.url}/a?b=c")
        response = Transport().send_once(
            HttpRequest(
                method="POST",
                url=url,
                headers={"Accept": "application/json"},
                credentials={"Authorization": Secret(CANARY)},
                body=b"content",
            )
        )
    assert (response.status, response.json(), response.is_success) == (201, {"a": 1}, True)
    assert (response.headers["link"], response.headers["x-other"]) == ("x, y", "z")
    (received,) = server.received
    assert (received.method, received.target, received.body) == ("POST", "/a?b=c", b"content")
    assert received.headers["authorization"] == CANARY
    assert received.headers["user-agent"] == f"quotaform/{__version__}"
    assert received.headers["host"] == f"localhost:{server.port}"
    assert CANARY not in repr(response)


def test_a_server_that_hangs_is_given_up() -> None:
    def reply(_: Received) -> Iterable[bytes]:
        server.is_over.wait(60)
        yield b""

    with HttpServer(reply) as server:
        error = fail(get(server), SHORT)
    assert str(error) == f"{server.url} did not answer within 0.5 s"
    assert (error.status, error.may_have_arrived, error.may_pass) == (None, True, True)


def test_nothing_is_sent_when_connecting_has_taken_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow name lookup let the timer find no socket: the request went out, and nothing cut it off any more."""
    connect = HTTPConnection.connect

    def slow(connection: HTTPConnection) -> None:
        time.sleep(0.6)
        connect(connection)

    monkeypatch.setattr(HTTPConnection, "connect", slow)
    with HttpServer(lambda _: answer(200)) as server:
        error = fail(get(server), SHORT)
        assert not server.received
    assert (error.may_have_arrived, error.may_pass) == (False, True)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_a_server_that_sends_a_byte_at_a_time_is_given_up(begin: bytes) -> None:
    """The timeout of a socket begins anew with each byte: such a server kept a run for days."""

    def reply(_: Received) -> Iterator[bytes]:
        yield begin
        while not server.is_over.wait(0.02):
            yield b"a"

    with HttpServer(reply) as server:
        started = time.monotonic()
        error = fail(get(server), SHORT)
    assert time.monotonic() - started < 20
    assert "did not answer within 0.5 s" in str(error)


def test_a_url_shows_its_origin_alone() -> None:
    url = Url.parse(f"HTTPS://Hooks.Example.com:443/{CANARY}?a={CANARY}#{CANARY}")
    assert (str(url), url.origin, CANARY in repr(url)) == ("https://hooks.example.com",) * 2 + (False,)
    assert url.reveal() == f"https://hooks.example.com/{CANARY}?a={CANARY}"
    assert Url.parse("http://[::1]:80").reveal() == "http://[::1]/"
    assert Url.parse("https://a/api/v3/").under("/user").reveal() == "https://a/api/v3/user"


class TestTls:
    """The certificate is verified, always."""

    @staticmethod
    def server(certificates: Path) -> HttpServer:
        pem = str(certificates / "server.pem")
        return HttpServer(lambda _: answer(200, b"secure"), tls=(pem, pem))

    def test_a_certificate_of_a_given_authority_is_trusted(self, certificates: Path) -> None:
        with self.server(certificates) as server:
            response = Transport(context=trusting(certificates / "ca.pem")).send_once(get(server))
        assert response.body == b"secure"

    def test_another_certificate_is_refused(self, certificates: Path) -> None:
        with self.server(certificates) as server:
            error = fail(get(server))
            assert not server.received
        assert "has a certificate that is not trusted" in str(error)
        assert (error.may_have_arrived, error.may_pass) == (False, False)

    def test_a_server_without_tls_is_an_error(self) -> None:
        with HttpServer(lambda _: answer()) as server:
            error = fail(HttpRequest(method="GET", url=Url.parse(server.url.replace("http:", "https:") + f"/{CANARY}")))
        assert "cannot be reached with TLS" in str(error)

    def test_a_ca_file_must_be_readable_and_hold_certificates(self, tmp_path: Path) -> None:
        with pytest.raises(FileReadError, match="cannot be read"):
            trusting(tmp_path / "ca.pem")
        (tmp_path / "ca.pem").write_text("no certificate")
        with pytest.raises(QuotaformError, match="contains no readable PEM certificate"):
            trusting(tmp_path / "ca.pem")


def test_a_proxy_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(_: Received) -> Iterable[bytes]:
        proxy.is_over.wait(60)
        yield b""

    with HttpServer(reply) as proxy:
        monkeypatch.setenv("https_proxy", f"http://localhost:{proxy.port}")
        error = fail(HttpRequest(method="GET", url=Url.parse("https://elsewhere.invalid/")), SHORT)
    assert "cannot be reached within 0.5 s" in str(error)
