"""One request: bounded in time and size, to one host, and no error shows a secret."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quotaform import __version__
from quotaform.http.client import DEFAULT_LIMITS, Limits, Proxy, send
from quotaform.http.message import Request, Url
from quotaform.model.errors import FileReadError, HttpError, QuotaformError
from quotaform.model.text import Secret
from quotaform.sandbox.security import Certificates
from tests.http_server import HttpServer, Received, answer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_proxy")]

CANARY = "c4nary-T0ken"
SHORT = Limits(connect=60.0, total=0.5)
"""For a server that hangs; elsewhere a slow machine must not be taken for one."""


def get(server: HttpServer, path: str = f"/hook/{CANARY}?key={CANARY}") -> Request:
    return Request(method="GET", url=Url.parse(server.url + path), credentials={"Authorization": Secret(CANARY)})


def fail(request: Request, limits: Limits = DEFAULT_LIMITS) -> HttpError:
    """Send a request that must fail, and look for what must not be shown."""
    with pytest.raises(HttpError) as caught:
        send(request, limits)
    shown = f"{caught.value} {caught.value!r} {vars(caught.value)} {request!r} {caught.value.__cause__!r}"
    assert CANARY not in shown
    assert caught.value.host == request.url.origin
    return caught.value


def test_a_request_arrives_with_its_headers_and_the_answer_is_whole() -> None:
    with HttpServer(lambda _: answer(201, {"a": 1}, Link="x", link="y", X_Other="z")) as server:
        url = Url.parse(f"{server.url}/a?b=c")
        response = send(
            Request(
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


def test_a_host_that_cannot_be_reached_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = fail(Request(method="GET", url=Url.parse(f"http://127.0.0.1:{port}/{CANARY}")))
    assert str(refused).endswith("cannot be reached: the connection was refused; check the URL and the proxy")
    unknown = fail(Request(method="GET", url=Url.parse(f"https://nowhere.invalid/{CANARY}")))
    assert "cannot be reached: the host name is unknown" in str(unknown)
    assert (refused.may_have_arrived, refused.may_pass) == (False, True)
    assert not unknown.may_have_arrived


def test_a_redirect_to_another_host_is_not_followed_and_gets_no_token() -> None:
    with HttpServer(lambda _: answer(200)) as other:
        with HttpServer(lambda _: answer(302, Location=f"{other.url}/{CANARY}?{CANARY}")) as server:
            error = fail(get(server))
        assert not other.received
    assert str(error) == (
        f"{server.url} redirects to {other.url}, and redirects to another host, scheme or port are not followed; "
        "if it is the right one, give its URL"
    )
    assert error.status == 302


def test_a_token_is_sent_encrypted_or_not_at_all() -> None:
    error = fail(
        Request(
            method="GET",
            url=Url.parse(f"http://git.example.com/{CANARY}"),
            credentials={"Private-Token": Secret(CANARY)},
        )
    )
    assert str(error) == "http://git.example.com would receive the token unencrypted, so nothing was sent; use https"


@pytest.mark.parametrize("value", [f"{CANARY}\nX: y", f"{CANARY}\r", f"{CANARY}ü", f"{CANARY}\x00"])
def test_a_token_that_no_header_can_hold_is_an_error_that_does_not_show_it(value: str) -> None:
    """http.client quotes the header in its error."""
    with HttpServer(lambda _: answer()) as server:
        request = Request(method="GET", url=Url.parse(server.url), credentials={"Authorization": Secret(value)})
        error = fail(request)
        assert not server.received
    assert "was not asked: the token or another header contains a line break" in str(error)


def test_a_url_shows_its_origin_alone() -> None:
    url = Url.parse(f"HTTPS://Hooks.Example.com:443/{CANARY}?a={CANARY}#{CANARY}")
    assert (str(url), url.origin, CANARY in repr(url)) == ("https://hooks.example.com",) * 2 + (False,)
    assert url.reveal() == f"https://hooks.example.com/{CANARY}?a={CANARY}"
    assert Url.parse("http://[::1]:80").reveal() == "http://[::1]/"
    assert Url.parse("https://a/api/v3/").under("/user").reveal() == "https://a/api/v3/user"


class TestTls:
    """The certificate is verified, always."""

    @staticmethod
    def server(certificates: Certificates) -> HttpServer:
        pem = str(certificates.server)
        return HttpServer(lambda _: answer(200, b"secure"), tls=(pem, pem))

    def test_a_certificate_of_a_given_authority_is_trusted(self, certificates: Certificates) -> None:
        with self.server(certificates) as server:
            response = send(get(server), ca_file=certificates.authority)
        assert response.body == b"secure"

    def test_another_certificate_is_refused(self, certificates: Certificates) -> None:
        with self.server(certificates) as server:
            error = fail(get(server))
            assert not server.received
        assert "has a certificate that is not trusted" in str(error)
        assert (error.may_have_arrived, error.may_pass) == (False, False)

    def test_a_server_without_tls_is_an_error(self) -> None:
        with HttpServer(lambda _: answer()) as server:
            error = fail(Request(method="GET", url=Url.parse(server.url.replace("http:", "https:") + f"/{CANARY}")))
        assert "cannot be reached with TLS" in str(error)

    def test_a_ca_file_must_be_readable_and_hold_certificates(self, tmp_path: Path) -> None:
        request = Request(method="GET", url=Url.parse("https://localhost:1/"))
        with pytest.raises(FileReadError, match="cannot be read"):
            send(request, ca_file=tmp_path / "ca.pem")
        (tmp_path / "ca.pem").write_text("no certificate")
        with pytest.raises(QuotaformError, match="contains no readable PEM certificate"):
            send(request, ca_file=tmp_path / "ca.pem")


class TestProxy:
    """Proxies come from the environment."""

    def test_a_proxy_is_asked_for_other_hosts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with HttpServer(lambda _: answer(200, b"by proxy")) as proxy:
            monkeypatch.setenv("http_proxy", f"http://me:{CANARY}@localhost:{proxy.port}")
            response = send(Request(method="GET", url=Url.parse("http://elsewhere.invalid/path")))
        assert response.body == b"by proxy"
        (received,) = proxy.received
        assert (received.target, received.headers["host"]) == ("http://elsewhere.invalid/path", "elsewhere.invalid")
        assert received.headers["proxy-authorization"].startswith("Basic ")

    def test_tls_goes_through_a_tunnel_and_a_proxy_may_refuse_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with HttpServer(lambda _: answer(407)) as proxy:
            monkeypatch.setenv("https_proxy", f"localhost:{proxy.port}")
            error = fail(Request(method="GET", url=Url.parse(f"https://elsewhere.invalid/{CANARY}")))
        assert str(error) == "https://elsewhere.invalid cannot be reached: the proxy refused to connect to it"
        assert (proxy.received[0].method, proxy.received[0].target) == ("CONNECT", "elsewhere.invalid:443")

    def test_a_proxy_that_hangs_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def reply(_: Received) -> Iterable[bytes]:
            proxy.is_over.wait(60)
            yield b""

        with HttpServer(reply) as proxy:
            monkeypatch.setenv("https_proxy", f"http://localhost:{proxy.port}")
            error = fail(Request(method="GET", url=Url.parse("https://elsewhere.invalid/")), SHORT)
        assert "cannot be reached within 0.5 s" in str(error)

    def test_hosts_without_a_proxy_are_asked_directly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
        monkeypatch.setenv("no_proxy", "near.invalid")
        assert Proxy.of(Url.parse("http://near.invalid/")) is None
        assert Proxy.of(Url.parse("http://far.invalid/")) == Proxy("proxy.invalid", 1, {})

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_a_token_for_this_machine_does_not_go_to_a_proxy(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        """With http_proxy set, the proxy was sent the token of a server on this machine, unencrypted."""
        with HttpServer(lambda _: answer(200, b"by proxy")) as proxy, HttpServer(lambda _: answer()) as server:
            monkeypatch.setenv("http_proxy", f"http://localhost:{proxy.port}")
            request = get(server)
            send(replace(request, url=Url.parse(f"http://{host}:{request.url.port}/")))
            assert not proxy.received
            assert server.received[0].headers["authorization"] == CANARY

    @pytest.mark.parametrize("url", ["http://git.invalid/", "http://localhost.invalid/", "http://localhost./"])
    def test_a_token_is_not_sent_unencrypted_to_a_proxy_on_this_machine(
        self, monkeypatch: pytest.MonkeyPatch, url: str
    ) -> None:
        with HttpServer(lambda _: answer()) as proxy:
            monkeypatch.setenv("http_proxy", f"http://localhost:{proxy.port}")
            error = fail(Request(method="GET", url=Url.parse(url), credentials={"Private-Token": Secret(CANARY)}))
            assert not proxy.received
        assert "would receive the token unencrypted" in str(error)

    @pytest.mark.parametrize("proxy", [f"socks5://{CANARY}:1", f"https://{CANARY}", "http://[", "http://:x"])
    def test_a_proxy_that_cannot_be_used_is_an_error(self, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
        monkeypatch.setenv("http_proxy", proxy)
        error = fail(Request(method="GET", url=Url.parse("http://elsewhere.invalid/")))
        assert str(error).endswith("the proxy of the variable http_proxy must be http://HOST:PORT")
