"""`/metrics` and `/healthz`: what is answered, and that nobody can keep others out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from socket import create_connection, create_server
from typing import Any

import pytest

from quotaform.drift.metric import merge_run
from quotaform.drift.prometheus import AT_ONCE, MetricsServer, parse_metrics
from tests.unit.test_metrics import run_of

pytestmark = pytest.mark.slow

HEALTH: dict[str, Any] = {"status": "ok"}


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, MetricsServer]]:
    samples = merge_run({}, run_of())
    made = MetricsServer(request.param, 0, lambda: samples, lambda: (HEALTH["status"] != "stalled", HEALTH))
    made.start()
    yield request.param, made
    made.close()


def ask(server: tuple[str, MetricsServer], method: str, path: str) -> tuple[int, str, str]:
    connection = HTTPConnection(server[0], server[1].port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    finally:
        connection.close()


def test_metrics_are_served_in_the_format_of_prometheus(server: tuple[str, MetricsServer]) -> None:
    status, content_type, text = ask(server, "GET", "/metrics")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert parse_metrics(text) == merge_run({}, run_of())


def test_health_is_json_and_the_status_says_whether_it_works(
    server: tuple[str, MetricsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(server, "GET", "/healthz")[::2] == (200, '{"status": "ok"}\n')
    monkeypatch.setitem(HEALTH, "status", "stalled")
    status, content_type, text = ask(server, "GET", "/healthz")
    assert (status, content_type, json.loads(text)) == (503, "application/json", {"status": "stalled"})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/../../etc/passwd", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
        ("HEAD", "/metrics", 405),
        ("GET", "/metrics?name[]=quotaform_managed_entities", 200),
    ],
)
def test_nothing_else_is_served(server: tuple[str, MetricsServer], method: str, path: str, status: int) -> None:
    assert ask(server, method, path)[0] == status


def test_connections_that_say_nothing_keep_nobody_out(server: tuple[str, MetricsServer]) -> None:
    with ExitStack() as stack:
        for _ in range(3 * AT_ONCE):
            connection = stack.enter_context(create_connection((server[0], server[1].port)))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert ask(server, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("request_bytes", [b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 70_000])
def test_what_is_no_request_is_refused_and_others_are_served(
    server: tuple[str, MetricsServer], request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with create_connection((server[0], server[1].port)) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(1)
        while connection.recv(65536):
            pass
    assert ask(server, "GET", "/healthz")[0] == 200
    assert capfd.readouterr().err == ""


def test_an_address_that_is_taken_is_an_error() -> None:
    with create_server(("127.0.0.1", 0)) as listening, pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", listening.getsockname()[1], dict, lambda: (True, {}))
